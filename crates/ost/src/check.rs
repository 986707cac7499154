//! The examination of an OST at rest: what is noted twice must match.

use std::ops::Bound;

use fulmar_target::usage::Deltas;

use crate::Ost;
use crate::records::{Attributes, OBJECTS};

/// How many objects are read at once.
const PAGE: usize = 1024;

impl Ost {
    /// Adds up the grants of all clients, and what all objects use. For tests and examinations: it
    /// reads every object. No transaction may be under way.
    ///
    /// # Errors
    /// What does not match, or why the store cannot be read.
    pub fn check(&self) -> Result<(), String> {
        self.data.check()?;
        let mut sums = Deltas::default();
        let mut from: Bound<Vec<u8>> = Bound::Unbounded;
        loop {
            let key = from.as_ref().map(|key| &key[..]);
            let page = self.store.scan(OBJECTS, key, Bound::Unbounded, PAGE);
            let page = page.map_err(|error| error.to_string())?;
            for (_, value) in &page {
                let found = Attributes::decode(value).map_err(|error| error.to_string())?;
                sums.add(&found.charge());
            }
            match page.into_iter().next_back() {
                Some((last, _)) => from = Bound::Excluded(last),
                None => break,
            }
        }
        self.usage.check(&sums)
    }
}
