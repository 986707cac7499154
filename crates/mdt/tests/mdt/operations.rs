//! Names and files: what each operation does, and how it fails.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::Disposition;
use fulmar_lustre_wire::mdt::{OpenFlags, Valid};
use fulmar_mdt::mode;

use crate::requests::{
    OTHER, ROOT, USER, chmod, create, fid, getattr, link, lookup, mkdir, open, rename, rmdir,
    symlink, unlink,
};
use crate::rig::{NOW, Rig};

const TOP: Fid = Fid::ROOT;

#[test]
fn a_new_file_system_has_a_root() {
    let mut rig = Rig::new();
    let root = rig.getattr(TOP).unwrap();
    assert_eq!((root.mode, root.nlink), (mode::DIRECTORY | 0o755, 3));
    assert_eq!(rig.names(TOP), [""; 0], "its own directory is not listed");
    let hidden = rig.find((TOP, ".lustre")).unwrap();
    assert_eq!(rig.find((hidden, "..")), Some(TOP));
    assert_eq!(rig.find((TOP, "..")), Some(TOP));
    let file = rig.touch(&ROOT, (TOP, "file"));
    let new = rig.next_fid();
    let refused = [
        rmdir(&ROOT, (TOP, ".lustre")),
        rename(&ROOT, (TOP, ".lustre"), (TOP, "new")),
        rename(&ROOT, (TOP, "file"), (TOP, ".lustre")),
        rename(&ROOT, (TOP, "file"), (hidden, "file")),
        link(&ROOT, file, (hidden, "file")),
        mkdir(&ROOT, (hidden, "new"), new),
        open(&ROOT, (hidden, "new"), new, OpenFlags::CREAT | OpenFlags::WRITE),
        unlink(&ROOT, (hidden, "fid")),
    ];
    assert!(refused.iter().all(|request| rig.fails(request) == Errno::EPERM));
    assert_eq!(rig.fails(&getattr(fid(99))), Errno::ENOENT);
    rig.mdt.check().unwrap();
}

#[test]
fn files_of_all_kinds_are_created() {
    let mut rig = Rig::new();
    let kinds = [mode::REGULAR, mode::FIFO, mode::SOCKET, mode::CHARACTER, mode::BLOCK];
    for kind in kinds {
        let (fid, name) = (rig.next_fid(), format!("{kind:o}"));
        let made = rig.must(&create(&ROOT, (TOP, &name), fid, kind | 0o640)).body();
        assert_eq!((made.fid, made.mode, made.nlink), (fid, kind | 0o640, 1));
        assert_eq!((made.atime, made.mtime, made.ctime), (NOW, NOW, NOW));
        assert_eq!(rig.find((TOP, &name)), Some(fid));
    }
    let directory = rig.mkdir((TOP, "directory"));
    assert_eq!(rig.getattr(directory).unwrap().nlink, 2);
    assert_eq!(rig.getattr(TOP).unwrap().nlink, 4);
    let target = rig.next_fid();
    rig.must(&symlink(&ROOT, (directory, "symlink"), target, "../fifo"));
    let read = rig.must(&getattr(target));
    assert_eq!((read.layout(), read.body().size), (&b"../fifo\0"[..], 7));
    assert!(read.body().valid.has(Valid::LINKNAME));
    assert_eq!(rig.names(directory), ["symlink"]);
    rig.mdt.check().unwrap();
}

#[test]
fn creations_fail_as_in_a_kernel() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let new = rig.next_fid();
    let longest = "x".repeat(256);
    let make = |place, fid| create(&ROOT, place, fid, mode::REGULAR | 0o644);
    assert_eq!(rig.fails(&make((TOP, "file"), new)), Errno::EEXIST);
    assert_eq!(rig.fails(&make((TOP, "new"), file)), Errno::EEXIST, "the FID is used");
    assert_eq!(rig.fails(&make((fid(99), "new"), new)), Errno::ENOENT);
    assert_eq!(rig.fails(&make((file, "new"), new)), Errno::ENOTDIR);
    assert_eq!(rig.fails(&make((TOP, &longest), new)), Errno::ENAMETOOLONG);
    assert_eq!(rig.fails(&create(&USER, (TOP, "new"), new, mode::REGULAR)), Errno::EACCES);
    assert_eq!(rig.fails(&mkdir(&USER, (TOP, "file"), new)), Errno::EEXIST, "users see that");
    let versioned = Fid { version: 1, ..TOP };
    assert_eq!(rig.fails(&make((versioned, "new"), new)), Errno::EINVAL);
    assert_eq!(rig.fails(&make((TOP, "new"), Fid { version: 1, ..new })), Errno::EINVAL);
    rig.must(&make((TOP, &longest[1..]), new));
    rig.mdt.check().unwrap();
}

#[test]
fn a_file_has_all_its_names() {
    let mut rig = Rig::new();
    let (file, directory) = (rig.touch(&ROOT, (TOP, "a")), rig.mkdir((TOP, "d")));
    rig.must(&link(&ROOT, file, (directory, "b")));
    assert_eq!(rig.find((directory, "b")), Some(file));
    assert_eq!(rig.getattr(file).unwrap().nlink, 2);
    assert_eq!(rig.fails(&link(&ROOT, file, (directory, "b"))), Errno::EEXIST);
    assert_eq!(rig.fails(&link(&ROOT, directory, (TOP, "c"))), Errno::EPERM);
    assert_eq!(rig.fails(&link(&ROOT, directory, (directory, "c"))), Errno::EPERM);
    assert_eq!(rig.fails(&link(&USER, directory, (TOP, "a"))), Errno::EEXIST);
    assert_eq!(rig.fails(&link(&ROOT, fid(99), (TOP, "c"))), Errno::ENOENT);
    assert_eq!(rig.fails(&link(&USER, file, (TOP, "c"))), Errno::EACCES);
    let object = rig.object(file).unwrap();
    assert_eq!(rig.must(&unlink(&ROOT, (TOP, "a"))).body().nlink, 1);
    assert_eq!(rig.fates()[&object].destroyed, 0);
    assert_eq!(rig.must(&unlink(&ROOT, (directory, "b"))).body().nlink, 0);
    assert_eq!((rig.fates()[&object].used, rig.fates()[&object].destroyed), (1, 1));
    assert_eq!(rig.getattr(file), Err(Errno::ENOENT));
    rig.mdt.check().unwrap();
}

#[test]
fn a_file_has_more_names_than_are_noted() {
    let mut rig = Rig::new();
    let (file, directory) = (rig.touch(&ROOT, (TOP, "0")), rig.mkdir((TOP, "d")));
    let name = |number: u32| format!("{number}-{}", "x".repeat(200));
    for number in 1..100 {
        rig.must(&link(&ROOT, file, (directory, &name(number))));
    }
    rig.mdt.check().unwrap();
    rig.must(&rename(&ROOT, (directory, &name(99)), (TOP, "99")));
    rig.must(&rename(&ROOT, (directory, &name(1)), (TOP, "1")));
    rig.mdt.check().unwrap();
    for number in 2..99 {
        rig.must(&unlink(&ROOT, (directory, &name(number))));
    }
    rig.mdt.check().unwrap();
    let object = rig.object(file).unwrap();
    let last = ["0", "1", "99"].map(|name| rig.must(&unlink(&ROOT, (TOP, name))).body().nlink);
    assert_eq!((last, rig.fates()[&object].destroyed), ([2, 1, 0], 1));
    rig.mdt.check().unwrap();
}

#[test]
fn removals_fail_as_in_a_kernel() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    rig.touch(&ROOT, (directory, "file"));
    assert_eq!(rig.fails(&unlink(&ROOT, (TOP, "none"))), Errno::ENOENT);
    assert_eq!(rig.fails(&unlink(&ROOT, (TOP, "d"))), Errno::EISDIR);
    assert_eq!(rig.fails(&rmdir(&ROOT, (directory, "file"))), Errno::ENOTDIR);
    assert_eq!(rig.fails(&rmdir(&ROOT, (TOP, "d"))), Errno::ENOTEMPTY);
    assert_eq!(rig.fails(&unlink(&USER, (directory, "file"))), Errno::EACCES);
    rig.must(&chmod(&ROOT, directory, 0o1777));
    let own = rig.touch(&USER, (directory, "own"));
    assert_eq!(rig.getattr(own).unwrap().uid, USER.uid);
    assert_eq!(rig.fails(&unlink(&OTHER, (directory, "own"))), Errno::EPERM, "it is sticky");
    rig.must(&unlink(&USER, (directory, "own")));
    rig.must(&unlink(&ROOT, (directory, "file")));
    assert_eq!(rig.must(&rmdir(&ROOT, (TOP, "d"))).body().nlink, 0);
    assert_eq!(rig.find((TOP, "d")), None);
    assert_eq!(rig.getattr(TOP).unwrap().nlink, 3);
    rig.mdt.check().unwrap();
}

#[test]
fn renaming_moves_and_replaces() {
    let mut rig = Rig::new();
    let (a, b) = (rig.mkdir((TOP, "a")), rig.mkdir((TOP, "b")));
    let file = rig.touch(&ROOT, (a, "file"));
    let old = rig.touch(&ROOT, (b, "old"));
    let object = rig.object(old).unwrap();
    let replaced = rig.must(&rename(&ROOT, (a, "file"), (b, "old"))).body();
    assert_eq!((replaced.fid, replaced.nlink), (old, 0));
    assert_eq!(rig.fates()[&object].destroyed, 1);
    assert_eq!((rig.find((a, "file")), rig.find((b, "old"))), (None, Some(file)));
    assert_eq!(rig.getattr(file).unwrap().nlink, 1);
    let inner = rig.mkdir((a, "inner"));
    assert_eq!(rig.must(&rename(&ROOT, (a, "inner"), (b, "inner"))).body().valid, Valid::NONE);
    assert_eq!(rig.find((inner, "..")), Some(b));
    let nlinks = [a, b].map(|fid| rig.getattr(fid).unwrap().nlink);
    assert_eq!(nlinks, [2, 3]);
    rig.must(&rename(&ROOT, (TOP, "a"), (b, "inner")));
    assert_eq!((rig.getattr(inner), rig.find((b, "inner"))), (Err(Errno::ENOENT), Some(a)));
    rig.mdt.check().unwrap();
}

#[test]
fn renamings_fail_as_in_a_kernel() {
    let mut rig = Rig::new();
    let (a, b) = (rig.mkdir((TOP, "a")), rig.mkdir((TOP, "b")));
    let inner = rig.mkdir((a, "inner"));
    let file = rig.touch(&ROOT, (TOP, "file"));
    rig.must(&link(&ROOT, file, (TOP, "same")));
    rig.must(&rename(&ROOT, (TOP, "file"), (TOP, "same")));
    assert_eq!(rig.names(TOP), ["a", "b", "file", "same"], "the same file");
    let fails = |rig: &mut Rig, from, to| rig.fails(&rename(&ROOT, from, to));
    assert_eq!(fails(&mut rig, (TOP, "none"), (TOP, "new")), Errno::ENOENT);
    assert_eq!(fails(&mut rig, (TOP, "a"), (inner, "a")), Errno::EINVAL, "below itself");
    assert_eq!(fails(&mut rig, (TOP, "a"), (a, "a")), Errno::EINVAL);
    assert_eq!(fails(&mut rig, (TOP, "b"), (TOP, "a")), Errno::ENOTEMPTY);
    assert_eq!(fails(&mut rig, (a, "inner"), (TOP, "a")), Errno::ENOTEMPTY, "the source is in it");
    rig.mkdir((inner, "below"));
    assert_eq!(fails(&mut rig, (inner, "below"), (TOP, "a")), Errno::ENOTEMPTY);
    assert_eq!(fails(&mut rig, (TOP, "file"), (TOP, "b")), Errno::EISDIR);
    assert_eq!(fails(&mut rig, (TOP, "b"), (TOP, "file")), Errno::ENOTDIR);
    assert_eq!(fails(&mut rig, (TOP, "file"), (file, "new")), Errno::ENOTDIR);
    assert_eq!(fails(&mut rig, (TOP, "file"), (fid(99), "new")), Errno::ENOENT);
    assert_eq!(fails(&mut rig, (TOP, "file"), (TOP, &"x".repeat(256))), Errno::ENAMETOOLONG);
    assert_eq!(rig.fails(&rename(&USER, (TOP, "file"), (TOP, "new"))), Errno::EACCES);
    rig.must(&chmod(&ROOT, a, 0o1777));
    rig.must(&chmod(&ROOT, b, 0o1777));
    rig.touch(&USER, (a, "own"));
    rig.touch(&OTHER, (b, "other"));
    let moved = rename(&OTHER, (a, "own"), (b, "new"));
    assert_eq!(rig.fails(&moved), Errno::EPERM, "the source is sticky");
    let replaced = rename(&USER, (a, "own"), (b, "other"));
    assert_eq!(rig.fails(&replaced), Errno::EPERM, "the target is sticky");
    rig.mdt.check().unwrap();
}

#[test]
fn names_are_looked_up() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    let file = rig.touch(&ROOT, (directory, "file"));
    let missing = rig.must(&lookup(&USER, (directory, "none")));
    assert!(missing.disposition.has(Disposition::LOOKUP_NEG));
    assert_eq!(missing.body().valid, Valid::NONE);
    assert_eq!(rig.find((directory, "file")), Some(file));
    assert_eq!(rig.fails(&lookup(&USER, (file, "x"))), Errno::ENOTDIR);
    assert_eq!(rig.fails(&lookup(&USER, (fid(99), "x"))), Errno::ENOENT);
    rig.must(&chmod(&ROOT, directory, 0o600));
    assert_eq!(rig.fails(&lookup(&USER, (directory, "file"))), Errno::EACCES);
    let named = format!("[{:#x}:{:#x}:0x0]", file.seq, file.oid);
    let by_fid = rig.find((TOP, ".lustre")).and_then(|own| rig.find((own, "fid"))).unwrap();
    assert_eq!(rig.find((by_fid, &named)), Some(file));
}

#[test]
fn files_are_opened_and_closed() {
    let mut rig = Rig::new();
    let new = rig.next_fid();
    let flags = OpenFlags::CREAT | OpenFlags::WRITE;
    let made = rig.must(&open(&ROOT, (TOP, "file"), new, flags));
    let steps = Disposition::OPEN_CREATE | Disposition::OPEN_OPEN | Disposition::LOOKUP_NEG;
    assert!(made.disposition.has(steps) && !made.disposition.has(Disposition::OPEN_STRIPE));
    assert!(made.transno() > 0 && !made.layout().is_empty());
    let again = rig.must(&open(&ROOT, (TOP, "file"), fid(77), flags));
    assert!(again.disposition.has(Disposition::LOOKUP_POS | Disposition::OPEN_OPEN));
    assert!(!again.disposition.has(Disposition::OPEN_CREATE));
    assert_eq!(again.body().fid, new);
    let handles = [made, again].map(|reply| reply.body().open_handle);
    assert_ne!(handles[0], handles[1]);
    for handle in handles {
        assert_eq!(rig.close(1, new, handle).valid, Valid::NONE);
    }
    assert_eq!(rig.fates().len(), 1);
    let late = open(&ROOT, (TOP, "late"), fid(49), flags | OpenFlags::DELAY_CREATE);
    assert!(rig.must(&late).disposition.has(Disposition::OPEN_CREATE | Disposition::OPEN_STRIPE));
    let now = rig.must(&open(&ROOT, (TOP, "late"), fid(78), flags));
    assert!(now.disposition.has(Disposition::LOOKUP_POS | Disposition::OPEN_STRIPE));
    rig.must(&mkdir(&ROOT, (TOP, "d"), fid(50)));
    rig.open((TOP, "d"), OpenFlags::READ | OpenFlags::DIRECTORY);
    rig.mdt.check().unwrap();
}
