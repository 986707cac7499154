//! The repository checks itself: what no compiler sees, but a reader would mind.
//!
//! Each rule is a function from sources to [`Finding`]s and has a test that makes it fail. The
//! tests in `tests/repository.rs` put the rules to this repository. What a rule lets pass stands
//! in `exceptions.toml`, each entry with its reason.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod crates;
pub mod exceptions;
pub mod licences;
pub mod offsets;
pub mod purity;
pub mod repository;
pub mod sizes;
pub mod source;
pub mod words;

use std::fmt;

/// Something that a rule minds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name, as in `exceptions.toml`.
    pub rule: &'static str,
    /// The file, from the root of the repository.
    pub path: String,
    /// Where in the file; 0 for all of it.
    pub line: usize,
    /// What is wrong, and what to do about it.
    pub what: String,
    /// How big it is, where the rule is about sizes.
    pub size: usize,
}

impl Finding {
    /// Returns a finding at a line of a file.
    pub fn new(rule: &'static str, path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { rule, path: path.into(), line, what: what.into(), size: 0 }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} ({})", self.path, self.line, self.what, self.rule)
    }
}
