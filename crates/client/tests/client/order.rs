//! Operations of an MDT do not wait for each other in a circle.

use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use fulmar_base::Errno;
use fulmar_client::{Caller, FileSystem, OpenOptions, Stale, StaleGuard, Watcher, blocking};
use fulmar_lustre_wire::Opcode;

use crate::rig::{Rig, TIMEOUT};

const ROOT: Caller = Caller::ROOT;

/// Gives nothing up before the test does.
struct Slow(Mutex<Sender<StaleGuard>>);

impl Watcher for Slow {
    fn concerns(&self, _: &[Stale]) -> bool {
        true
    }

    fn stale(&self, _: Vec<Stale>, done: StaleGuard) {
        let _ = self.0.lock().unwrap().send(done);
    }
}

type Operation = Pin<Box<dyn Future<Output = Result<(), Errno>> + Send>>;

/// Has an operation of a client send its request.
fn begin<F>(fs: &FileSystem, operation: impl FnOnce(FileSystem) -> F) -> Operation
where
    F: Future<Output = Result<(), Errno>> + Send + 'static,
{
    let mut operation: Operation = Box::pin(operation(fs.clone()));
    assert!(operation.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    operation
}

/// Returns when what a client has sent before waits for its lock.
fn come(fs: &FileSystem) {
    (0..50).for_each(|_| assert!(blocking::wait(fs.statfs()).is_ok()));
}

/// Waits for operations.
fn ends(operations: Vec<Operation>) -> Vec<Result<(), Errno>> {
    let (sender, ended) = channel();
    let mut results = vec![None; operations.len()];
    for (place, operation) in operations.into_iter().enumerate() {
        let sender = sender.clone();
        std::thread::spawn(move || sender.send((place, blocking::wait(operation))));
    }
    for _ in 0..results.len() {
        let ended = ended.recv_timeout(TIMEOUT);
        let (place, result) = ended.expect("two operations wait for each other");
        results[place] = Some(result);
    }
    results.into_iter().flatten().collect()
}

/// A renaming waits for its old name. If it has locked the directory already, who looks at the directory waits for it,
/// and behind that one waits who creates a file under the new name, which the renaming needs next.
#[test]
fn a_creation_and_a_renaming_to_its_name_do_not_wait_for_each_other() {
    let rig = Rig::start("order", 1);
    let [keeps, removes, renames, looks] = [(); 4].map(|()| rig.mount());
    let d = blocking::wait(keeps.mkdir(&ROOT, keeps.root(), b"d", 0o755)).unwrap().fid;
    // Who creates has numbers for new files.
    for (fs, directory, name) in [(&keeps, d, &b"old"[..]), (&looks, looks.root(), b"other")] {
        let options = OpenOptions::create(0o644);
        let opened = blocking::wait(fs.open(&ROOT, directory, name, options)).unwrap();
        blocking::wait(opened.close()).unwrap();
    }
    let (sender, called) = channel();
    keeps.watch(Arc::new(Slow(Mutex::new(sender))));
    blocking::wait(keeps.lookup(&ROOT, d, b"old")).unwrap();

    // It has the old name, and waits for the file.
    let remove = |fs: FileSystem| async move { fs.unlink(&ROOT, d, b"old").await };
    let mut waiting = vec![begin(&removes, remove)];
    let given_up = called.recv_timeout(TIMEOUT).unwrap();
    // Names are locked in an order that only the server knows: with some of these the old name is the first.
    let names = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"];
    waiting.extend(names.map(|name| {
        let rename = |fs: FileSystem| async move { fs.rename(&ROOT, (d, b"old"), (d, name)).await };
        begin(&renames, rename)
    }));
    come(&renames);
    let look = |fs: FileSystem| async move { fs.getattr(&ROOT, d).await.map(drop) };
    waiting.push(begin(&looks, look));
    come(&looks);
    waiting.extend(names.map(|name| {
        begin(&looks, |fs: FileSystem| async move {
            fs.open(&ROOT, d, name, OpenOptions::create(0o644)).await?.close().await
        })
    }));
    come(&looks);

    drop(given_up);
    let results = ends(waiting);
    assert_eq!(results[0], Ok(()));
    assert_eq!(results[1..8], [Err(Errno::ENOENT); 7]);
    assert_eq!(results[8..], [Ok(()); 8]);
}

/// A kernel sends that if somebody else has given the name to another file meanwhile.
#[test]
fn a_renaming_to_the_same_name_does_not_wait_for_itself() {
    let rig = Rig::start("same", 1);
    let [keeps, renames, looks] = [(); 3].map(|()| rig.mount());
    let d = blocking::wait(keeps.mkdir(&ROOT, keeps.root(), b"d", 0o755)).unwrap().fid;
    blocking::wait(keeps.mkdir(&ROOT, d, b"name", 0o755)).unwrap();
    let (sender, called) = channel();
    keeps.watch(Arc::new(Slow(Mutex::new(sender))));
    blocking::wait(keeps.getattr(&ROOT, d)).unwrap();

    let rename = |fs: FileSystem| async move { fs.rename(&ROOT, (d, b"name"), (d, b"name")).await };
    let renaming = begin(&renames, rename);
    let given_up = called.recv_timeout(TIMEOUT).unwrap();
    let look = |fs: FileSystem| async move { fs.getattr(&ROOT, d).await.map(drop) };
    let looking = begin(&looks, look);
    come(&looks);
    drop(given_up);
    assert_eq!(ends(vec![renaming, looking]), [Ok(()); 2]);
}

/// The names of a directory are looked up together, but none of them waits for one that is being removed.
#[test]
fn names_do_not_wait_for_one_that_is_being_removed() {
    let rig = Rig::start("batch", 1);
    let [keeps, removes, looks] = [(); 3].map(|()| rig.mount());
    let d = blocking::wait(keeps.mkdir(&ROOT, keeps.root(), b"d", 0o755)).unwrap().fid;
    for number in 0..40 {
        let (name, options) = (format!("file{number}"), OpenOptions::create(0o644));
        let made = blocking::wait(keeps.open(&ROOT, d, name.as_bytes(), options)).unwrap();
        blocking::wait(made.close()).unwrap();
    }
    let (sender, called) = channel();
    keeps.watch(Arc::new(Slow(Mutex::new(sender))));
    blocking::wait(keeps.lookup(&ROOT, d, b"file20")).unwrap();
    let remove = |fs: FileSystem| async move { fs.unlink(&ROOT, d, b"file20").await };
    let removing = begin(&removes, remove);
    let given_up = called.recv_timeout(TIMEOUT).unwrap();

    let (items, _) = blocking::wait(looks.read_directory(&ROOT, d, 0)).unwrap();
    let others = items.into_iter().map(|item| item.name);
    let others = others.filter(|name| name[0] != b'.' && name != b"file20");
    let others: Vec<Vec<u8>> = others.collect();
    assert_eq!(others.len(), 39);
    let fs = looks.clone();
    let look_at_others: Operation = Box::pin(async move {
        for name in others {
            fs.lookup(&ROOT, d, &name).await?;
        }
        Ok(())
    });
    assert_eq!(ends(vec![look_at_others]), [Ok(())]);
    assert!(looks.requests().contains_key(&Opcode::MDS_BATCH), "{:?}", looks.requests());
    let look = |fs: FileSystem| async move { fs.lookup(&ROOT, d, b"file20").await.map(drop) };
    let looking = begin(&looks, look);
    drop(given_up);
    assert_eq!(ends(vec![removing, looking]), [Ok(()), Err(Errno::ENOENT)]);
}
