//! Files of one and of two mounts.

use fulmar_base::Errno;
use fulmar_client::{
    Allocate, Caller, Change, FileLock, OpenOptions, Seek, SetTime, XattrFlags, blocking,
};
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::layout::LovMd;
use futures_util::future::{Either, select};

use crate::rig::Rig;

const ROOT: Caller = Caller::ROOT;

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 10) as u8) ^ seed).collect()
}

#[test]
fn what_is_written_is_read_back() {
    let rig = Rig::start("write", 2);
    let lv = blocking::FileSystem::of(rig.mount());
    let options = OpenOptions { read: true, ..OpenOptions::create(0o644) };
    let file = lv.open("file", options).unwrap();
    assert!(file.inner().is_new());
    let data = bytes(3 << 20 | 5, 1);
    file.write(0, data.clone()).unwrap();
    assert_eq!(file.read(0, 8 << 20).unwrap(), data);
    assert_eq!(file.read(100, 7).unwrap(), data[100..107]);
    // A short write over the end, and a hole before it.
    file.write(4 << 20, *b"end").unwrap();
    let size = lv.attributes("file").unwrap().size;
    assert_eq!(size, (4 << 20) + 3);
    let tail = file.read((4 << 20) - 2, 100).unwrap();
    assert_eq!(tail, b"\0\0end");
    file.sync().unwrap();
    file.close().unwrap();
    assert_eq!(lv.open("none", OpenOptions::read()).unwrap_err(), Errno::ENOENT);
    lv.unmount();
}

#[test]
fn names_are_made_found_changed_and_removed() {
    let rig = Rig::start("names", 1);
    let fs = rig.mount();
    let lv = blocking::FileSystem::of(fs.clone());
    let directory = lv.mkdir("a", 0o750).unwrap();
    assert_eq!(lv.mkdir("a", 0o750).unwrap_err(), Errno::EEXIST);
    lv.mkdir("a/b", 0o755).unwrap();
    let found = lv.attributes("a").unwrap();
    assert_eq!((found.fid, found.mode & 0o7777, found.links), (directory, 0o750, 3));
    for name in ["one", "two", "three"] {
        lv.open(format!("a/{name}"), OpenOptions::create(0o600)).unwrap().close().unwrap();
    }
    let mut listed: Vec<String> = lv
        .list("a")
        .unwrap()
        .iter()
        .map(|item| String::from_utf8_lossy(&item.name).into())
        .collect();
    listed.sort();
    assert_eq!(listed, ["b", "one", "three", "two"]);

    // Names that do not exist are found as soon as they do.
    assert_eq!(lv.attributes("a/four").unwrap_err(), Errno::ENOENT);
    lv.rename("a/one", "a/four").unwrap();
    assert!(lv.attributes("a/four").is_ok());
    assert_eq!(lv.attributes("a/one").unwrap_err(), Errno::ENOENT);
    let link = blocking::wait(fs.symlink(&ROOT, directory, b"link", b"../a/four")).unwrap();
    assert_eq!(blocking::wait(fs.read_link(&ROOT, link.fid)).unwrap(), b"../a/four");
    assert_eq!(lv.find("a/link").unwrap(), lv.find("a/four").unwrap());
    let four = lv.find("a/four").unwrap();
    blocking::wait(fs.link(&ROOT, four, fs.root(), b"other")).unwrap();
    assert_eq!(lv.attributes("other").unwrap().links, 2);
    assert_eq!(blocking::wait(fs.paths_of(four)).unwrap().len(), 2);
    blocking::wait(fs.mknod(&ROOT, directory, b"pipe", (0o010_600, 0))).unwrap();
    assert_eq!(lv.attributes("a/pipe").unwrap().mode, 0o010_600);

    assert_eq!(lv.rmdir("a").unwrap_err(), Errno::ENOTEMPTY);
    for name in ["four", "two", "three", "link", "pipe"] {
        lv.unlink(format!("a/{name}")).unwrap();
    }
    lv.rmdir("a/b").unwrap();
    lv.rmdir("a").unwrap();
    assert_eq!(lv.attributes("other").unwrap().links, 1);
    assert_eq!(lv.attributes("a").unwrap_err(), Errno::ENOENT);
}

#[test]
fn attributes_are_set_and_the_file_is_cut() {
    let rig = Rig::start("attributes", 2);
    let fs = rig.mount();
    let lv = blocking::FileSystem::of(fs.clone());
    let options = OpenOptions { read: true, ..OpenOptions::create(0o644) };
    let file = lv.open("file", options).unwrap();
    file.write(0, bytes(100_000, 3)).unwrap();
    let fid = file.inner().fid();
    let set = |change| blocking::wait(fs.setattr(&ROOT, fid, change)).unwrap();
    let changed =
        set(Change { mode: Some(0o711), uid: Some(7), gid: Some(8), ..Change::default() });
    assert_eq!((changed.mode & 0o7777, changed.uid, changed.gid), (0o711, 7, 8));
    let changed = set(Change {
        mtime: Some(SetTime::At(1000)),
        atime: Some(SetTime::At(2000)),
        ..Change::default()
    });
    assert_eq!((changed.mtime, changed.atime, changed.size), (1000, 2000, 100_000));
    assert_eq!(set(Change { size: Some(50_000), ..Change::default() }).size, 50_000);
    assert_eq!(set(Change { size: Some(80_000), ..Change::default() }).size, 80_000);
    let whole = file.read(0, 100_000).unwrap();
    assert_eq!(whole.len(), 80_000);
    assert!(
        whole[..50_000] == bytes(100_000, 3)[..50_000] && whole[50_000..].iter().all(|b| *b == 0)
    );
    blocking::wait(file.inner().allocate(0, 200_000, Allocate::KeepSize)).unwrap();
    assert_eq!(lv.attributes("file").unwrap().size, 80_000);
    blocking::wait(file.inner().allocate(0, 4096, Allocate::PunchHole)).unwrap();
    assert_eq!(blocking::wait(file.inner().seek(0, Seek::Data)).unwrap(), 4096);
    assert_eq!(blocking::wait(file.inner().seek(0, Seek::Hole)).unwrap(), 0);
    assert_eq!(file.read(0, 4096).unwrap(), vec![0; 4096]);
    file.close().unwrap();
    let cut = OpenOptions { truncate: true, ..OpenOptions::create(0o644) };
    lv.open("file", cut).unwrap().close().unwrap();
    assert_eq!(lv.attributes("file").unwrap().size, 0);
}

#[test]
fn an_older_time_is_seen_by_who_has_seen_a_newer_one() {
    let rig = Rig::start("older", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let file = blocking::wait(fs.open(&ROOT, fs.root(), b"file", OpenOptions::create(0o644)));
    let file = file.unwrap();
    let seen = || blocking::wait(other.getattr(&ROOT, file.fid())).unwrap().mtime;
    blocking::wait(file.write(0, vec![1; 10_000])).unwrap();
    assert!(seen() > 1000, "the client that has the data is asked");
    for time in [900, 800, -315_619_200] {
        let change = Change { mtime: Some(SetTime::At(time)), ..Change::default() };
        blocking::wait(fs.setattr(&ROOT, file.fid(), change)).unwrap();
        assert_eq!(seen(), time);
        blocking::wait(file.sync(true)).unwrap();
        assert_eq!(seen(), time);
    }
}

#[test]
fn extended_attributes_are_kept() {
    let rig = Rig::start("xattrs", 1);
    let fs = rig.mount();
    let fid = blocking::wait(fs.mkdir(&ROOT, fs.root(), b"d", 0o755)).unwrap().fid;
    let get = |name: &[u8]| blocking::wait(fs.get_xattr(&ROOT, fid, name));
    let set = |name: &[u8], value: &[u8], flags| {
        blocking::wait(fs.set_xattr(&ROOT, fid, name, (value, flags)))
    };
    assert_eq!(get(b"user.a").unwrap_err(), Errno::ENODATA);
    set(b"user.a", b"1", XattrFlags::CREATE).unwrap();
    assert_eq!(set(b"user.a", b"2", XattrFlags::CREATE).unwrap_err(), Errno::EEXIST);
    set(b"user.a", b"22", XattrFlags::NONE).unwrap();
    set(b"user.b", b"", XattrFlags::NONE).unwrap();
    assert_eq!((get(b"user.a").unwrap(), get(b"user.b").unwrap()), (b"22".to_vec(), vec![]));
    let names = blocking::wait(fs.list_xattrs(&ROOT, fid)).unwrap();
    assert!(names.contains(&b"user.a".to_vec()) && names.contains(&b"user.b".to_vec()));
    blocking::wait(fs.remove_xattr(&ROOT, fid, b"user.a")).unwrap();
    assert_eq!(get(b"user.a").unwrap_err(), Errno::ENODATA);
    let usage = blocking::wait(fs.statfs()).unwrap();
    assert!(usage.bytes > 0 && usage.files > 0, "{usage:?}");
}

#[test]
fn two_mounts_see_what_the_other_has_done() {
    let rig = Rig::start("two", 2);
    let (one, two) = (rig.mount(), rig.mount());
    let (one, two) = (blocking::FileSystem::of(one), blocking::FileSystem::of(two));
    let both = OpenOptions { read: true, ..OpenOptions::create(0o644) };
    assert_eq!(two.attributes("file").unwrap_err(), Errno::ENOENT);
    let first = one.open("file", both.clone()).unwrap();
    let second = two.open("file", both.clone()).unwrap();
    assert!(first.inner().is_new() && !second.inner().is_new());
    for round in 0..5_u8 {
        first.write(0, vec![round; 10_000]).unwrap();
        assert_eq!(two.attributes("file").unwrap().size, 10_000 + u64::from(round) * 10);
        assert_eq!(second.read(0, 10_000).unwrap(), vec![round; 10_000]);
        let end = 10_000 + u64::from(round) * 10;
        second.write(end, vec![round; 10]).unwrap();
        assert_eq!(first.read(end, 100).unwrap(), vec![round; 10]);
        assert_eq!(one.attributes("file").unwrap().size, end + 10);
    }
    // Both append, and nothing is lost.
    let appends = OpenOptions { append: true, ..both };
    let lines = [(&one, b'a'), (&two, b'b')].map(|(fs, letter)| {
        let file = fs.open("log", appends.clone()).unwrap();
        std::thread::spawn(move || {
            for _ in 0..20 {
                file.write(0, vec![letter; 7]).unwrap();
            }
            file.close().unwrap();
        })
    });
    lines.into_iter().for_each(|line| line.join().unwrap());
    let log = one.open("log", OpenOptions::read()).unwrap().read(0, 1000).unwrap();
    assert_eq!(log.len(), 2 * 20 * 7);
    let whole = |part: &[u8]| part.iter().all(|letter| *letter == part[0]);
    assert!(log.chunks(7).all(whole), "{log:?}");

    two.rename("file", "moved").unwrap();
    assert_eq!(one.attributes("file").unwrap_err(), Errno::ENOENT);
    assert!(one.attributes("moved").is_ok());
    one.unlink("moved").unwrap();
    assert_eq!(two.attributes("moved").unwrap_err(), Errno::ENOENT);
    // It is there as long as it is open.
    assert_eq!(second.read(0, 4).unwrap(), vec![4; 4]);
}

#[test]
fn what_is_open_and_written_survives_a_restart_of_the_servers() {
    let mut rig = Rig::start("restart", 2);
    let lv = blocking::FileSystem::of(rig.mount());
    let options = OpenOptions { read: true, ..OpenOptions::create(0o644) };
    let file = lv.open("file", options).unwrap();
    let data = bytes(2 << 20, 9);
    file.write(0, data.clone()).unwrap();
    lv.mkdir("directory", 0o755).unwrap();
    rig.restart();
    assert_eq!(file.read(0, 4 << 20).unwrap(), data);
    file.write(2 << 20, *b"after").unwrap();
    assert_eq!(lv.attributes("file").unwrap().size, (2 << 20) + 5);
    file.close().unwrap();
    assert!(lv.attributes("directory").unwrap().is_directory());
    lv.unmount();
}

#[test]
fn processes_of_two_clients_agree_by_locks() {
    let rig = Rig::start("flocks", 1);
    let (one, two) = (rig.mount(), rig.mount());
    let file = blocking::FileSystem::of(one.clone()).open("file", OpenOptions::create(0o644));
    let fid = file.unwrap().inner().fid();
    let lock = FileLock { is_exclusive: true, start: 0, end: 99, owner: 1, pid: 7 };
    blocking::wait(one.lock(fid, lock, false)).unwrap();
    let other = FileLock { start: 50, end: FileLock::END, owner: 2, ..lock };
    assert_eq!(blocking::wait(two.lock(fid, other, false)).unwrap_err(), Errno::EAGAIN);
    let found = blocking::wait(two.test_lock(fid, other)).unwrap().unwrap();
    assert_eq!((found.is_exclusive, found.start, found.end, found.pid), (true, 0, 99, 7));
    let waits = two.clone();
    let waiter = std::thread::spawn(move || blocking::wait(waits.lock(fid, other, true)));
    blocking::wait(one.unlock(fid, lock)).unwrap();
    waiter.join().unwrap().unwrap();
    assert_eq!(blocking::wait(one.lock(fid, lock, false)).unwrap_err(), Errno::EAGAIN);
    let before = FileLock { end: 49, ..lock };
    blocking::wait(one.lock(fid, before, false)).unwrap();
    blocking::wait(two.unlock(fid, other)).unwrap();
    assert_eq!(blocking::wait(one.test_lock(fid, other)).unwrap().map(|one| one.end), None);
}

#[test]
fn layouts_fids_and_paths_are_attributes() {
    let rig = Rig::start("special", 2);
    let lv = rig.mount();
    let root = lv.root();
    let get = |fid, name: &str| blocking::wait(lv.get_xattr(&ROOT, fid, name.as_bytes()));
    let set = |fid, layout: &[u8]| {
        blocking::wait(lv.set_xattr(&ROOT, fid, b"lustre.lov", (layout, XattrFlags::NONE)))
    };
    let counts = |fid| {
        let layout = blocking::wait(lv.layout(&ROOT, fid)).unwrap();
        layout.components.iter().map(|one| (one.stripe_count, one.stripe_size)).collect::<Vec<_>>()
    };
    let directory = blocking::wait(lv.mkdir(&ROOT, root, b"wide", 0o755)).unwrap().fid;
    assert_eq!(get(directory, "lustre.lov"), Err(Errno::ENODATA));
    set(directory, &LovMd::wanted(1 << 20, 2).to_bytes()).unwrap();
    assert!(get(directory, "lustre.lov").unwrap().len() >= 32);
    let make =
        |name: &str| blocking::wait(lv.mknod(&ROOT, directory, name.as_bytes(), (0o100_644, 0)));
    let own = make("own").unwrap().fid;
    assert_eq!(get(own, "lustre.lov"), Err(Errno::ENODATA), "it was never opened");
    set(own, &LovMd::wanted(2 << 20, 1).to_bytes()).unwrap();
    assert_eq!(counts(own), [(1, 2 << 20)]);
    assert_eq!(set(own, &LovMd::wanted(1 << 20, 2).to_bytes()), Err(Errno::EEXIST));
    let open = |name: &str| {
        let options = OpenOptions::create(0o644);
        blocking::wait(lv.open(&ROOT, directory, name.as_bytes(), options)).unwrap()
    };
    // An OST that has not joined yet gives no objects.
    let is_wide = (0..600).any(|round| {
        let is_wide = counts(open(&format!("wide{round}")).fid()) == [(2, 1 << 20)];
        if !is_wide {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        is_wide
    });
    assert!(is_wide);
    blocking::wait(lv.remove_xattr(&ROOT, directory, b"lustre.lov")).unwrap();
    assert_eq!(get(directory, "lustre.lov"), Err(Errno::ENODATA));
    assert_eq!(counts(open("plain").fid()), [(1, 4 << 20)]);

    assert_eq!(get(own, "lustre.fid").unwrap(), own.to_string().as_bytes());
    blocking::wait(lv.link(&ROOT, own, root, b"second")).unwrap();
    let name = format!("lustre.fid2path.{own}");
    let paths = get(root, &name).unwrap();
    let mut paths: Vec<&[u8]> = paths.split(|byte| *byte == 0).collect();
    paths.sort();
    assert_eq!(paths, [&b""[..], b"second", b"wide/own"]);
    let user = Caller::new(1000, 1000);
    assert_eq!(blocking::wait(lv.get_xattr(&user, root, name.as_bytes())), Err(Errno::EPERM));
    blocking::wait(lv.unmount());
}

#[test]
fn an_operation_goes_on_when_another_one_does_not_wait_for_it() {
    let rig = Rig::start("part", 1);
    let fs = rig.mount();
    let (sender, ended) = std::sync::mpsc::channel();
    let inner = fs.clone();
    fs.spawn(async move {
        let caller = ROOT;
        let made = Box::pin(inner.mkdir(&caller, inner.root(), b"d", 0o755));
        // It has begun, and is dropped.
        let first = select(made, std::future::ready(())).await;
        sender.send(matches!(first, Either::Right(_))).unwrap();
    });
    assert!(ended.recv().unwrap(), "a request cannot be over yet");
    let begun = std::time::Instant::now();
    while blocking::wait(fs.lookup(&ROOT, fs.root(), b"d")).is_err() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it does not exist");
    }
}

#[test]
fn a_symbolic_link_has_its_name_for_who_creates_a_file() {
    let rig = Rig::start("exclusive", 1);
    let fs = rig.mount();
    blocking::wait(fs.symlink(&Caller::ROOT, fs.root(), b"link", b"nothing")).unwrap();
    let options = OpenOptions { exclusive: true, ..OpenOptions::create(0o644) };
    let opened = blocking::wait(fs.open(&Caller::ROOT, fs.root(), b"link", options));
    assert_eq!(opened.err(), Some(Errno::EEXIST));
}
