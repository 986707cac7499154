//! The agreement of a namespace's tables.

use fulmar_lustre_wire::ldlm::LockType;

use super::lock::{Marks, State};
use super::{Namespace, tree};

impl Namespace {
    /// Checks that the tables agree, for tests: linear in the number of locks.
    ///
    /// # Panics
    /// If they do not.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.check_unused();
        self.check_early();
        self.check_replay();
        let mut indexed = 0;
        for place in self.resources.places() {
            let (resource, mut in_tree) = (self.resources.at(place), Vec::new());
            assert_eq!(self.resources.find(&resource.desc), Some(place));
            let whole = [(0, 0, 0), (u32::MAX, u64::MAX, u32::MAX)];
            tree::all(&self.locks, resource.root, whole, 0, &mut in_tree);
            assert_eq!(tree::check(&self.locks, resource.root), Ok(in_tree.len() as u32));
            assert!(in_tree.len() <= resource.locks as usize);
            for &lock in &in_tree {
                assert_eq!(self.locks.at(lock).resource, place);
                assert!(self.locks.at(lock).is_usable(), "{:?}", self.locks.at(lock));
            }
            indexed += in_tree.len();
        }
        let places = || self.locks.places(0);
        assert_eq!(places().filter(|&place| self.locks.at(place).is_usable()).count(), indexed);
        let uses = self.resources.places().map(|place| self.resources.at(place).locks as usize);
        assert_eq!(uses.sum::<usize>(), self.locks.len());
        for place in places() {
            self.check_lock(place);
        }
        let waiting = places().filter(|&place| self.locks.at(place).state == State::Waiting);
        assert!(self.waits.len() <= waiting.count(), "only locks that wait have a bound");
    }

    fn check_lock(&self, place: u32) {
        let lock = self.locks.at(place);
        assert!(lock.uses == 0 || lock.state == State::Granted, "{lock:?}");
        let is_listed = lock.marks.has(Marks::LISTED);
        let rests = lock.is_usable() && lock.uses == 0 && !lock.marks.has(Marks::PERMANENT);
        assert_eq!(is_listed, rests && self.kind(place) != LockType::FLOCK, "{lock:?}");
        let is_given_up = lock.marks.has(Marks::CALLED) && lock.state == State::Granted;
        assert!(!is_given_up || lock.uses > 0, "a called lock without uses is flushed: {lock:?}");
        assert!(lock.state != State::Granted || lock.busy.is_none(), "{lock:?} rests");
    }
}
