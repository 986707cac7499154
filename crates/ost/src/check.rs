//! The examination of an OST at rest: what is noted twice must match.

use std::collections::BTreeMap;
use std::ops::Bound;

use fulmar_lustre_wire::quota::QuotaKind;

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
        self.grants().check()?;
        let mut sums: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        let mut from: Bound<Vec<u8>> = Bound::Unbounded;
        loop {
            let key = from.as_ref().map(|key| &key[..]);
            let page = self.store.scan(OBJECTS, key, Bound::Unbounded, PAGE);
            let page = page.map_err(|error| error.to_string())?;
            for (_, value) in &page {
                let found = Attributes::decode(value).map_err(|error| error.to_string())?;
                for (kind, id) in [
                    (QuotaKind::USER, found.uid),
                    (QuotaKind::GROUP, found.gid),
                    (QuotaKind::PROJECT, found.projid),
                ] {
                    let sum = sums.entry((kind.0, id)).or_default();
                    (sum.0, sum.1) = (sum.0 + found.charged, sum.1 + 1);
                }
            }
            match page.into_iter().next_back() {
                Some((last, _)) => from = Bound::Excluded(last),
                None => break,
            }
        }
        self.usage.check(&sums)
    }
}
