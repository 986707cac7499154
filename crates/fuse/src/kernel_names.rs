//! The names that the kernel was told to keep, in case that they cannot be dropped all at once.

/// The most of one file, or of those that do not exist in one directory. The kernel asks for more of them each time.
const NAMES_MAX: usize = 1000;

/// A name in the directory with a number.
pub(crate) type Name = (u64, Box<[u8]>);

/// Names that the kernel was told in one epoch.
#[derive(Debug, Default)]
pub(crate) struct KernelNames {
    epoch: u64,
    names: Vec<Name>,
}

impl KernelNames {
    /// The kernel is told a name. Returns whether it may keep that.
    pub(crate) fn add(&mut self, epoch: u64, (directory, name): (u64, &[u8])) -> bool {
        if self.epoch != epoch {
            *self = Self { epoch, names: Vec::new() };
        }
        let is_known = self.names.iter().any(|one| (one.0, &*one.1) == (directory, name));
        if !is_known && self.names.len() < NAMES_MAX {
            self.names.push((directory, name.into()));
            return true;
        }
        is_known
    }

    /// Returns whether the kernel keeps one, in this epoch.
    pub(crate) fn is_kept(&self, epoch: u64) -> bool {
        self.epoch == epoch
    }

    /// Returns those that the kernel keeps, and notes that it keeps them no more.
    pub(crate) fn take(&mut self, epoch: u64) -> Vec<Name> {
        let taken = std::mem::take(self);
        if taken.epoch == epoch { taken.names } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_one_epoch() {
        let mut told = KernelNames::default();
        assert!(told.add(1, (7, b"a")) && told.add(1, (7, b"b")) && told.add(1, (7, b"a")));
        assert!(told.is_kept(1) && !told.is_kept(2));
        assert!(told.add(2, (8, b"c")) && !told.is_kept(1));
        assert_eq!(told.take(2), [(8, b"c".as_slice().into())]);
        assert!(!told.is_kept(2) && told.take(2).is_empty());
        told.add(2, (8, b"c"));
        assert!(told.take(3).is_empty());
    }

    #[test]
    fn names_beyond_the_bound_are_not_kept() {
        let mut told = KernelNames::default();
        let name = |number: usize| number.to_string().into_bytes();
        assert!((0..NAMES_MAX).all(|number| told.add(1, (7, &name(number)))));
        assert!(!told.add(1, (7, b"more")) && told.add(1, (7, b"0")));
        assert_eq!(told.take(1).len(), NAMES_MAX);
    }
}
