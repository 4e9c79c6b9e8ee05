//! What the reader of sed scripts finds.
