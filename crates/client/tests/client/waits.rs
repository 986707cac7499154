//! What waits for targets that are away, and how that ends.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{
    Allocate, Caller, Change, DataSettings, FileLock, FileSystem, MountOptions, OpenOptions,
    Requester, Usage, XattrFlags, blocking,
};
use fulmar_lustre_wire::layout::LovMd;
use fulmar_lustre_wire::{Content, Fid};
use fulmar_wire::Order;

use crate::rig::{Rig, TIMEOUT};

const ROOT: Caller = Caller::ROOT;

/// Makes a file with data on an OST. The MDT may have no objects of it yet.
fn file_on(lv: &FileSystem, name: &str, ost: u16) -> Fid {
    let mut wanted = LovMd::wanted(1 << 20, 1);
    wanted.header.generation = ost;
    let (root, name) = (lv.root(), name.as_bytes());
    let make = || blocking::wait(lv.mknod(&ROOT, root, name, (0o100_644, 0))).unwrap().fid;
    let place = |file| {
        let wanted = wanted.to_bytes();
        let layout = (wanted.as_slice(), XattrFlags::NONE);
        blocking::wait(lv.set_xattr(&ROOT, file, b"lustre.lov", layout))?;
        let layout = blocking::wait(lv.get_xattr(&ROOT, file, b"lustre.lov"))?;
        let layout = LovMd::decode(&layout, Order::Little).unwrap();
        Ok::<_, Errno>(layout.objects.first().map(|object| object.ost))
    };
    let begun = Instant::now();
    let mut file = make();
    while place(file) != Ok(Some(ost.into())) {
        assert!(begun.elapsed() < TIMEOUT, "the MDT has no objects of OST {ost}");
        blocking::wait(lv.unlink(&ROOT, root, name)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        file = make();
    }
    let open = blocking::wait(lv.open_file(&ROOT, file, OpenOptions::write())).unwrap();
    blocking::wait(open.write(0, &b"data"[..])).unwrap();
    blocking::wait(open.sync(false)).unwrap();
    blocking::wait(open.close()).unwrap();
    file
}

/// Begins an operation for a requester, and returns what receives its result.
fn begin<T: Send + 'static>(
    requester: &Requester,
    operation: impl Future<Output = Result<T, Errno>> + Send + 'static,
) -> Receiver<Result<T, Errno>> {
    let (sender, result) = channel();
    let requester = requester.clone();
    std::thread::spawn(move || {
        let _ = sender.send(blocking::wait(requester.run(operation)));
    });
    result
}

/// Does operations that wait until their requester is interrupted.
fn interrupted<T: std::fmt::Debug + PartialEq + Send + 'static>(
    lv: &FileSystem,
    operations: Vec<impl Future<Output = Result<T, Errno>> + Send + 'static>,
) {
    let requester = Requester::default();
    let begun: Vec<_> = operations.into_iter().map(|one| begin(&requester, one)).collect();
    for result in &begun {
        assert!(result.recv_timeout(Duration::from_millis(200)).is_err(), "it does not wait");
    }
    lv.interrupt(&requester);
    for result in begun {
        assert_eq!(result.recv_timeout(TIMEOUT).unwrap(), Err(Errno::EINTR));
    }
}

/// Returns the usage of a file system, for which no OST is waited for.
fn usage(lv: &FileSystem) -> Usage {
    let lv = lv.clone();
    let usage = begin(&Requester::default(), async move { lv.statfs().await });
    usage.recv_timeout(TIMEOUT).unwrap().unwrap()
}

/// Writes to an open file until a write waits, and ends that one.
fn write_until_one_waits(lv: &FileSystem, file: &Arc<fulmar_client::File>) {
    let data: Arc<[u8]> = vec![7; 1 << 20].into();
    for at in 0.. {
        let (requester, data, file) = (Requester::default(), data.clone(), file.clone());
        let write = begin(&requester, async move { file.write(at << 20, data).await });
        if write.recv_timeout(Duration::from_millis(500)).is_ok() {
            continue;
        }
        lv.interrupt(&requester);
        match write.recv_timeout(TIMEOUT).unwrap() {
            Err(Errno::EINTR) => return,
            // It was only slow.
            written => _ = written.unwrap(),
        }
    }
}

#[test]
fn a_write_that_waits_for_room_ends_when_it_is_interrupted() {
    let mut rig = Rig::start("room", 2);
    let data = DataSettings { dirty_max: Some(4 << 20), ..DataSettings::default() };
    let lv = rig.mount_with(MountOptions { data, ..MountOptions::default() });
    let file = file_on(&lv, "file", 1);
    let open = blocking::wait(lv.open_file(&ROOT, file, OpenOptions::write())).unwrap();
    let open = Arc::new(open);
    // It has the lock now.
    blocking::wait(open.write(0, &b"data"[..])).unwrap();
    rig.restart_without(1);
    write_until_one_waits(&lv, &open);
    rig.stop();
    rig.serve();
    blocking::wait(open.sync(false)).unwrap();
    let size = blocking::wait(lv.getattr(&ROOT, file)).unwrap().size;
    assert!(size >= 1 << 20 && size.is_multiple_of(1 << 20), "{size}");
}

#[test]
fn what_waits_for_an_ost_ends_when_it_is_interrupted_and_is_not_done_later() {
    let mut rig = Rig::start("away", 2);
    let (one, lv) = (rig.mount(), rig.mount());
    let file = file_on(&one, "file", 1);
    let open = |how| Arc::new(blocking::wait(lv.open_file(&ROOT, file, how)).unwrap());
    let (reader, writer) = (open(OpenOptions::read()), open(OpenOptions::write()));
    rig.restart_without(1);
    let begun = Instant::now();
    // It does not wait for the other OST either, until that is connected again.
    while usage(&lv).bytes == 0 {
        assert!(begun.elapsed() < TIMEOUT, "no OST is counted");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (stat, cut, allocate, write) = (lv.clone(), lv.clone(), writer.clone(), writer);
    interrupted(&lv, vec![async move { stat.getattr(&ROOT, file).await.map(drop) }]);
    interrupted(&lv, vec![async move { reader.read(0, 100).await.map(drop) }]);
    let change = Change { size: Some(0), ..Change::default() };
    interrupted(&lv, vec![async move { cut.setattr(&ROOT, file, change).await.map(drop) }]);
    interrupted(&lv, vec![async move { allocate.allocate(0, 9, Allocate::Grow).await }]);
    interrupted(&lv, vec![async move { write.write(0, &b"none"[..]).await.map(drop) }]);
    rig.stop();
    rig.serve();
    let size = blocking::wait(lv.getattr(&ROOT, file)).unwrap().size;
    let open = blocking::wait(one.open_file(&ROOT, file, OpenOptions::read())).unwrap();
    assert_eq!((size, blocking::wait(open.read(0, 100)).unwrap().as_slice()), (4, &b"data"[..]));
}

#[test]
fn what_waits_for_an_mdt_ends_when_it_is_interrupted_and_is_not_done_later() {
    let mut rig = Rig::start("names", 1);
    let lv = rig.mount();
    let root = lv.root();
    let file = file_on(&lv, "file", 0);
    rig.stop();
    let [remove, rename, make] = [lv.clone(), lv.clone(), lv.clone()];
    interrupted(&lv, vec![async move { remove.unlink(&ROOT, root, b"file").await }]);
    interrupted(
        &lv,
        vec![async move { rename.rename(&ROOT, (root, b"file"), (root, b"other")).await }],
    );
    interrupted(&lv, vec![async move { make.mkdir(&ROOT, root, b"new", 0o755).await.map(drop) }]);
    rig.serve();
    assert_eq!(blocking::wait(lv.lookup(&ROOT, root, b"file")).unwrap().fid, file);
    for name in [&b"other"[..], b"new"] {
        assert_eq!(blocking::wait(lv.lookup(&ROOT, root, name)).unwrap_err(), Errno::ENOENT);
    }
}

#[test]
fn who_waits_for_a_client_goes_on_when_an_administrator_evicts_it() {
    let rig = Rig::start("evicted", 1);
    let (silent, lv) = (rig.mount(), rig.mount());
    let file = file_on(&silent, "file", 0);
    let lock = FileLock { is_exclusive: true, start: 0, end: FileLock::END, owner: 1, pid: 1 };
    blocking::wait(silent.lock(file, lock, false)).unwrap();
    let waits = begin(&Requester::default(), async move { lv.lock(file, lock, true).await });
    assert!(waits.recv_timeout(Duration::from_millis(200)).is_err(), "it does not wait");
    let unknown = rig.set("mdt.*.evict_client", "10.9.9.9@tcp").unwrap_err().to_string();
    let expected = "mdt.lv-MDT0000.evict_client: there is no client with the NID or the UUID \
                    10.9.9.9@tcp";
    assert_eq!(unknown, expected);
    let client = silent.uuid().to_string();
    let set = rig.set("mdt.lv-*.evict_client", &client);
    assert_eq!(set.unwrap(), ["mdt.lv-MDT0000.evict_client"]);
    assert_eq!(waits.recv_timeout(TIMEOUT).unwrap(), Ok(()));
    let set = rig.set("obdfilter.*.evict_client", &client);
    assert_eq!(set.unwrap(), ["obdfilter.lv-OST0000.evict_client"]);
}
