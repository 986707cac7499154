//! Files that a mount keeps open: opening, reading and closing them needs no request, and others see what they do.

use std::time::Instant;

use fulmar_base::Errno;
use fulmar_client::special::{WARM, WARM_STATE};
use fulmar_client::{Caller, Change, File, FileSystem, OpenOptions, blocking};
use fulmar_lustre_wire::{Fid, Opcode};

use crate::rig::{Rig, TIMEOUT};
use crate::trips::Counter;

const ROOT: Caller = Caller::ROOT;

fn make(fs: &FileSystem, name: &str, text: &[u8]) -> Fid {
    let options = OpenOptions::create(0o644);
    let file = blocking::wait(fs.open(&ROOT, fs.root(), name.as_bytes(), options)).unwrap();
    blocking::wait(file.write(0, text.to_vec())).unwrap();
    blocking::wait(file.sync(false)).unwrap();
    let fid = file.fid();
    blocking::wait(file.close()).unwrap();
    fid
}

fn open(fs: &FileSystem, caller: &Caller, file: Fid) -> Result<File, Errno> {
    blocking::wait(fs.open_file(caller, file, OpenOptions::read()))
}

fn read(file: &File) -> Vec<u8> {
    blocking::wait(file.read(0, 4096)).unwrap()
}

/// Opens, reads and closes a file.
fn look(fs: &FileSystem, file: Fid) -> Vec<u8> {
    let opened = open(fs, &ROOT, file).unwrap();
    let text = read(&opened);
    blocking::wait(opened.close()).unwrap();
    text
}

fn warm(fs: &FileSystem, file: Fid) -> String {
    String::from_utf8(blocking::wait(fs.get_xattr(&ROOT, file, WARM)).unwrap()).unwrap()
}

fn closes(fs: &FileSystem) -> u64 {
    fs.requests().get(&Opcode::MDS_CLOSE).copied().unwrap_or(0)
}

fn wait_for(mut is_so: impl FnMut() -> bool, what: &str) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn files_that_were_warmed_up_are_opened_read_and_closed_without_a_request() {
    let rig = Rig::start("warm", 2);
    let (fs, other) = (rig.mount(), rig.mount());
    let names: Vec<String> = (0..100).map(|number| format!("file{number}")).collect();
    let files: Vec<Fid> = names.iter().map(|name| make(&fs, name, name.as_bytes())).collect();
    blocking::wait(fs.unmount());
    for (name, file) in names.iter().zip(&files) {
        let found = blocking::wait(other.lookup(&ROOT, other.root(), name.as_bytes())).unwrap();
        assert_eq!((found.fid, warm(&other, *file)), (*file, format!("{} 1\n", name.len())));
    }
    let mut count = Counter::new(&other);
    for (name, file) in names.iter().zip(&files) {
        let found = blocking::wait(other.lookup(&ROOT, other.root(), name.as_bytes())).unwrap();
        assert_eq!((found.fid, found.attributes.size), (*file, name.len() as u64));
        assert_eq!(look(&other, *file), name.as_bytes());
        let (root, options) = (other.root(), OpenOptions::read());
        let by_name = blocking::wait(other.open(&ROOT, root, name.as_bytes(), options)).unwrap();
        blocking::wait(by_name.close()).unwrap();
        // Everybody may read it.
        blocking::wait(open(&other, &Caller::new(1000, 1000), *file).unwrap().close()).unwrap();
    }
    assert_eq!(count.taken(), 0, "{:?}", other.requests());
    // Who writes opens the file at the server.
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    blocking::wait(blocking::wait(other.open_file(&ROOT, files[0], options)).unwrap().close())
        .unwrap();
    assert_eq!(count.taken(), 2, "an open and a close");
    assert_eq!(look(&other, files[0]), b"file0");
    assert_eq!(count.taken(), 0);
}

#[test]
fn a_file_without_its_data_is_kept_open_too() {
    let rig = Rig::start("warm-state", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let file = make(&fs, "file", b"text");
    let value = blocking::wait(other.get_xattr(&ROOT, file, WARM_STATE)).unwrap();
    assert_eq!(value, b"0 1\n");
    let mut count = Counter::new(&other);
    let opened = open(&other, &ROOT, file).unwrap();
    assert_eq!(count.taken(), 0);
    assert_eq!(read(&opened), b"text");
    assert!(count.taken() > 0, "the data");
    // A directory and a symbolic link have nothing to keep.
    let link = blocking::wait(other.symlink(&ROOT, other.root(), b"link", b"file")).unwrap();
    for fid in [other.root(), link.fid] {
        assert_eq!(warm(&other, fid), "0 0\n");
    }
}

#[test]
fn other_clients_change_files_that_are_kept_open() {
    let rig = Rig::start("kept-changes", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let file = make(&other, "file", b"first");
    assert_eq!(warm(&fs, file), "5 1\n");
    // What they write is read.
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let theirs = blocking::wait(other.open_file(&ROOT, file, options)).unwrap();
    blocking::wait(theirs.write(0, *b"other")).unwrap();
    assert_eq!(look(&fs, file), b"other");
    blocking::wait(theirs.close()).unwrap();
    // What they forbid is forbidden.
    let user = Caller::new(1000, 1000);
    blocking::wait(open(&fs, &user, file).unwrap().close()).unwrap();
    let before = closes(&fs);
    let rights = Change { mode: Some(0o600), ..Change::default() };
    blocking::wait(other.setattr(&ROOT, file, rights)).unwrap();
    assert_eq!(open(&fs, &user, file).unwrap_err(), Errno::EACCES);
    wait_for(|| closes(&fs) > before, "the open that was kept is not closed");
    assert_eq!(look(&fs, file), b"other");
    // And so it is when its open is kept again.
    assert_eq!(warm(&fs, file), "5 1\n");
    assert_eq!(open(&fs, &user, file).unwrap_err(), Errno::EACCES);
    let mut count = Counter::new(&fs);
    assert_eq!(look(&fs, file), b"other");
    assert_eq!(count.taken(), 0);
}

#[test]
fn a_file_that_is_removed_is_there_for_who_has_it_open() {
    let rig = Rig::start("kept-unlinked", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let (used, unused) = (make(&other, "used", b"used"), make(&other, "unused", b"unused"));
    for file in [used, unused] {
        warm(&fs, file);
    }
    let opened = open(&fs, &ROOT, used).unwrap();
    let before = closes(&fs);
    blocking::wait(other.unlink(&ROOT, other.root(), b"unused")).unwrap();
    wait_for(|| closes(&fs) == before + 1, "the open that was kept is not closed");
    assert_eq!(open(&fs, &ROOT, unused).unwrap_err(), Errno::ENOENT);
    blocking::wait(other.unlink(&ROOT, other.root(), b"used")).unwrap();
    assert_eq!(read(&opened), b"used");
    assert_eq!(closes(&fs), before + 1);
    blocking::wait(opened.close()).unwrap();
    assert_eq!(closes(&fs), before + 2);
    // This client removes one itself.
    let own = make(&other, "own", b"own");
    warm(&fs, own);
    let opened = open(&fs, &ROOT, own).unwrap();
    blocking::wait(fs.unlink(&ROOT, fs.root(), b"own")).unwrap();
    assert_eq!(read(&opened), b"own");
    blocking::wait(opened.close()).unwrap();
    assert_eq!(open(&fs, &ROOT, own).unwrap_err(), Errno::ENOENT);
}

#[test]
fn files_stay_open_over_a_restart_of_the_servers() {
    let mut rig = Rig::start("kept-restart", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let file = make(&other, "file", b"text");
    warm(&fs, file);
    let opened = open(&fs, &ROOT, file).unwrap();
    rig.restart();
    // Something that waits for the recovery.
    blocking::wait(fs.mkdir(&ROOT, fs.root(), b"d", 0o755)).unwrap();
    blocking::wait(other.mkdir(&ROOT, fs.root(), b"e", 0o755)).unwrap();
    let (before, opens) = (closes(&fs), fs.requests()[&Opcode::LDLM_ENQUEUE]);
    assert_eq!(look(&fs, file), b"text");
    assert_eq!((closes(&fs), fs.requests()[&Opcode::LDLM_ENQUEUE]), (before, opens));
    // The server knows that it is open, and the lock is called back.
    blocking::wait(other.unlink(&ROOT, other.root(), b"file")).unwrap();
    assert_eq!(read(&opened), b"text");
    blocking::wait(opened.close()).unwrap();
    assert_eq!(closes(&fs), before + 1);
    assert_eq!(open(&fs, &ROOT, file).unwrap_err(), Errno::ENOENT);
}

#[test]
fn an_eviction_drops_what_is_kept_open() {
    let mut rig = Rig::start("kept-evicted", 1);
    let other = rig.mount();
    let file = make(&other, "file", b"text");
    blocking::wait(other.unmount());
    rig.save_mdt();
    let fs = rig.mount();
    warm(&fs, file);
    let (opened, before) = (open(&fs, &ROOT, file).unwrap(), closes(&fs));
    // The MDT does not know this client any more.
    rig.restore_mdt();
    // What was begun before the eviction fails.
    let make = || blocking::wait(fs.mkdir(&ROOT, fs.root(), b"d", 0o755)).is_ok();
    wait_for(make, "the client does not connect again");
    assert_eq!(blocking::wait(opened.close()).unwrap_err(), Errno::EIO);
    assert_eq!(closes(&fs), before, "there is nothing to close");
    let mut count = Counter::new(&fs);
    assert_eq!(look(&fs, file), b"text");
    assert!(count.taken() >= 2, "an open and a close");
    warm(&fs, file);
    count.taken();
    assert_eq!(look(&fs, file), b"text");
    assert_eq!(count.taken(), 0);
}

#[test]
fn a_file_that_is_opened_again_and_again_is_kept_open() {
    let rig = Rig::start("kept-often", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let file = make(&other, "file", b"text");
    blocking::wait(fs.getattr(&ROOT, file)).unwrap();
    look(&fs, file);
    let before = closes(&fs);
    (0..20).for_each(|_| assert_eq!(look(&fs, file), b"text"));
    let opened = closes(&fs) - before;
    assert!(opened <= 4, "{opened}");
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let theirs = blocking::wait(other.open_file(&ROOT, file, options)).unwrap();
    blocking::wait(theirs.write(0, *b"TEXT")).unwrap();
    assert_eq!(look(&fs, file), b"TEXT");
}
