//! What a killed server has left on its disk: everything that it has told to be there, in order.

use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::{Fid, Uuid};
use fulmar_mdt::{Mdt, NoObjects, Settings};
use fulmar_store::{ObjectId, Policy, Store, StoreError};
use fulmar_target::clients;
use fulmar_target::transactions::Transactions;

use super::requests::SIZE;
use super::worker::{Tree, Worker, WorkerKnowledge, versions};

fn policy() -> Policy {
    Policy { reserve: 0, cache: 16 << 20, ..Policy::default() }
}

/// Opens a copy of a store, and requires that an examination finds no damage in it.
fn open(directory: &Path) -> Result<Arc<Store>, String> {
    let store = Store::open(directory, policy()).map_err(|error| error.to_string())?;
    drop(store);
    let report = Store::verify(directory, policy()).map_err(|error| error.to_string())?;
    if !report.damage.is_empty() {
        return Err(format!("{} is damaged: {:?}", directory.display(), report.damage));
    }
    Store::open(directory, policy()).map(Arc::new).map_err(|error| error.to_string())
}

/// Checks the copy of an MDT.
pub(super) fn mdt(directory: &Path, workers: &[(Fid, WorkerKnowledge)]) -> Result<(), String> {
    let store = open(directory)?;
    let mdt = Mdt::start(store, Settings::default(), Arc::new(NoObjects), 0)
        .map_err(|error| error.to_string())?;
    mdt.check()?;
    for (top, known) in workers {
        let found = found(&mdt, *top).map_err(|errno| format!("cannot read {top}: {errno}"))?;
        tree(known, &found).map_err(|error| format!("{top}: {error}"))?;
    }
    Ok(())
}

fn found(mdt: &Mdt, top: Fid) -> Result<Vec<(String, Fid)>, Errno> {
    let names: Vec<String> = Worker::names().collect();
    let places: Vec<(Fid, &[u8])> = names.iter().map(|name| (top, name.as_bytes())).collect();
    let fids = mdt.find_entries(&places)?;
    Ok(names.into_iter().zip(fids).filter_map(|(name, fid)| Some((name, fid?.fid))).collect())
}

/// Requires that what was found is the tree after some transaction, none before the last one that the MDT has
/// told to be on disk.
fn tree(known: &WorkerKnowledge, found: &[(String, Fid)]) -> Result<(), String> {
    let told = known.told[0];
    let first = known.trees.iter().rposition(|(transno, _)| *transno <= told).unwrap_or(0);
    let later = known.trees[first..].iter().map(|(_, tree)| tree).chain(&known.pending);
    let is_found = |tree: &Tree| {
        let names = tree.iter().map(|(name, file)| (name, file.fid));
        names.eq(found.iter().map(|(name, fid)| (name, *fid)))
    };
    if later.clone().any(is_found) {
        Ok(())
    } else {
        Err(format!(
            "it has {found:?}, which is none of {:?}; {told:#x} is on disk",
            later.collect::<Vec<_>>()
        ))
    }
}

/// Checks the copy of an OST. The data of an object may be newer than its last transaction.
pub(super) fn ost(
    directory: &Path,
    ost: usize,
    workers: &[(Fid, WorkerKnowledge)],
) -> Result<(), String> {
    let store = open(directory)?;
    for (_, known) in workers {
        for object in known.objects.iter().filter(|object| object.ost == ost) {
            let told = known.told[ost + 1];
            let committed = object.written.iter().filter(|(transno, _)| *transno <= told);
            let least = committed.map(|(_, version)| *version).max().unwrap_or(0);
            let mut data = vec![0; SIZE];
            let id = ObjectId(object.fid.seq, object.fid.oid.into());
            let read = store.read(id, 0, &mut [IoSliceMut::new(&mut data)]);
            let len = read.map_err(|error| error.to_string())?;
            let versions = versions(&data[..len]);
            let is_whole = least == 0 || versions.len() == SIZE / 512;
            let is_right = |version: &u64| (least..=object.sent).contains(version);
            if !is_whole || !versions.iter().all(is_right) {
                let fid = object.fid;
                let sent = object.sent;
                return Err(format!("{fid} has {versions:?}, not {least} to {sent} in each unit"));
            }
        }
    }
    Ok(())
}

/// Starts the target of a killed server, has it forget a client, and ends it before it has recovered: so clients replay
/// to its next start what they would have to this one.
pub(super) fn forget(directory: &Path, client: Uuid) -> Result<(), String> {
    let forgotten = || {
        let store = Store::open(directory, Policy { reserve: 1 << 20, ..policy() })?;
        Transactions::start(&store, true)?;
        let mut transaction = store.begin();
        clients::remove(&store, &mut transaction, client)?;
        transaction.apply()?;
        store.commit()
    };
    forgotten().map(drop).map_err(|error: StoreError| error.to_string())
}
