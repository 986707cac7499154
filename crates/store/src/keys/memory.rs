//! Keys in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Bounds, Changes, Entries, Key, Keys, Value, View};

/// Keys that end with their process.
///
/// Its views show later commits too. That is enough: what reads them takes one at a time, and
/// together with the batches that are not committed yet.
#[derive(Default)]
pub(crate) struct MemoryKeys(Arc<Tree>);

#[derive(Default)]
struct Tree(RwLock<BTreeMap<Key, Value>>);

impl Keys for MemoryKeys {
    fn view(&self) -> io::Result<Arc<dyn View>> {
        Ok(self.0.clone())
    }

    fn commit(&self, changes: &Changes) -> io::Result<()> {
        let mut tree = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in changes {
            match value {
                Some(value) => tree.insert(key.clone(), value.clone()),
                None => tree.remove(key),
            };
        }
        Ok(())
    }

    fn slack(&self) -> u64 {
        0
    }
}

impl View for Tree {
    fn get(&self, key: &[u8]) -> io::Result<Option<Value>> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn range(&self, bounds: Bounds<'_>, limit: usize) -> io::Result<Entries> {
        let tree = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entries = tree.range::<[u8], _>(bounds).take(limit);
        Ok(entries.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}
