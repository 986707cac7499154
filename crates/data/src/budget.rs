//! One budget for the memory of all data of a process.

/// What memory is for, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// What a reader waits for.
    Demand,
    /// What was written and is not on disk at its target.
    WriteBack,
    /// What may be read later, or again. It can be given up.
    Speculation,
}

/// A class may use what the others do not need, but leaves each of them its minimum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    total: u64,
    minimum: [u64; 3],
    used: [u64; 3],
    peak: u64,
}

impl Budget {
    /// Returns a budget of so many bytes, of which none are used. Reads and writes have at least a quarter
    /// each, speculation a sixteenth.
    pub fn new(total: u64) -> Self {
        Self { total, minimum: [total / 4, total / 4, total / 16], used: [0; 3], peak: 0 }
    }

    /// Reserves bytes for a class. False if there are not enough.
    pub fn take(&mut self, class: Class, bytes: u64) -> bool {
        let has_room = bytes <= self.room(class);
        if has_room {
            self.used[class as usize] += bytes;
            self.peak = self.peak.max(self.used.iter().sum());
        }
        has_room
    }

    /// Gives bytes of a class back.
    ///
    /// # Panics
    /// If the class does not have so many.
    pub fn give(&mut self, class: Class, bytes: u64) {
        let used = &mut self.used[class as usize];
        *used = used.checked_sub(bytes).expect("a class gives back what it has taken");
    }

    /// Bytes of a class are speculation from now on, also beyond what speculation may take: it can be
    /// given up.
    pub fn demote(&mut self, class: Class, bytes: u64) {
        self.give(class, bytes);
        self.used[Class::Speculation as usize] += bytes;
    }

    /// Changes the total. What is used beyond it stays so until it is given back.
    pub fn resize(&mut self, total: u64) {
        let Self { used, peak, .. } = *self;
        *self = Self { used, peak, ..Self::new(total) };
    }

    /// Returns how much a class can take now.
    pub fn room(&self, class: Class) -> u64 {
        let kept = |other: usize| self.minimum[other].saturating_sub(self.used[other]);
        let others = (0..3).filter(|&other| other != class as usize).map(kept);
        self.total.saturating_sub(self.used.iter().sum::<u64>() + others.sum::<u64>())
    }

    /// Returns how much a class has.
    pub fn used(&self, class: Class) -> u64 {
        self.used[class as usize]
    }

    /// Returns how much there is.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the most that was ever used.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLASSES: [Class; 3] = [Class::Demand, Class::WriteBack, Class::Speculation];

    #[test]
    fn each_class_has_a_minimum_that_others_cannot_take() {
        let mut budget = Budget::new(1600);
        assert!(!budget.take(Class::Demand, 1101) && budget.take(Class::Demand, 1100));
        assert_eq!(budget.room(Class::WriteBack), 400);
        assert!(budget.take(Class::WriteBack, 400) && !budget.take(Class::WriteBack, 1));
        assert!(budget.take(Class::Speculation, 100) && !budget.take(Class::Speculation, 1));
        budget.give(Class::Demand, 1000);
        budget.demote(Class::Demand, 100);
        assert_eq!(CLASSES.map(|class| budget.used(class)), [0, 400, 200]);
        assert_eq!(budget.peak(), 1600);
        budget.resize(160);
        assert_eq!((budget.room(Class::Demand), budget.used(Class::WriteBack)), (0, 400));
    }

    proptest! {
        #[test]
        fn the_total_is_never_exceeded(
            steps in prop::collection::vec((0..3_usize, 0..3_u8, 0..700_u64), 1..100),
        ) {
            let (mut budget, mut used) = (Budget::new(1600), [0; 3]);
            for (class, what, bytes) in steps {
                match what {
                    0 => {
                        let had = budget.take(CLASSES[class], bytes);
                        used[class] += if had { bytes } else { 0 };
                    }
                    1 => {
                        let bytes = bytes.min(used[class]);
                        budget.give(CLASSES[class], bytes);
                        used[class] -= bytes;
                    }
                    _ => {
                        let bytes = bytes.min(used[class]);
                        budget.demote(CLASSES[class], bytes);
                        used[class] -= bytes;
                        used[2] += bytes;
                    }
                }
                prop_assert_eq!(CLASSES.map(|class| budget.used(class)), used);
                prop_assert!(used.iter().sum::<u64>() <= budget.total());
                prop_assert!(budget.peak() <= budget.total());
            }
        }
    }
}
