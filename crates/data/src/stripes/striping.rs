//! Where the bytes of a part of a file are in its objects, and which sizes of both belong together.
//! Spec: mdt-ost §11.3.

use std::ops::Range;

/// How a part of a file is spread over objects, one for each stripe. All offsets in objects are counted from the
/// start of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Striping {
    /// The part of the file.
    pub range: Range<u64>,
    /// Bytes, at least 1.
    pub stripe_size: u64,
    /// At least 1.
    pub stripes: u64,
}

impl Striping {
    fn width(&self) -> u64 {
        self.stripe_size.saturating_mul(self.stripes)
    }

    /// Returns the first byte of an object that is at or after a byte of the file: as many bytes of the stripe are
    /// in front of that.
    pub fn object_offset(&self, stripe: usize, at: u64) -> u64 {
        let (full, rest) = (at / self.width(), at % self.width());
        let before = self.stripe_size * stripe as u64;
        full * self.stripe_size + rest.saturating_sub(before).min(self.stripe_size)
    }

    /// Returns where a byte of an object is in the file; `None` if that is not in this part of the file.
    pub fn file_offset(&self, stripe: usize, at: u64) -> Option<u64> {
        Some(self.place(stripe, at)).filter(|place| self.range.contains(place))
    }

    fn place(&self, stripe: usize, at: u64) -> u64 {
        let (full, rest) = (at / self.stripe_size, at % self.stripe_size);
        let start = self.stripe_size.saturating_mul(stripe as u64);
        full.saturating_mul(self.width()).saturating_add(start).saturating_add(rest)
    }

    /// Returns the size that the file has at least if an object has this size: 0 if no byte of the object is in this
    /// part of the file.
    pub fn file_size(&self, stripe: usize, object_size: u64) -> u64 {
        let Some(last) = object_size.checked_sub(1) else { return 0 };
        let end = self.place(stripe, last).saturating_add(1);
        if end > self.range.start { end.min(self.range.end) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_size_of_an_object_is_one_of_the_file() {
        let whole = Striping { range: 0..u64::MAX, stripe_size: 10, stripes: 3 };
        let sizes = [(0, 0), (0, 1), (0, 10), (1, 10), (2, 3), (0, 11), (2, 20)];
        let expected = [0, 1, 10, 20, 23, 31, 60];
        assert_eq!(sizes.map(|(stripe, size)| whole.file_size(stripe, size)), expected);
        let part = Striping { range: 20..35, ..whole };
        assert_eq!(
            [(1, 10), (2, 1), (0, 20)].map(|(k, size)| part.file_size(k, size)),
            [0, 21, 35]
        );
        assert_eq!([(2, 9), (0, 15)].map(|(k, at)| part.file_offset(k, at)), [Some(29), None]);
    }

    proptest! {
        #[test]
        fn the_sizes_of_the_objects_of_a_cut_file_are_its_size(
            size in 0..2_000_u64, stripes in 1..6_u64, stripe_size in 1..60_u64, start in 0..20_u64,
        ) {
            let range = start..u64::MAX;
            let striping = Striping { range, stripe_size, stripes };
            let sizes = (0..stripes as usize).map(|stripe| {
                striping.file_size(stripe, striping.object_offset(stripe, size))
            });
            prop_assert_eq!(sizes.max(), Some(if size > start { size } else { 0 }));
        }
    }
}
