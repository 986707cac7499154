//! Pseudo-random numbers from a seed.

/// A small, fast generator (SplitMix64). Equal seeds give equal sequences on every machine.
///
/// Not for secrets: the driver seeds it from the operating system where unpredictability matters.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of a 128-bit product: free of modulo bias to one part in 2^64 / bound.
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `low..=high`.
    ///
    /// # Panics
    /// If `low` is above `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "{low}..={high} is empty");
        match (high - low).checked_add(1) {
            Some(width) => low + self.below(width),
            None => self.u64(),
        }
    }

    /// Returns true with probability 1 / `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns a generator whose sequence is independent of this one's.
    pub fn fork(&mut self) -> Self {
        Self(self.u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_repeat_and_others_do_not() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            [rng.u64(), rng.u64(), rng.u64()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 4];
        for _ in 0..200 {
            let n = rng.between(3, 6);
            assert!((3..=6).contains(&n));
            seen[(n - 3) as usize] = true;
        }
        assert_eq!(seen, [true; 4]);
        assert_eq!(rng.below(0), 0);
        rng.between(0, u64::MAX);
    }
}
