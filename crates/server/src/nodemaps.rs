//! The nodemaps that a target uses: as they were read last, they hold from the start on, also when the
//! management service is away.

use fulmar_lustre_wire::mgs::NodemapEntry;
use fulmar_nodemap::Nodemaps;
use fulmar_store::{Store, StoreError};
use fulmar_wire::{Field, Order, Reader, Writer};
use tracing::{info, warn};

use crate::join::{JOINED, Member};

const KEY: &[u8] = b"nodemaps";
const ORDER: Order = Order::Big;

/// Gives a target the nodemaps that it had.
pub(crate) fn restore(store: &Store, member: &Member) -> Result<(), StoreError> {
    apply(member, &load(store)?);
    Ok(())
}

/// Gives a target the nodemaps that were read, and keeps them, if they are others than before. Returns whether
/// they are.
pub(crate) fn take(
    store: &Store,
    member: &Member,
    entries: &[NodemapEntry],
) -> Result<bool, StoreError> {
    if entries == load(store)? {
        return Ok(false);
    }
    apply(member, entries);
    let mut bytes = vec![];
    let w = &mut Writer::new(&mut bytes, ORDER);
    entries.iter().for_each(|entry| entry.write(w));
    let mut transaction = store.begin();
    transaction.put(JOINED, KEY, bytes);
    transaction.apply()?;
    store.commit().map(|_| true)
}

fn load(store: &Store) -> Result<Vec<NodemapEntry>, StoreError> {
    let stored = store.get(JOINED, KEY)?.unwrap_or_default();
    let r = &mut Reader::new(&stored, ORDER);
    let mut entries = vec![];
    while let Ok(entry) = Field::read(r, "nodemap") {
        entries.push(entry);
    }
    Ok(entries)
}

fn apply(member: &Member, entries: &[NodemapEntry]) {
    let nodemaps = match Nodemaps::of(entries) {
        Ok(nodemaps) => nodemaps,
        Err(why) => return warn!("the nodemaps are not used, and those before stay: {why}"),
    };
    if nodemaps.is_active() {
        let names: Vec<&str> = nodemaps.iter().map(|(_, nodemap)| nodemap.name()).collect();
        info!("nodemaps are active: {}", names.join(", "));
    }
    match member {
        Member::Mdt(mdt, _) => mdt.set_nodemaps(nodemaps),
        Member::Ost(ost) => ost.set_nodemaps(nodemaps),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fulmar_nodemap::Change;
    use fulmar_ost::{Ost, Settings};
    use fulmar_store::Policy;

    use super::*;

    #[test]
    fn nodemaps_that_were_read_are_kept() {
        let store = Arc::new(Store::memory(b"OST", Policy::default()));
        let ost = Arc::new(Ost::start(store.clone(), Settings::default()).unwrap());
        let member = Member::Ost(ost);
        let mut maps = Nodemaps::default();
        maps.change("site", &Change::Add).unwrap();
        maps.change("site", &Change::AddNids(Change::nids("*@tcp").unwrap())).unwrap();
        assert!(take(&store, &member, &maps.entries()).unwrap());
        assert!(!take(&store, &member, &maps.entries()).unwrap());
        assert_eq!(load(&store).unwrap(), maps.entries());
        restore(&store, &member).unwrap();
    }
}
