//! The bodies of the larger fuzz targets: bytes between machines, and operations of one machine.
#![forbid(unsafe_code)]

pub mod lnet_ops;
pub mod socklnd_pair;
pub mod socklnd_stream;

use std::fmt::{Debug, Display};
use std::str::FromStr;

/// Requires that a parsed value prints to text that parses to the same, and that an error has a
/// text.
pub fn print_and_parse<T: FromStr<Err: Display> + Display + Debug + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => {
            let printed = value.to_string();
            let again = printed.parse::<T>().unwrap_or_else(|error| panic!("{printed:?}: {error}"));
            assert_eq!(again, value, "{printed:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Choices from the fuzzer's bytes; zeros after their end.
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Returns a number below `bound`, which is at most 65,536.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let number = usize::from(self.byte());
        let number = if bound > 256 { number << 8 | usize::from(self.byte()) } else { number };
        number % bound.max(1)
    }

    pub(crate) fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }
}
