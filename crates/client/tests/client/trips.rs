//! How many requests operations need.

use fulmar_base::Errno;
use fulmar_client::{Caller, Change, FileSystem, OpenOptions, SetTime, XattrFlags, blocking};
use fulmar_lustre_wire::layout::{
    Component, CompositeHeader, CompositeMd, LovHeader, LovMd, Pattern,
};
use fulmar_lustre_wire::{Content, Opcode};

use crate::data::patient;
use crate::rig::Rig;

const ROOT: Caller = Caller::ROOT;

/// Counts the requests since the last call, without those that keep connections and give locks up.
pub(crate) struct Counter<'a> {
    fs: &'a FileSystem,
    before: u64,
}

impl Counter<'_> {
    pub(crate) fn new(fs: &FileSystem) -> Counter<'_> {
        let mut this = Counter { fs, before: 0 };
        this.taken();
        this
    }

    pub(crate) fn taken(&mut self) -> u64 {
        let own = [Opcode::OBD_PING, Opcode::LDLM_CANCEL, Opcode::LDLM_CONVERT];
        let all = self.fs.requests();
        let now =
            all.iter().filter(|(opcode, _)| !own.contains(opcode)).map(|(_, count)| count).sum();
        now - std::mem::replace(&mut self.before, now)
    }
}

#[test]
fn files_that_are_looked_at_in_order_are_asked_for_once() {
    let rig = Rig::start("ahead", 2);
    let (fs, other) = (rig.mount(), rig.mount());
    let d = blocking::wait(fs.mkdir(&ROOT, fs.root(), b"d", 0o755)).unwrap().fid;
    for number in 0..200usize {
        let name = format!("file{number}");
        let options = OpenOptions::create(0o644);
        let file = blocking::wait(fs.open(&ROOT, d, name.as_bytes(), options)).unwrap();
        blocking::wait(file.write(0, vec![7; 100 + number])).unwrap();
        blocking::wait(file.close()).unwrap();
    }
    blocking::wait(fs.unmount());
    blocking::wait(other.getattr(&ROOT, d)).unwrap();
    let mut count = Counter::new(&other);
    let batches = || other.requests().get(&Opcode::MDS_BATCH).copied().unwrap_or_default();
    let look = || {
        let (items, end) = blocking::wait(other.read_directory(&ROOT, d, 0)).unwrap();
        assert_eq!((items.len(), end), (202, None));
        for item in items.iter().filter(|item| item.name[0] != b'.') {
            let found = blocking::wait(other.lookup(&ROOT, d, &item.name)).unwrap();
            let number: u64 = std::str::from_utf8(&item.name[4..]).unwrap().parse().unwrap();
            assert_eq!((found.fid, found.attributes.size), (item.fid, 100 + number));
        }
    };
    look();
    // The names in few messages, each of which has room for about nine.
    let (all, batches) = (count.taken(), batches());
    assert!((20..=26).contains(&batches), "{batches} of {all}");
    assert!((1 + 200 + batches..=1 + 200 + batches + 4).contains(&all), "{all}, {batches}");
    look();
    assert_eq!(count.taken(), 0, "all of it is known");
    // What was looked up in advance is not found after it was removed.
    let (items, _) = blocking::wait(other.read_directory(&ROOT, d, 0)).unwrap();
    let names: Vec<_> = items.iter().filter(|item| item.name[0] != b'.').collect();
    for item in &names {
        blocking::wait(other.unlink(&ROOT, d, &item.name)).unwrap();
        let gone = blocking::wait(other.lookup(&ROOT, d, &item.name)).unwrap_err();
        assert_eq!(gone, Errno::ENOENT);
    }
}

#[test]
fn a_small_file_costs_two_round_trips_in_its_turn() {
    let rig = Rig::start("small", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let d = blocking::wait(fs.mkdir(&ROOT, fs.root(), b"d", 0o755)).unwrap().fid;
    for number in 0..100usize {
        let name = format!("file{number}");
        let options = OpenOptions::create(0o644);
        let file = blocking::wait(fs.open(&ROOT, d, name.as_bytes(), options)).unwrap();
        blocking::wait(file.write(0, vec![7; 100])).unwrap();
        blocking::wait(file.close()).unwrap();
    }
    blocking::wait(fs.unmount());
    let (items, _) = blocking::wait(other.read_directory(&ROOT, d, 0)).unwrap();
    let counted = |opcode| other.requests().get(&opcode).copied().unwrap_or(0);
    let (locks, reads) = (counted(Opcode::LDLM_ENQUEUE), counted(Opcode::OST_READ));
    for item in items.iter().filter(|item| item.name[0] != b'.') {
        let found = blocking::wait(other.lookup(&ROOT, d, &item.name)).unwrap().fid;
        let file = blocking::wait(other.open_file(&ROOT, found, OpenOptions::read())).unwrap();
        assert_eq!(blocking::wait(file.read(0, 4096)).unwrap(), vec![7; 100]);
        // The close is not waited for.
        drop(file);
    }
    // Name and size were asked for in advance; the open and the data are waited for.
    let locks = counted(Opcode::LDLM_ENQUEUE) - locks;
    assert!((200..=205).contains(&locks), "{locks}: the names come in batches");
    assert_eq!(counted(Opcode::OST_READ) - reads, 100);
}

/// Returns the layout of files whose first MiB is on the MDT.
fn on_mdt() -> Vec<u8> {
    let layout = |pattern, stripe_size, stripe_count| {
        let wanted = LovMd::wanted(stripe_size, stripe_count);
        LovMd { header: LovHeader { pattern, ..wanted.header }, ..wanted }
    };
    let header = CompositeHeader::new(0);
    let part = |start, end, layout| (Component { start, end, ..Component::default() }, layout);
    let first = part(0, 1 << 20, layout(Pattern::MDT, 1 << 20, 0));
    let second = part(1 << 20, u64::MAX, layout(Pattern::RAID0, 0, 1));
    CompositeMd::new(header, vec![first, second]).to_bytes()
}

#[test]
fn data_on_the_mdt_come_with_the_open() {
    let rig = Rig::start("inline", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let options = OpenOptions { layout: Some(on_mdt()), ..OpenOptions::create(0o644) };
    let file = blocking::wait(fs.open(&ROOT, fs.root(), b"file", options)).unwrap();
    blocking::wait(file.write(0, *b"first")).unwrap();
    let open = || {
        let read = OpenOptions::read();
        blocking::wait(other.open(&ROOT, other.root(), b"file", read)).unwrap()
    };
    // The lock of who writes is called back by the first who reads, and then it comes with the open.
    let read = |file: &fulmar_client::File| blocking::wait(file.read(0, 100)).unwrap();
    let first = open();
    read(&first);
    blocking::wait(first.close()).unwrap();
    let mut count = Counter::new(&other);
    let opened = open();
    let had = (count.taken(), read(&opened), blocking::wait(opened.read(2, 2)).unwrap());
    assert_eq!((had, count.taken()), ((1, b"first".to_vec(), b"rs".to_vec()), 0));
    assert_eq!(blocking::wait(opened.read(5, 100)).unwrap(), b"");
    // What others write is read.
    blocking::wait(file.write(2, *b"other, longer")).unwrap();
    assert_eq!(read(&opened), b"fiother, longer");
    blocking::wait(file.write((1 << 20) - 1, *b"\0end")).unwrap();
    assert_eq!(blocking::wait(opened.read(1 << 20, 100)).unwrap(), b"end");
    // And what this client writes itself.
    let own = open();
    let options = OpenOptions { read: true, write: true, ..OpenOptions::default() };
    let both = blocking::wait(other.open(&ROOT, other.root(), b"file", options)).unwrap();
    blocking::wait(both.set_len(3)).unwrap();
    assert_eq!((read(&own), read(&open())), (b"fio".to_vec(), b"fio".to_vec()));
    blocking::wait(both.write(1, *b"I")).unwrap();
    assert_eq!((read(&own), read(&open())), (b"fIo".to_vec(), b"fIo".to_vec()));
    blocking::wait(both.write_to(None, *b"!")).unwrap();
    assert_eq!((read(&own), read(&open())), (b"fIo!".to_vec(), b"fIo!".to_vec()));
}

#[test]
fn operations_need_the_round_trips_that_they_promise() {
    let rig = Rig::start("trips", 1);
    let fs = rig.mount_with(patient());
    let wait = |change| blocking::wait(fs.setattr(&ROOT, fs.root(), change));
    wait(Change::default()).unwrap();
    // The numbers of new files are known after the first one, and the MDT has objects.
    let first = blocking::wait(fs.open(&ROOT, fs.root(), b"first", OpenOptions::create(0o644)));
    blocking::wait(first.unwrap().close()).unwrap();
    let mut count = Counter::new(&fs);

    let d = blocking::wait(fs.mkdir(&ROOT, fs.root(), b"d", 0o755)).unwrap().fid;
    assert_eq!(count.taken(), 1, "mkdir");
    blocking::wait(fs.getattr(&ROOT, d)).unwrap();
    assert_eq!(count.taken(), 1, "attributes");
    blocking::wait(fs.getattr(&ROOT, d)).unwrap();
    assert_eq!(count.taken(), 0, "attributes again");
    for _ in 0..2 {
        assert_eq!(blocking::wait(fs.lookup(&ROOT, d, b"no")).unwrap_err(), Errno::ENOENT);
    }
    assert_eq!(count.taken(), 1, "a name that does not exist, twice");
    let options = OpenOptions { read: true, ..OpenOptions::create(0o644) };
    let file = blocking::wait(fs.open(&ROOT, d, b"file", options)).unwrap();
    assert_eq!(count.taken(), 1, "a new file");
    blocking::wait(file.write(0, vec![1; 10_000])).unwrap();
    // The lock, and the layout if the open had no lock on it.
    let first = count.taken();
    assert!((1..=2).contains(&first), "{first} for a first write: {:?}", fs.requests());
    blocking::wait(file.write(10_000, vec![1; 10_000])).unwrap();
    assert_eq!(blocking::wait(file.read(0, 1 << 20)).unwrap().len(), 20_000);
    assert_eq!(count.taken(), 0, "a second write, and a read under its lock");
    blocking::wait(file.sync(true)).unwrap();
    assert_eq!(count.taken(), 2, "the data, and a sync of their object");
    let fid = file.fid();
    blocking::wait(file.close()).unwrap();
    assert_eq!(count.taken(), 1, "close");
    for _ in 0..2 {
        assert_eq!(blocking::wait(fs.lookup(&ROOT, d, b"file")).unwrap().attributes.size, 20_000);
    }
    assert_eq!(count.taken(), 0, "a lookup, twice; the open and the locks know it all");
    blocking::wait(fs.read_directory(&ROOT, d, 0)).unwrap();
    assert_eq!(count.taken(), 1, "a directory");
    blocking::wait(fs.set_xattr(&ROOT, fid, b"user.a", (b"1", XattrFlags::NONE))).unwrap();
    assert_eq!(count.taken(), 1, "set an attribute");
    for _ in 0..2 {
        blocking::wait(fs.get_xattr(&ROOT, fid, b"user.a")).unwrap();
        let none = blocking::wait(fs.get_xattr(&ROOT, fid, b"user.b"));
        assert_eq!(none.unwrap_err(), Errno::ENODATA);
    }
    assert_eq!(count.taken(), 1, "attributes, four times");
    blocking::wait(fs.rename(&ROOT, (d, b"file"), (d, b"other"))).unwrap();
    blocking::wait(fs.link(&ROOT, fid, d, b"more")).unwrap();
    blocking::wait(fs.unlink(&ROOT, d, b"more")).unwrap();
    blocking::wait(fs.unlink(&ROOT, d, b"other")).unwrap();
    blocking::wait(fs.rmdir(&ROOT, fs.root(), b"d")).unwrap();
    assert_eq!(count.taken(), 5, "rename, link, two unlinks and a rmdir");
    blocking::wait(fs.statfs()).unwrap();
    assert!(count.taken() <= 3, "statfs asks each target at most once, and the MDT for sums");
}

#[test]
fn the_size_of_a_new_file_comes_with_the_lock_to_write_it() {
    let rig = Rig::start("first", 1);
    let (fs, other) = (rig.mount_with(patient()), rig.mount());
    let make = |name: &[u8]| {
        let options = OpenOptions { read: true, ..OpenOptions::create(0o644) };
        blocking::wait(fs.open(&ROOT, fs.root(), name, options)).unwrap()
    };
    blocking::wait(make(b"before").close()).unwrap();
    let mut count = Counter::new(&fs);
    let file = make(b"file");
    assert_eq!(count.taken(), 1, "a new file");
    assert_eq!(blocking::wait(file.attributes()).unwrap().size, 0);
    assert_eq!(count.taken(), 1, "its size");
    blocking::wait(file.write(0, vec![1; 10_000])).unwrap();
    assert_eq!(blocking::wait(file.attributes()).unwrap().size, 10_000);
    assert_eq!(count.taken(), 0, "a write, and the size again");
    // Who only looks at it later does not take it from those who use it.
    let theirs = blocking::wait(other.open_file(&ROOT, file.fid(), OpenOptions::read())).unwrap();
    assert_eq!(blocking::wait(theirs.read(0, 20_000)).unwrap().len(), 10_000);
    let mut reads = Counter::new(&other);
    assert_eq!(blocking::wait(file.attributes()).unwrap().size, 10_000);
    assert_eq!(blocking::wait(theirs.read(0, 20_000)).unwrap().len(), 10_000);
    assert_eq!(reads.taken(), 0);
    // And a read of a new file does not wait for its own lock.
    let unread = make(b"unread");
    assert_eq!(blocking::wait(unread.read(0, 100)).unwrap(), b"");
}

#[test]
fn a_change_of_attributes_tells_what_they_are_after_it() {
    let rig = Rig::start("changes", 1);
    let (fs, other) = (rig.mount_with(patient()), rig.mount());
    let file = blocking::wait(fs.open(&ROOT, fs.root(), b"file", OpenOptions::create(0o644)));
    let file = file.unwrap();
    let made = file.new_attributes().unwrap();
    assert_eq!((made.fid, made.mode, made.size, made.links), (file.fid(), 0o100_644, 0, 1));
    blocking::wait(file.write(0, vec![1; 10_000])).unwrap();
    let mut count = Counter::new(&fs);
    let set = |change| blocking::wait(fs.setattr(&ROOT, file.fid(), change)).unwrap();
    let changed = set(Change { mode: Some(0o600), ..Change::default() });
    assert_eq!((changed.mode, changed.size), (0o100_600, 10_000));
    let changed = set(Change { uid: Some(5), ..Change::default() });
    assert_eq!((changed.mode, changed.uid, changed.size), (0o100_600, 5, 10_000));
    // The lock that the first change gives up was on the layout too, which the second one asks for.
    assert_eq!(count.taken(), 3, "a mode and an owner, and the layout once");
    blocking::wait(file.sync(true)).unwrap();
    count.taken();
    let changed = set(Change { mtime: Some(SetTime::At(7)), ..Change::default() });
    assert_eq!((changed.mtime, changed.uid), (7, 5));
    assert_eq!(count.taken(), 2, "a time, which the object gets too");
    // The owner is not taken from what was read last, if it decides.
    let owner = Caller::new(5, 5);
    blocking::wait(other.setattr(&ROOT, file.fid(), Change { uid: Some(6), ..Change::default() }))
        .unwrap();
    let times = Change { mtime: Some(SetTime::At(8)), ..Change::default() };
    let refused = blocking::wait(fs.setattr(&owner, file.fid(), times)).unwrap_err();
    assert_eq!(refused, Errno::EPERM);
    let seen = blocking::wait(other.getattr(&ROOT, file.fid())).unwrap();
    assert_eq!((seen.mode, seen.uid, seen.size, seen.mtime), (0o100_600, 6, 10_000, 7));
}

#[test]
fn a_time_goes_with_what_is_not_written_yet() {
    let rig = Rig::start("unsent", 1);
    let (fs, other) = (rig.mount_with(patient()), rig.mount());
    let file = blocking::wait(fs.open(&ROOT, fs.root(), b"file", OpenOptions::create(0o644)));
    let file = file.unwrap();
    let fid = file.fid();
    let write = || blocking::wait(file.write(0, vec![1; 10_000])).unwrap();
    let set = |mtime, atime: Option<i64>| {
        let [mtime, atime] = [Some(mtime), atime].map(|time| time.map(SetTime::At));
        let change = Change { mtime, atime, ..Change::default() };
        blocking::wait(fs.setattr(&ROOT, fid, change)).unwrap()
    };
    let seen = || blocking::wait(other.getattr(&ROOT, fid)).unwrap();
    write();
    let mut count = Counter::new(&fs);
    assert_eq!((set(7, None).mtime, count.taken()), (7, 1), "a time, and no layout");
    assert_eq!(seen().mtime, 7, "the client that has the data is asked");
    blocking::wait(file.sync(true)).unwrap();
    assert_eq!((seen().mtime, seen().size), (7, 10_000));
    // The object gets it where nothing would take it along.
    count.taken();
    assert_eq!((set(8, None).mtime, seen().mtime), (8, 8));
    write();
    assert!(seen().mtime > 1_000_000, "a later write counts");
    let both = set(9, Some(5));
    assert_eq!((both.mtime, both.atime), (9, 5));
    assert_eq!((seen().mtime, seen().atime), (9, 5));
    write();
    assert_eq!((set(10, None).mtime, seen().mtime), (10, 10));
    // Who reads takes the lock away, and with it what is dirty.
    let theirs = blocking::wait(other.open_file(&ROOT, fid, OpenOptions::read())).unwrap();
    assert_eq!(blocking::wait(theirs.read(0, 20_000)).unwrap().len(), 10_000);
    assert_eq!(seen().mtime, 10);
    blocking::wait(file.close()).unwrap();
    blocking::wait(fs.unmount());
    assert_eq!(seen().mtime, 10, "what the object has");
}

#[test]
fn a_time_is_not_kept_back_if_the_server_knows_a_newer_one() {
    let rig = Rig::start("newer", 1);
    let (fs, other) = (rig.mount_with(patient()), rig.mount());
    let make = |name: &[u8]| {
        let made = blocking::wait(fs.open(&ROOT, fs.root(), name, OpenOptions::create(0o644)));
        let file = made.unwrap();
        blocking::wait(file.write(0, vec![1; 10_000])).unwrap();
        file
    };
    let at = |time| Change { mtime: Some(time), ..Change::default() };
    let set = |file: &fulmar_client::File, time| {
        blocking::wait(fs.setattr(&ROOT, file.fid(), at(time))).unwrap();
        blocking::wait(other.getattr(&ROOT, file.fid())).unwrap().mtime
    };
    // Others have asked for it.
    let file = make(b"asked");
    assert!(blocking::wait(other.getattr(&ROOT, file.fid())).unwrap().mtime > 1000);
    assert_eq!(set(&file, SetTime::At(7)), 7);
    // Others have set it, for which they need no lock on the data.
    let file = make(b"set");
    blocking::wait(other.setattr(&ROOT, file.fid(), at(SetTime::Now))).unwrap();
    assert_eq!(set(&file, SetTime::At(7)), 7);
    // It is set twice.
    let file = make(b"twice");
    assert_eq!(set(&file, SetTime::At(9)), 9);
    assert_eq!(set(&file, SetTime::At(7)), 7);
    assert!(set(&file, SetTime::Now) > 1000);
    assert_eq!(set(&file, SetTime::At(8)), 8);
    blocking::wait(file.sync(false)).unwrap();
    assert_eq!(blocking::wait(other.getattr(&ROOT, file.fid())).unwrap().mtime, 8);
}

#[test]
fn what_is_cached_is_told_without_waiting_until_it_changes() {
    let rig = Rig::start("cached", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let file = blocking::wait(fs.open(&ROOT, fs.root(), b"file", OpenOptions::create(0o644)));
    blocking::wait(file.unwrap().close()).unwrap();
    let cached = |name: &[u8]| fs.cached_entry(|| ROOT, fs.root(), name, |found| found);
    let entry = || cached(b"file");
    let attributes = |file| fs.protected(file, None, |now| now.attributes);
    let found = blocking::wait(fs.lookup(&ROOT, fs.root(), b"file")).unwrap();
    assert_eq!(entry(), Some(Ok(found)));
    assert_eq!(attributes(found.fid), Some(found.attributes));
    blocking::wait(fs.getattr(&ROOT, fs.root())).unwrap();
    blocking::wait(fs.lookup(&ROOT, fs.root(), b"none")).unwrap_err();
    assert_eq!(cached(b"none"), Some(Err(Errno::ENOENT)));
    assert_eq!(fs.cached_xattr(found.fid, b"user.a"), None);
    blocking::wait(fs.get_xattr(&ROOT, found.fid, b"user.a")).unwrap_err();
    for name in [b"user.a".as_slice(), b"security.capability", b"system.posix_acl_default"] {
        assert_eq!(fs.cached_xattr(found.fid, name), Some(Err(Errno::ENODATA)));
    }
    assert_eq!(fs.cached_xattr(found.fid, b"security.selinux"), None);
    let none = fs.cached_xattr(found.fid, b"system.posix_acl_access");
    assert_eq!(none, Some(Err(Errno::ENODATA)));
    // Another client changes all of it.
    let value = (b"1".as_slice(), XattrFlags::NONE);
    blocking::wait(other.set_xattr(&ROOT, found.fid, b"user.a", value)).unwrap();
    assert_eq!(fs.cached_xattr(found.fid, b"user.a"), None);
    let rights = Change { mode: Some(0o600), ..Change::default() };
    blocking::wait(other.setattr(&ROOT, found.fid, rights)).unwrap();
    assert_eq!((entry(), attributes(found.fid)), (None, None));
    blocking::wait(other.rename(&ROOT, (other.root(), b"file"), (other.root(), b"none"))).unwrap();
    assert_eq!(cached(b"none"), None);
}

#[test]
fn a_file_that_is_opened_often_has_few_locks() {
    let rig = Rig::start("opens", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let file = blocking::wait(fs.open(&ROOT, fs.root(), b"file", OpenOptions::create(0o644)));
    let fid = file.unwrap().fid();
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let open = |_| blocking::wait(other.open_file(&ROOT, fid, options.clone())).unwrap();
    let opened: Vec<_> = (0..200).map(open).collect();
    let value = |name: &str| blocking::wait(other.get_xattr(&ROOT, other.root(), name.as_bytes()));
    let names = value("lustre.parameters.0").unwrap();
    let names = String::from_utf8(names).unwrap();
    let of_mdt = |name: &&str| name.contains("MDT0000") && name.ends_with("/lock_count");
    let name = names.lines().find(of_mdt).unwrap();
    let count = String::from_utf8(value(&format!("lustre.parameter.{name}")).unwrap()).unwrap();
    let count: usize = count.trim().parse().unwrap();
    assert!(count <= 20, "{count} locks");
    // What is known under them is still valid, and given up for others.
    assert_eq!(blocking::wait(other.getattr(&ROOT, fid)).unwrap().mode, 0o100_644);
    let rights = Change { mode: Some(0o600), ..Change::default() };
    blocking::wait(fs.setattr(&ROOT, fid, rights)).unwrap();
    assert_eq!(blocking::wait(other.getattr(&ROOT, fid)).unwrap().mode, 0o100_600);
    drop(opened);
}
