//! Grammars of the operator, and presets.
