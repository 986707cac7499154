//! What a file must have to be found.

use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fulmar_base::Errno;
use fulmar_text::pattern::is_like;

use crate::lfs::getstripe::{Stripes, stripes_of};

/// A condition, or its opposite.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) is_not: bool,
    pub(super) test: Test,
}

#[derive(Debug)]
pub(super) enum Test {
    Name(String),
    /// The type, as the high bits of a mode.
    Type(u32),
    Size(Number),
    Age(Time, Number),
    Uid(Number),
    Gid(Number),
    Ost(Vec<u32>),
    StripeCount(Number),
    StripeSize(Number),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Time {
    Accessed,
    Modified,
    Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Less,
    Equal,
    More,
}

/// A number that a quantity is compared with, in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) sign: Sign,
    pub(super) value: u64,
    pub(super) unit: u64,
}

impl Number {
    /// Compares a quantity, rounded to the unit.
    fn takes(self, rounded: u64) -> bool {
        match self.sign {
            Sign::Less => rounded < self.value,
            Sign::Equal => rounded == self.value,
            Sign::More => rounded > self.value,
        }
    }

    /// Compares a size, of which a started unit counts as one.
    fn takes_size(self, size: u64) -> bool {
        self.takes(size.div_ceil(self.unit).saturating_mul(self.unit))
    }

    /// Compares an age, of which only full units count.
    fn takes_age(self, age: u64) -> bool {
        self.takes(age / self.unit * self.unit)
    }
}

/// A file that may be one of those that are wanted.
pub(super) struct Candidate<'a> {
    path: &'a Path,
    found: Metadata,
    now: i64,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(path: &'a Path, found: Metadata, now: i64) -> Self {
        Self { path, found, now }
    }

    /// Returns whether all conditions hold. Those that need another round trip are looked at last.
    pub(super) fn meets_all(&self, conditions: &[Condition]) -> io::Result<bool> {
        let needs_layout = |one: &&Condition| {
            matches!(one.test, Test::Ost(_) | Test::StripeCount(_) | Test::StripeSize(_))
        };
        let (later, first): (Vec<_>, Vec<_>) = conditions.iter().partition(needs_layout);
        if !first.iter().all(|one| self.meets(&one.test) != one.is_not) {
            return Ok(false);
        }
        if later.is_empty() {
            return Ok(true);
        }
        let stripes = self.stripes()?;
        Ok(later.iter().all(|one| is_striped(&stripes, &one.test) != one.is_not))
    }

    fn meets(&self, test: &Test) -> bool {
        let found = &self.found;
        match test {
            Test::Name(pattern) => {
                let name = self.path.file_name().unwrap_or(self.path.as_os_str());
                is_like(pattern.as_bytes(), name.as_bytes())
            }
            Test::Type(kind) => found.mode() >> 12 == *kind,
            Test::Size(size) => size.takes_size(found.len()),
            Test::Age(which, age) => {
                let time = match which {
                    Time::Accessed => found.atime(),
                    Time::Modified => found.mtime(),
                    Time::Changed => found.ctime(),
                };
                // What is from the future has no age.
                age.takes_age(self.now.saturating_sub(time).max(0) as u64)
            }
            Test::Uid(id) => id.takes(found.uid().into()),
            Test::Gid(id) => id.takes(found.gid().into()),
            Test::Ost(_) | Test::StripeCount(_) | Test::StripeSize(_) => false,
        }
    }

    /// Returns the stripes of a file; none for what has no layout.
    fn stripes(&self) -> io::Result<Option<Stripes>> {
        if !self.found.is_file() && !self.found.is_dir() {
            return Ok(None);
        }
        match stripes_of(self.path) {
            Ok(stripes) => Ok(Some(stripes)),
            Err(Errno::ENODATA) => Ok(None),
            Err(errno) => Err(io::Error::from_raw_os_error(errno.0)),
        }
    }
}

fn is_striped(stripes: &Option<Stripes>, test: &Test) -> bool {
    let Some(stripes) = stripes else { return false };
    match test {
        Test::Ost(wanted) => stripes.osts.iter().any(|ost| wanted.contains(ost)),
        Test::StripeCount(count) => count.takes(stripes.count),
        Test::StripeSize(size) => size.takes_size(stripes.size),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_compared_in_their_units() {
        let number = |sign, value: u64, unit: u64| Number { sign, value: value * unit, unit };
        assert!(number(Sign::Equal, 1, 1024).takes_size(10));
        assert!(!number(Sign::Less, 1, 1024).takes_size(10));
        assert!(number(Sign::Less, 1, 1024).takes_size(0));
        assert!(number(Sign::More, 1, 1024).takes_size(1025));
        assert!(number(Sign::Equal, 1, 86_400).takes_age(86_400 + 5));
        assert!(number(Sign::More, 0, 86_400).takes_age(86_400));
        assert!(!number(Sign::More, 0, 86_400).takes_age(86_399));
    }

    #[test]
    fn stripes_are_those_of_the_layout() {
        let stripes = Some(Stripes { count: 2, size: 1 << 20, osts: vec![0, 3] });
        let equal = |value| Number { sign: Sign::Equal, value, unit: 1 };
        assert!(is_striped(&stripes, &Test::Ost(vec![3, 9])));
        assert!(!is_striped(&stripes, &Test::Ost(vec![1])));
        assert!(is_striped(&stripes, &Test::StripeCount(equal(2))));
        assert!(is_striped(&stripes, &Test::StripeSize(equal(1 << 20))));
        assert!(!is_striped(&None, &Test::StripeCount(equal(0))));
    }
}
