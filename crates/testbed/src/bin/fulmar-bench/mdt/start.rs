//! How long an MDT with many files takes to start, and how much memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::MDT_BODY;
use fulmar_lustre_wire::{Fid, Handle, Opcode};
use fulmar_mdt::{Call, Mdt, Object, Objects, Owner, Plan, Settings};
use fulmar_store::{Committer, Policy, Store, Transaction};

use super::requests;
use crate::lnet::wait_for_end_of_input;
use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::{Effort, Failure};

const FILES: u32 = 10_000_000;
/// The files of one directory and of one sequence.
const PER_DIRECTORY: u32 = 100_000;
/// The time of all requests.
const NOW: i64 = 1_795_184_574;
const CLIENT: Handle = Handle(1);
const LABEL: &[u8] = b"bench";

/// The start of an MDT with ten million files. They are made once, which takes minutes, and kept for
/// the next measurement.
pub(crate) fn starting(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let kept = kept_directory()?;
    if !kept.join("whole").exists() {
        let path = kept.join("mdt");
        let path = path.to_str().ok_or_else(|| Failure("a strange path".to_owned()))?;
        eprintln!("  making {FILES} files in {path}, which takes some minutes ...");
        // What another version or an interrupted run has left.
        let _ = std::fs::remove_dir_all(&kept);
        std::fs::create_dir_all(path).map_err(Failure::io(format!("create {path}")))?;
        Worker::start(&["mdt-fill", path, &FILES.to_string()])?.finish()?;
        std::fs::write(kept.join("whole"), "").map_err(Failure::io("mark the files as whole"))?;
    }
    let path = kept.join("mdt");
    let path = path.to_str().ok_or_else(|| Failure("a strange path".to_owned()))?;
    let (mut seconds, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..effort.repeats {
        let mut worker = Worker::start(&["mdt-start", path])?;
        seconds.push(worker.number()?);
        memory.push(worker.resident_mib()?);
        worker.finish()?;
    }
    // A start is not repeated under the same conditions as the first: the longest one counts.
    let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        Figure::plain("mdt.open_10m_objects_s", most(&seconds), "s").held_to(Bar::AtMost(3.0)),
        Figure::plain("mdt.open_10m_objects_mib", most(&memory), "MiB")
            .held_to(Bar::AtMost(1024.0)),
    ])
}

/// Returns the directory of the files, beside this program.
fn kept_directory() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let directory = program.parent().ok_or_else(|| Failure("no directory".to_owned()))?;
    Ok(directory.join(format!("bench-mdt-{FILES}")))
}

/// Makes an MDT with some files in a directory.
pub(crate) fn fill(directory: &Path, files: u32) -> Result<(), Failure> {
    let store = Store::create(directory, LABEL, Policy::default()).map_err(failed)?;
    let store = Arc::new(store);
    let committer = Committer::start(store.clone()).map_err(failed)?;
    let mdt = start(store)?;
    let mut xid = 0;
    let mut ask = |message| {
        xid += 128;
        let nid = Nid::LOOPBACK;
        let call = Call { export: CLIENT, nid, xid, now: NOW, nanos: 0, message: &message };
        let answer = match message.body.opcode {
            Opcode::MDS_REINT => mdt.reint(&call),
            _ => mdt.execute(&call),
        };
        let reply = answer.map_err(failed)?.reply;
        match reply.body.status.errno() {
            Some(errno) => Err(failed(errno)),
            None => Ok(reply),
        }
    };
    ask(requests::connect())?;
    let root = ask(requests::root())?;
    let root = root.require(&MDT_BODY).map_err(failed)?.fid;
    for first in (0..files).step_by(PER_DIRECTORY as usize) {
        let seq = 0x2_0000_0401 + u64::from(first / PER_DIRECTORY);
        let directory = Fid { seq, oid: 1, version: 0 };
        ask(requests::new_directory(root, directory, &format!("d{first}")))?;
        for number in 0..PER_DIRECTORY.min(files - first) {
            let file = Fid { seq, oid: number + 2, version: 0 };
            ask(requests::new_file(directory, file, &format!("file-{number:08}")))?;
        }
        // Who waits for the end gives up when nothing is heard for a minute.
        println!("d{first}");
    }
    drop(committer);
    Ok(())
}

/// Starts the MDT, and prints how many seconds that took. Then it waits for the end of its input.
pub(crate) fn run(directory: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    let store = Arc::new(Store::open(directory, Policy::default()).map_err(failed)?);
    let mdt = start(store)?;
    println!("{}", begun.elapsed().as_secs_f64());
    wait_for_end_of_input();
    drop(mdt);
    Ok(())
}

fn start(store: Arc<Store>) -> Result<Mdt, Failure> {
    Mdt::start(store, Settings::default(), Arc::new(NoObjects), NOW).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure(format!("the MDT: {error}"))
}

/// OSTs of files that have no data.
struct NoObjects;

impl Objects for NoObjects {
    fn take(&self, _plan: &Plan) -> Result<Vec<Object>, Errno> {
        Err(Errno::ENOSPC)
    }

    fn used(&self, _transaction: &mut Transaction<'_>, _objects: &[Object]) {}

    fn destroy(&self, _transaction: &mut Transaction<'_>, _objects: &[Object]) {}

    fn set_owner(&self, _transaction: &mut Transaction<'_>, _objects: &[Object], _owner: Owner) {}
}
