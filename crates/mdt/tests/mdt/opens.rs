//! Open files: who may open what, what a close says, and files that are removed while they are open.

use fulmar_base::Errno;
use fulmar_lustre_wire::mdt::{OpenFlags, SetAttr};
use fulmar_lustre_wire::message::MessageFlags;
use fulmar_lustre_wire::{Fid, Handle};

use crate::requests::{ROOT, close, open, unlink};
use crate::rig::{NOW, Rig};

const TOP: Fid = Fid::ROOT;

#[test]
fn a_removed_file_stays_until_its_last_close() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let object = rig.object(file).unwrap();
    let first = rig.open((TOP, "file"), OpenFlags::READ);
    let second = rig.open_by(2, (TOP, "file"), OpenFlags::WRITE);
    assert_eq!(rig.must(&unlink(&ROOT, (TOP, "file"))).body().nlink, 0);
    rig.mdt.check().unwrap();
    assert_eq!(rig.getattr(file).unwrap().nlink, 0);
    rig.close(1, file, first);
    assert_eq!(rig.fates()[&object].destroyed, 0);
    assert_eq!(rig.close(2, file, second).nlink, 0);
    assert_eq!(rig.fates()[&object].destroyed, 1);
    assert_eq!(rig.getattr(file), Err(Errno::ENOENT));
    rig.mdt.check().unwrap();
}

#[test]
fn removed_files_of_a_client_go_with_it() {
    let mut rig = Rig::new();
    let files = ["a", "b"].map(|name| rig.touch(&ROOT, (TOP, name)));
    let objects = files.map(|file| rig.object(file).unwrap());
    rig.open_by(2, (TOP, "a"), OpenFlags::READ);
    rig.open_by(2, (TOP, "b"), OpenFlags::READ);
    let kept = rig.open((TOP, "b"), OpenFlags::READ);
    rig.must(&unlink(&ROOT, (TOP, "a")));
    rig.must(&unlink(&ROOT, (TOP, "b")));
    rig.mdt.forget(Handle(2), NOW).unwrap();
    assert_eq!(objects.map(|object| rig.fates()[&object].destroyed), [1, 0]);
    rig.close(1, files[1], kept);
    assert_eq!(rig.fates()[&objects[1]].destroyed, 1);
    rig.mdt.check().unwrap();
}

#[test]
fn removed_files_that_nobody_opens_again_go_after_the_recovery() {
    let mut rig = Rig::new();
    let files = ["a", "b"].map(|name| rig.touch(&ROOT, (TOP, name)));
    let objects = files.map(|file| rig.object(file).unwrap());
    let mut again = open(&ROOT, (TOP, "b"), files[1], OpenFlags::READ);
    rig.open((TOP, "a"), OpenFlags::READ);
    again.body.transno = rig.must(&again).transno();
    rig.must(&unlink(&ROOT, (TOP, "a")));
    rig.must(&unlink(&ROOT, (TOP, "b")));
    let store = rig.store.clone();
    rig.restart(store);
    rig.mdt.check().unwrap();
    again.body.flags = again.body.flags | MessageFlags::REPLAY;
    let reopened = rig.must(&again).body();
    assert_eq!(reopened.fid, files[1]);
    assert_eq!(objects.map(|object| rig.fates()[&object].destroyed), [0, 0]);
    rig.mdt.recovered(NOW).unwrap();
    assert_eq!(objects.map(|object| rig.fates()[&object].destroyed), [1, 0]);
    rig.close(1, files[1], reopened.open_handle);
    assert_eq!(rig.fates()[&objects[1]].destroyed, 1);
    rig.mdt.check().unwrap();
}

#[test]
fn a_handle_is_closed_once_by_its_client() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let handle = rig.open((TOP, "file"), OpenFlags::READ);
    let request = close(file, handle, SetAttr::default());
    assert_eq!(rig.ask(2, &request).unwrap_err(), Errno::ESTALE);
    rig.must(&request);
    assert_eq!(rig.fails(&request), Errno::ESTALE);
}
