//! How many requests operations need.

use fulmar_base::Errno;
use fulmar_client::{Caller, Change, FileSystem, OpenOptions, XattrFlags, blocking};
use fulmar_lustre_wire::Opcode;

use crate::data::patient;
use crate::rig::Rig;

const ROOT: Caller = Caller::ROOT;

/// Counts the requests since the last call, without those that keep connections and give locks up.
struct Counter<'a> {
    fs: &'a FileSystem,
    before: u64,
}

impl Counter<'_> {
    fn new(fs: &FileSystem) -> Counter<'_> {
        let mut this = Counter { fs, before: 0 };
        this.taken();
        this
    }

    fn taken(&mut self) -> u64 {
        let own = [Opcode::OBD_PING, Opcode::LDLM_CANCEL, Opcode::LDLM_CONVERT];
        let all = self.fs.requests();
        let now =
            all.iter().filter(|(opcode, _)| !own.contains(opcode)).map(|(_, count)| count).sum();
        now - std::mem::replace(&mut self.before, now)
    }
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
