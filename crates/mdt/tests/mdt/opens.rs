//! Open files: who may open what, what a close says, and files that are removed while they are open.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::ldlm::Disposition;
use fulmar_lustre_wire::mdt::{AttrValid, MdtBody, OpenFlags, SetAttr, Valid};
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::{Fid, Handle};

use crate::requests::{
    ROOT, USER, asked, chmod, close, connect, fid, mkdir, open, setattr, symlink, unlink,
};
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
fn removed_files_that_are_not_opened_again_go_after_the_recovery() {
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

/// A client may replay an open only after what another one has replayed: it was on disk, and has no turn.
#[test]
fn no_file_goes_before_all_opens_are_replayed() {
    let mut rig = Rig::new();
    let names = ["unlinked", "closed", "evicted", "unused"];
    let files = names.map(|name| rig.touch(&ROOT, (TOP, name)));
    let objects = files.map(|file| rig.object(file).unwrap());
    let mut opens = |client, n: usize| {
        let mut again = open(&ROOT, (TOP, names[n]), files[n], OpenFlags::READ);
        again.body.transno = rig.ask(client, &again).unwrap().transno();
        again.body.flags = again.body.flags | MessageFlags::REPLAY;
        again
    };
    let late = [0, 1, 2].map(|n| opens(1, n));
    let early = [1, 2].map(|n| opens(2, n));
    let mut last = 0;
    for name in [names[1], names[2]] {
        last = rig.must(&unlink(&ROOT, (TOP, name))).transno();
    }
    let store = rig.store.clone();
    rig.restart(store);
    let mut replay = |mut request: Message<'static>| {
        last += 1;
        request.body.transno = last;
        request.body.flags = request.body.flags | MessageFlags::REPLAY;
        request
    };
    let gone = [names[0], names[3]].map(|name| replay(unlink(&ROOT, (TOP, name))));
    gone.iter().for_each(|request| drop(rig.ask(2, request).unwrap()));
    let handles = early.map(|again| rig.ask(2, &again).unwrap().body().open_handle);
    rig.ask(2, &replay(close(files[1], handles[0], SetAttr::default()))).unwrap();
    rig.mdt.forget(Handle(2), NOW).unwrap();
    let handles = late.map(|again| rig.must(&again).body().open_handle);
    assert_eq!(objects.map(|object| rig.fates()[&object].destroyed), [0; 4]);
    rig.mdt.recovered(NOW).unwrap();
    assert_eq!(objects.map(|object| rig.fates()[&object].destroyed), [0, 0, 0, 1]);
    for (file, handle) in files.into_iter().zip(handles) {
        rig.close(1, file, handle);
    }
    assert_eq!(objects.map(|object| rig.fates()[&object].destroyed), [1; 4]);
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

#[test]
fn what_exists_is_opened_as_its_kind_permits() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let directory = rig.mkdir((TOP, "directory"));
    let target = rig.next_fid();
    rig.must(&symlink(&ROOT, (TOP, "symlink"), target, "file"));
    let (read, write, create) = (OpenFlags::READ, OpenFlags::WRITE, OpenFlags::CREAT);
    let mut try_open = |name, flags| {
        let reply = rig.send(1, &open(&ROOT, (TOP, name), fid(90), flags)).unwrap();
        assert!(reply.disposition.has(Disposition::LOOKUP_POS));
        assert_eq!(reply.disposition.has(Disposition::OPEN_OPEN), reply.transno() > 0);
        (reply.result, reply.body().fid, reply.body().open_handle != Handle(0))
    };
    let exclusive = create | OpenFlags::EXCL | write;
    assert_eq!(try_open("file", exclusive), (Err(Errno::EEXIST), file, false));
    assert_eq!(try_open("directory", exclusive), (Err(Errno::EEXIST), directory, false));
    assert_eq!(try_open("directory", write), (Err(Errno::EISDIR), directory, false));
    assert_eq!(try_open("directory", create | read), (Err(Errno::EISDIR), directory, false));
    let only_directory = read | OpenFlags::DIRECTORY;
    assert_eq!(try_open("file", only_directory), (Err(Errno::ENOTDIR), Fid::default(), false));
    assert_eq!(try_open("directory", only_directory), (Ok(()), directory, true));
    assert_eq!(try_open("symlink", read), (Ok(()), target, false));
    assert_eq!(try_open("file", create | write), (Ok(()), file, true));
    let missing = rig.must(&open(&ROOT, (TOP, "none"), fid(90), read));
    assert!(missing.disposition.has(Disposition::LOOKUP_NEG));
    assert_eq!((missing.transno(), missing.body()), (0, MdtBody::default()));
    assert_eq!(
        rig.fails(&open(&ROOT, (TOP, &"x".repeat(256)), fid(90), read)),
        Errno::ENAMETOOLONG
    );
}

#[test]
fn an_open_needs_the_permissions_of_its_flags() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let try_open =
        |rig: &mut Rig, flags| rig.ask(1, &open(&USER, (TOP, "file"), fid(90), flags)).map(drop);
    rig.must(&chmod(&ROOT, file, 0o604));
    assert_eq!(try_open(&mut rig, OpenFlags::READ), Ok(()));
    assert_eq!(try_open(&mut rig, OpenFlags::WRITE), Err(Errno::EACCES));
    assert_eq!(try_open(&mut rig, OpenFlags::READ | OpenFlags::TRUNC), Err(Errno::EACCES));
    assert_eq!(try_open(&mut rig, OpenFlags::EXEC), Err(Errno::EACCES));
    rig.must(&chmod(&ROOT, file, 0o601));
    let run = open(&USER, (TOP, "file"), fid(90), OpenFlags::EXEC | OpenFlags::READ);
    let running = rig.must(&run).body().open_handle;
    rig.close(1, file, running);
    assert_eq!(try_open(&mut rig, OpenFlags::READ), Err(Errno::EACCES));
    let written = OpenFlags::EXEC | OpenFlags::WRITE;
    assert_eq!(try_open(&mut rig, written), Err(Errno::EACCES));
    rig.must(&setattr(&ROOT, file, SetAttr { uid: USER.uid, ..valid(AttrValid::UID) }));
    rig.must(&chmod(&ROOT, file, 0o000));
    assert_eq!(try_open(&mut rig, OpenFlags::WRITE), Err(Errno::EACCES));
    assert_eq!(try_open(&mut rig, OpenFlags::WRITE | OpenFlags::OWNEROVERRIDE), Ok(()));
    let new = rig.next_fid();
    let denied = open(&USER, (TOP, "new"), new, OpenFlags::CREAT | OpenFlags::WRITE);
    assert_eq!(rig.fails(&denied), Errno::EACCES);
    assert_eq!(rig.find((TOP, "new")), None);
}

fn valid(valid: AttrValid) -> SetAttr {
    SetAttr { valid, ..SetAttr::default() }
}

#[test]
fn what_is_executed_is_not_written() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    rig.must(&chmod(&ROOT, file, 0o755));
    let running = rig.open_by(2, (TOP, "file"), OpenFlags::EXEC | OpenFlags::READ);
    let write = open(&ROOT, (TOP, "file"), fid(90), OpenFlags::WRITE);
    assert_eq!(rig.fails(&write), Errno::ETXTBSY);
    let cut = setattr(&ROOT, file, valid(AttrValid::SIZE));
    assert_eq!(rig.fails(&cut), Errno::ETXTBSY);
    rig.close(2, file, running);
    rig.must(&cut);
    let writing = rig.must(&write).body().open_handle;
    let execute = open(&ROOT, (TOP, "file"), fid(90), OpenFlags::EXEC);
    assert_eq!(rig.fails(&execute), Errno::ETXTBSY);
    rig.close(1, file, writing);
    rig.must(&execute);
}

#[test]
fn files_are_opened_by_fid() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let by_fid = OpenFlags::READ | OpenFlags::BY_FID;
    assert_eq!(rig.must(&open(&ROOT, (file, ""), file, by_fid)).body().fid, file);
    let missing = rig.must(&open(&ROOT, (file, ""), fid(99), by_fid));
    assert!(missing.disposition.has(Disposition::LOOKUP_NEG));
}

#[test]
fn a_volatile_file_has_no_name_and_goes_at_its_close() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    let new = rig.next_fid();
    let flags = OpenFlags::CREAT | OpenFlags::WRITE | OpenFlags::VOLATILE;
    let made = rig.must(&open(&ROOT, (directory, ""), new, flags)).body();
    assert_eq!((made.fid, made.nlink), (new, 0));
    assert_eq!(rig.names(directory), [""; 0]);
    rig.mdt.check().unwrap();
    let object = rig.object(new).unwrap();
    rig.close(1, new, made.open_handle);
    assert_eq!(rig.fates()[&object].destroyed, 1);
    assert_eq!(rig.getattr(new), Err(Errno::ENOENT));
}

#[test]
fn a_client_that_may_only_read_changes_nothing() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let flags = asked().flags.with(ConnectFlags::RDONLY);
    rig.ask(3, &connect("client3", &ConnectData { flags, ..asked() })).unwrap();
    let new = rig.next_fid();
    let read_only = |rig: &mut Rig, request| rig.ask(3, &request).map(drop);
    let try_open = |name, flags| open(&ROOT, (TOP, name), new, flags);
    assert_eq!(read_only(&mut rig, try_open("file", OpenFlags::READ)), Ok(()));
    for request in [
        try_open("file", OpenFlags::WRITE),
        try_open("none", OpenFlags::WRITE),
        try_open("file", OpenFlags::READ | OpenFlags::TRUNC),
        try_open("none", OpenFlags::READ | OpenFlags::CREAT),
        mkdir(&ROOT, (TOP, "none"), new),
        unlink(&ROOT, (TOP, "file")),
        chmod(&ROOT, file, 0o600),
    ] {
        assert_eq!(read_only(&mut rig, request), Err(Errno::EROFS));
    }
}

#[test]
fn a_close_tells_the_size_as_far_as_the_client_knows_it() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let mut close_with = |bits: AttrValid, size, blocks| {
        let handle = rig.open((TOP, "file"), OpenFlags::WRITE);
        rig.must(&close(file, handle, SetAttr { size, blocks, ..valid(bits) }));
        let body = rig.getattr(file).unwrap();
        let is_lazy = body.valid.has(Valid::FLLAZYSIZE | Valid::FLLAZYBLOCKS);
        assert!(!body.valid.has(Valid::FLSIZE));
        (is_lazy, body.size, body.blocks)
    };
    let (size, both) = (AttrValid::LSIZE, AttrValid::LSIZE | AttrValid::LBLOCKS);
    assert!(!close_with(size, 10, 0).0, "the first time both are needed");
    assert_eq!(close_with(both, 5000, 16), (true, 5000, 16));
    assert_eq!(close_with(both, 4000, 24), (true, 5000, 24), "they only grow");
    assert_eq!(close_with(size, 6000, 99), (true, 6000, 24));
    rig.must(&setattr(&ROOT, file, SetAttr { size: 0, ..valid(AttrValid::SIZE) }));
    let body = rig.getattr(file).unwrap();
    assert_eq!((body.size, body.blocks), (0, 0), "a cut is known");
}

#[test]
fn access_times_are_noted_now_and_then() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let mut close_at = |atime| {
        let handle = rig.open((TOP, "file"), OpenFlags::READ);
        let change = SetAttr { atime, ..valid(AttrValid::ATIME | AttrValid::ATIME_SET) };
        rig.must(&close(file, handle, change));
        rig.getattr(file).unwrap().atime
    };
    assert_eq!(close_at(NOW + 60), NOW);
    assert_eq!(close_at(NOW + 61), NOW + 61);
    assert_eq!(close_at(NOW), NOW + 61);
}

#[test]
fn the_time_of_a_read_does_not_undo_one_that_was_set_after_it() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    let closed = |atime| SetAttr { atime, ..valid(AttrValid::ATIME | AttrValid::ATIME_SET) };
    let [first, second, third] = [(); 3].map(|()| rig.open((TOP, "file"), OpenFlags::READ));
    let set = AttrValid::ATIME | AttrValid::ATIME_SET | AttrValid::CTIME | AttrValid::CTIME_SET;
    let past = SetAttr { atime: 1000, ctime: NOW + 200, ..valid(set) };
    rig.must(&setattr(&ROOT, file, past));
    for (handle, read, right) in
        [(first, NOW + 100, 1000), (second, NOW + 200, 1000), (third, NOW + 201, NOW + 201)]
    {
        rig.must(&close(file, handle, closed(read)));
        assert_eq!(rig.getattr(file).unwrap().atime, right, "read at {read}");
    }
}
