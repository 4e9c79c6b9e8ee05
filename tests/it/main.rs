//! Integration tests: one binary, one file a subject.

mod verdict;
