//! The changelog, as clients read it.

use fulmar_base::Errno;
use fulmar_lustre_wire::changelog::{ChangeExtra, ChangeFlags, ChangeKind, ChangeOwner, Changelog};
use fulmar_lustre_wire::format::{LLOG_BODY, LLOG_HEADER, LLOG_RECORDS};
use fulmar_lustre_wire::llog::{LogFlags, LogId, LogRecord, RecordBody};
use fulmar_lustre_wire::mdt::{AttrValid, OpenFlags, SetAttr, XattrFlags};
use fulmar_lustre_wire::message::Job;
use fulmar_lustre_wire::{Fid, LargeNid, Text};
use fulmar_mdt::{ChangelogUserId, mode};
use fulmar_wire::Order;

use crate::requests::{self, ROOT, USER, create, fid};
use crate::rig::{NANOS, NID, NOW, Rig, call};

const TOP: Fid = Fid::ROOT;
/// What a current client understands.
const FLAGS: LogFlags = LogFlags(0x13e8);

/// Returns the live records of a log, read as a client does.
fn read_log(rig: &mut Rig, id: LogId, flags: LogFlags) -> Vec<LogRecord> {
    let opened = rig.must(&requests::log_open(&ROOT, "", id));
    assert_eq!(opened.message.require(&LLOG_BODY).unwrap().id, id);
    let header = rig.must(&requests::log_header(id, flags)).message.require(&LLOG_HEADER).unwrap();
    let (mut found, mut index) = (vec![], 1);
    while index <= header.last_index {
        if !header.is_live(index) {
            index += 1;
            continue;
        }
        let reply = rig.must(&requests::log_block(id, flags, index)).message;
        let block = reply.require(&LLOG_RECORDS).unwrap();
        assert!(reply.bytes(&LLOG_RECORDS).unwrap().len() == 8192);
        for record in block.records {
            if record.index == index {
                let is_live = header.is_live(index);
                found.extend(is_live.then_some(record));
                index += 1;
            }
        }
    }
    assert_eq!(found.len() as u32 + 1, header.count);
    found
}

/// Returns the records that a client reads.
fn read_all(rig: &mut Rig, flags: LogFlags) -> Vec<Changelog> {
    let opened = rig.must(&requests::log_open(&ROOT, "changelog_catalog", LogId::default()));
    let catalog = opened.message.require(&LLOG_BODY).unwrap().id;
    let mut all = vec![];
    for entry in read_log(rig, catalog, LogFlags::CATALOG | flags) {
        let RecordBody::CatalogEntry(entry) = entry.typed(Order::Little) else { panic!() };
        for record in read_log(rig, entry.id, LogFlags::PLAIN | flags) {
            let RecordBody::Changelog(record) = record.typed(Order::Little) else { panic!() };
            all.push(*record);
        }
    }
    all
}

fn kinds(rig: &mut Rig) -> Vec<ChangeKind> {
    read_all(rig, FLAGS).into_iter().map(|record| record.kind).collect()
}

fn clear(rig: &mut Rig, user: u32, record: u64) -> Result<(), Errno> {
    rig.ask(1, &requests::changelog_clear(user, record)).map(drop)
}

fn parameter(rig: &Rig, name: &str) -> String {
    let all = rig.mdt.changelog_parameters(NOW + 5);
    all.into_iter().find(|(of, _)| *of == name).unwrap().1
}

/// Returns a rig with a registered user.
fn rig() -> Rig {
    let rig = Rig::new();
    assert_eq!(rig.mdt.register_changelog_user(None, None, NOW).unwrap(), 1);
    rig
}

#[test]
fn records_say_what_was_done_by_whom_and_where() {
    type K = ChangeKind;
    let mut rig = rig();
    let directory = rig.mkdir((TOP, "d"));
    let file = rig.touch(&ROOT, (directory, "f"));
    rig.must(&requests::link(&ROOT, file, (TOP, "g")));
    let (pipe, other) = (rig.next_fid(), rig.next_fid());
    rig.must(&create(&ROOT, (TOP, "pipe"), pipe, mode::FIFO | 0o600));
    rig.must(&requests::symlink(&ROOT, (TOP, "s"), other, "f"));
    rig.must(&requests::rename(&ROOT, (TOP, "g"), (directory, "h")));
    rig.must(&requests::rename(&ROOT, (TOP, "pipe"), (TOP, "s")));
    rig.must(&requests::chmod(&ROOT, file, 0o600));
    let cut = SetAttr { valid: AttrValid::SIZE | AttrValid::MTIME_SET, ..SetAttr::default() };
    rig.must(&requests::setattr(&ROOT, file, cut));
    let value: &[u8] = b"v";
    rig.must(&requests::setxattr(&ROOT, file, "user.a", Some(&value[0..1]), XattrFlags::NONE));
    rig.must(&requests::unlink(&ROOT, (directory, "h")));
    rig.must(&requests::unlink(&ROOT, (directory, "f")));
    rig.must(&requests::rmdir(&ROOT, (TOP, "d")));

    let none = Fid::default();
    let all = read_all(&mut rig, FLAGS);
    let said: Vec<_> = all
        .iter()
        .map(|one| (one.kind, one.flags.0 & 0xfff, one.target, one.parent, &one.name[..]))
        .collect();
    let expected: [(K, u16, Fid, Fid, &[u8]); 14] = [
        (K::MKDIR, 0, directory, TOP, b"d"),
        (K::CREAT, 0, file, directory, b"f"),
        (K::CLOSE, 0o302, file, none, b""),
        (K::HLINK, 0, file, TOP, b"g"),
        (K::MKNOD, 0, pipe, TOP, b"pipe"),
        (K::SLINK, 0, other, TOP, b"s"),
        (K::RENAME, 0, none, directory, b"h\0g"),
        (K::RENAME, 1, other, TOP, b"s\0pipe"),
        (K::SATTR, 0x14, file, none, b""),
        (K::TRUNC, 0xe, file, directory, b""),
        (K::XATTR, 0, file, none, b""),
        (K::UNLINK, 0, file, directory, b"h"),
        (K::UNLINK, 1, file, directory, b"f"),
        (K::RMDIR, 1, directory, TOP, b"d"),
    ];
    assert_eq!(said, expected);
    let source = all[6].rename.unwrap();
    assert_eq!((source.fid, source.parent), (file, TOP));
    assert!(!all[6].flags.has(ChangeFlags::VERSION) && all[0].flags.has(ChangeFlags::VERSION));
    assert_eq!(all[10].xattr.unwrap().as_bytes(), b"user.a");
    let node = LargeNid(NID.to_large());
    for (record, number) in all.iter().zip(1..) {
        assert_eq!((record.index, record.previous), (number, 0));
        assert_eq!(record.time, (NOW as u64) << 30 | u64::from(NANOS));
        assert_eq!(
            (record.nid, record.owner),
            (Some(node.into()), Some(ChangeOwner { uid: 0, gid: 0 }))
        );
        assert_eq!((record.job, record.open_flags), (None, None));
    }
}

#[test]
fn a_record_has_the_job_and_the_user_of_its_process() {
    let mut rig = rig();
    rig.must(&requests::chmod(&ROOT, TOP, 0o777));
    let new = rig.next_fid();
    let mut request = requests::mkdir(&USER, (TOP, "d"), new);
    let mut job = Job::default();
    job.0[..6].copy_from_slice(b"make.7");
    request.body.job = Some(job);
    rig.must(&request);
    let record = read_all(&mut rig, FLAGS).pop().unwrap();
    assert_eq!(
        (record.job, record.owner),
        (Text::new("make.7"), Some(ChangeOwner { uid: 1000, gid: 1000 }))
    );
}

#[test]
fn old_readers_get_what_they_understand() {
    let mut rig = rig();
    let new = rig.next_fid();
    let mut request = requests::mkdir(&ROOT, (TOP, "d"), new);
    request.body.job = Some(Job([b'x'; 32]));
    rig.must(&request);
    let known = |rig: &mut Rig, flags| read_all(rig, flags).remove(0);
    let oldest = known(&mut rig, LogFlags::NONE);
    assert_eq!((oldest.flags, oldest.job, oldest.extra), (ChangeFlags::VERSION, None, None));
    assert_eq!((oldest.name.as_slice(), oldest.nid), (&b"d"[..], None));
    let old = known(&mut rig, FLAGS.without(LogFlags::EXT_NID_BE));
    let nid = old.nid.unwrap().nid.0;
    assert_eq!(
        (old.extra, &nid[..8]),
        (Some(ChangeExtra::UIDGID | ChangeExtra::NID), &[9, 0, 0, 10, 0, 0, 2, 0][..])
    );
    let whole = known(&mut rig, FLAGS);
    assert_eq!(whole.job.unwrap().as_bytes(), [b'x'; 31]);
}

#[test]
fn nothing_is_recorded_without_a_registered_user() {
    let mut rig = Rig::new();
    rig.mkdir((TOP, "a"));
    assert!(rig.changes(0).is_empty() && kinds(&mut rig).is_empty());
    rig.mdt.register_changelog_user(None, None, NOW).unwrap();
    rig.mkdir((TOP, "b"));
    assert_eq!(kinds(&mut rig), [ChangeKind::MKDIR]);
    assert_eq!(rig.mdt.deregister_changelog_user(&ChangelogUserId::Number(1)).unwrap(), 1);
    rig.mkdir((TOP, "c"));
    assert!(rig.changes(0).is_empty() && kinds(&mut rig).is_empty());
    let again = rig.mdt.deregister_changelog_user(&ChangelogUserId::Number(1)).unwrap_err();
    assert_eq!(again.errno(), Errno::ENOENT);
    // Numbers go on, so that a new record or a new user is not taken for an old one.
    assert_eq!(rig.mdt.register_changelog_user(None, None, NOW).unwrap(), 2);
    rig.mkdir((TOP, "d"));
    assert_eq!(read_all(&mut rig, FLAGS)[0].index, 2);
}

#[test]
fn records_are_kept_until_all_users_have_cleared_them() {
    let mut rig = rig();
    rig.mdt.register_changelog_user(Some("robin"), None, NOW).unwrap();
    for name in ["a", "b", "c", "d"] {
        rig.mkdir((TOP, name));
    }
    let numbers =
        |rig: &mut Rig| read_all(rig, FLAGS).iter().map(|record| record.index).collect::<Vec<_>>();
    clear(&mut rig, 1, 3).unwrap();
    assert_eq!(numbers(&mut rig), [1, 2, 3, 4]);
    clear(&mut rig, 2, 2).unwrap();
    assert_eq!((numbers(&mut rig), rig.changes(0).len()), (vec![3, 4], 2));
    assert_eq!(clear(&mut rig, 2, 5), Err(Errno::EINVAL), "there is no such record");
    assert_eq!(clear(&mut rig, 3, 1), Err(Errno::ENOENT), "there is no such user");
    assert_eq!(clear(&mut rig, 1, 2), Err(Errno::ENOENT), "it has cleared more");
    let users = "current_index: 4\n\
                 ID                            index (idle) mask\n\
                 cl1                               3 (5)\n\
                 cl2-robin                         2 (5) mask=";
    assert!(parameter(&rig, "changelog_users").starts_with(users));
    clear(&mut rig, 1, 0).unwrap();
    clear(&mut rig, 2, 0).unwrap();
    assert_eq!(numbers(&mut rig), [0; 0]);
    rig.mkdir((TOP, "e"));
    assert_eq!(numbers(&mut rig), [5]);
    let robin = ChangelogUserId::Name("robin".into());
    assert_eq!(rig.mdt.deregister_changelog_user(&robin).unwrap(), 2);
}

#[test]
fn records_and_users_are_kept_over_restarts() {
    let mut rig = rig();
    for number in 0..200 {
        rig.mkdir((TOP, &format!("{:1$}", number, number)));
    }
    clear(&mut rig, 1, 77).unwrap();
    let before = read_all(&mut rig, FLAGS);
    assert_eq!((before.len(), before[0].index), (123, 78));
    let (size, users) = (parameter(&rig, "changelog_size"), parameter(&rig, "changelog_users"));
    let store = rig.store.clone();
    rig.restart(store);
    assert_eq!(read_all(&mut rig, FLAGS), before);
    assert_eq!(parameter(&rig, "changelog_size"), size);
    assert_eq!(parameter(&rig, "changelog_users"), users);
    rig.mdt.recovered(NOW).unwrap();
    rig.mkdir((TOP, "new"));
    assert_eq!(read_all(&mut rig, FLAGS).last().unwrap().index, 201);
}

#[test]
fn a_reader_that_is_late_gets_the_records_that_are_left() {
    let mut rig = rig();
    for number in 0..100 {
        rig.mkdir((TOP, &number.to_string()));
    }
    let log = LogId { object: 1, seq: 1, generation: 0 };
    let first =
        rig.must(&requests::log_block(log, FLAGS, 1)).message.require(&LLOG_RECORDS).unwrap();
    let place = |records: &[LogRecord], index: u32| {
        let before = records.iter().take_while(|record| record.index != index);
        before.map(LogRecord::encoded_len).sum::<usize>()
    };
    clear(&mut rig, 1, 10).unwrap();
    let again =
        rig.must(&requests::log_block(log, FLAGS, 1)).message.require(&LLOG_RECORDS).unwrap();
    assert_eq!(place(&again.records, 11), place(&first.records, 11), "records keep their places");
    assert_eq!(again.records[0].index, 10, "it is a pad");
    assert_eq!(rig.fails(&requests::log_block(log, FLAGS, 101)), Errno::EBADR);
    clear(&mut rig, 1, 100).unwrap();
    assert_eq!(rig.fails(&requests::log_block(log, FLAGS, 50)), Errno::ESTALE, "all are gone");
    let unknown = LogId { object: 2, seq: 1, generation: 0 };
    assert_eq!(rig.ask(1, &requests::log_open(&ROOT, "", unknown)).unwrap_err(), Errno::ENOENT);
    assert_eq!(rig.ask(1, &requests::log_open(&ROOT, "params", log)).unwrap_err(), Errno::ENOENT);
}

#[test]
fn only_root_reads_the_changelog() {
    let mut rig = rig();
    let open = requests::log_open(&USER, "changelog_catalog", LogId::default());
    assert_eq!(rig.fails(&open), Errno::EACCES);
}

#[test]
fn masks_choose_the_kinds() {
    let mut rig = Rig::new();
    rig.mdt.register_changelog_user(None, Some("MKDIR,OPEN,ATIME"), NOW).unwrap();
    rig.mkdir((TOP, "d"));
    let file = rig.touch(&ROOT, (TOP, "f"));
    let first = rig.open((TOP, "f"), OpenFlags::READ);
    let second = rig.open((TOP, "f"), OpenFlags::READ);
    rig.close(1, file, first);
    rig.close(1, file, second);
    let opened = ChangeKind::OPEN;
    assert_eq!(kinds(&mut rig), [ChangeKind::MKDIR, opened, opened], "each user opens a file once");
    rig.mdt.set_changelog_parameter("changelog_mask", "+CLOSE -HSM").unwrap();
    let mask = "MARK CREAT MKDIR HLINK SLINK MKNOD UNLNK RMDIR RENME RNMTO CLOSE LYOUT TRUNC SATTR XATTR \
                MTIME CTIME MIGRT FLRW RESYNC \n";
    assert_eq!(parameter(&rig, "changelog_mask"), mask);
    let handle = rig.open((TOP, "f"), OpenFlags::READ);
    rig.close(1, file, handle);
    assert_eq!(kinds(&mut rig)[3..], [opened, ChangeKind::CLOSE]);
    let refused =
        |name: &str, value| rig.mdt.set_changelog_parameter(name, value).unwrap_err().errno();
    assert_eq!(refused("changelog_mask", "CREATE"), Errno::EINVAL);
    assert_eq!(refused("changelog_users", "1"), Errno::EACCES);
    assert_eq!(refused("changelog_gc", "2"), Errno::EINVAL);
    assert_eq!(refused("changelog", "2"), Errno::ENOENT);
    let register =
        |name, mask| rig.mdt.register_changelog_user(name, mask, NOW).unwrap_err().errno();
    assert_eq!(register(None, Some("X")), Errno::EINVAL);
    assert_eq!(register(Some("1a"), None), Errno::EINVAL);
    assert_eq!(register(Some("a-very-long-name"), None), Errno::ENAMETOOLONG);
    rig.mdt.register_changelog_user(Some("a"), None, NOW).unwrap();
    let again = rig.mdt.register_changelog_user(Some("a"), None, NOW).unwrap_err();
    assert_eq!(again.errno(), Errno::EEXIST);
}

#[test]
fn changes_of_times_are_recorded_once_until_records_are_cleared() {
    let mut rig = rig();
    let file = rig.touch(&ROOT, (TOP, "f"));
    let touch = |rig: &mut Rig, time| {
        let valid = AttrValid::MTIME_SET | AttrValid::CTIME_SET;
        let change = SetAttr { valid, mtime: time, ctime: time, ..SetAttr::default() };
        rig.must(&requests::setattr(&ROOT, file, change));
    };
    touch(&mut rig, NOW + 1);
    assert_eq!(kinds(&mut rig), [ChangeKind::CREAT, ChangeKind::CLOSE]);
    clear(&mut rig, 1, 0).unwrap();
    touch(&mut rig, NOW + 2);
    touch(&mut rig, NOW + 3);
    let all = read_all(&mut rig, FLAGS);
    assert_eq!((all.len(), all[0].kind, all[0].parent), (1, ChangeKind::MTIME, TOP));
    assert_eq!(all[0].flags.0 & 0xfff, 0x6);
}

#[test]
fn users_that_are_idle_for_too_long_are_forgotten() {
    let mut rig = rig();
    rig.mdt.register_changelog_user(None, None, NOW).unwrap();
    rig.mkdir((TOP, "a"));
    clear(&mut rig, 2, 0).unwrap();
    let later = NOW + 31 * 24 * 3600;
    rig.mdt.register_changelog_user(None, None, later).unwrap();
    let request = requests::mkdir(&ROOT, (TOP, "b"), fid(99));
    let xid = rig.next_xid();
    let call = fulmar_mdt::Call { now: later, ..call(1, xid, &request) };
    rig.execute(&call).unwrap().result.unwrap();
    let users = parameter(&rig, "changelog_users");
    assert!(users.contains("cl3") && !users.contains("cl1 ") && !users.contains("cl2 "), "{users}");
    assert_eq!(read_all(&mut rig, FLAGS)[0].index, 2, "only what somebody needs is left");
}
