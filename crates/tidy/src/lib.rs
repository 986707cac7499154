//! Rules of the repository that the compiler does not check.
//!
//! Each rule is a function from sources to [`Finding`]s and has a test that makes it fail. The
//! tests in `tests/repository.rs` apply the rules to this repository. Exceptions are listed in
//! `exceptions.toml`, each with its reason.
//!
//! ```text
//! crates      which crate may depend on which; what each manifest and root file has
//! map         ARCHITECTURE.md: a row for each crate, in the order of the dependencies, and its size
//! pages       each crate has a page; each file that a document names exists
//! purity      no I/O in pure crates, `unsafe` only where it is listed;  offsets: byte order only in *-wire
//! sizes       files of at most 600 lines, functions of 70
//! words, phrases, spec      unfinished code, phrases that are not used, references to docs/spec
//! licences    of all dependencies
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod crates;
pub mod exceptions;
pub mod licences;
pub mod map;
pub mod offsets;
pub mod pages;
pub mod phrases;
pub mod purity;
pub mod repository;
pub mod sizes;
pub mod source;
pub mod spec;
pub mod words;

use std::fmt;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name, as in `exceptions.toml`.
    pub rule: &'static str,
    /// The file, relative to the root of the repository.
    pub path: String,
    /// The line; 0 for the whole file.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
    /// The size in lines, for rules about sizes.
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
