//! Quotas: who may have how many files.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{MDS_QUOTACTL, QUOTACTL};
use fulmar_lustre_wire::mdt::{AttrValid, OpenFlags, SetAttr};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaControl, QuotaKind, QuotaLimits, QuotaTimes};
use fulmar_lustre_wire::{Bytes, Fid};
use fulmar_mdt::{Call, Caller, mode};

use crate::requests::{ROOT, USER, create, open, rmdir, setattr, unlink};
use crate::rig::{NOW, Rig, call};

const TOP: Fid = Fid::ROOT;
const INODE_LIMITS: u32 = 0x4;
const BLOCK_TIME: u32 = 0x10;
const INODE_TIME: u32 = 0x20;
const WEEK: i64 = 7 * 24 * 3600;

pub(crate) fn control(command: QuotaCommand, kind: QuotaKind, id: u32) -> QuotaControl {
    QuotaControl {
        command,
        kind,
        id,
        status: 0,
        times: QuotaTimes::default(),
        limits: QuotaLimits::default(),
        pool: None,
        rest: Bytes::default(),
    }
}

fn limits(inode_soft: u64, inode_hard: u64) -> QuotaLimits {
    QuotaLimits { inode_soft, inode_hard, valid: INODE_LIMITS, ..QuotaLimits::default() }
}

impl Rig {
    pub(crate) fn quotactl(&mut self, control: &QuotaControl) -> Result<QuotaControl, Errno> {
        let reply = self.ask(1, &Message::request(&MDS_QUOTACTL).with(&QUOTACTL, control))?;
        Ok(reply.message.require(&QUOTACTL).unwrap())
    }

    fn set(&mut self, kind: QuotaKind, id: u32, limits: QuotaLimits) -> Result<(), Errno> {
        let asked = QuotaControl { limits, ..control(QuotaCommand::SETQUOTA, kind, id) };
        self.quotactl(&asked).map(drop)
    }

    fn set_default(&mut self, kind: QuotaKind, id: u32, limits: QuotaLimits) {
        let asked = QuotaControl { limits, ..control(QuotaCommand::SETDEFAULT, kind, id) };
        self.quotactl(&asked).unwrap();
    }

    /// Returns the soft and the hard limit, and when the grace ends.
    fn limits(&mut self, kind: QuotaKind, id: u32) -> (u64, u64, u64) {
        let found = self.quotactl(&control(QuotaCommand::GETQUOTA, kind, id)).unwrap().limits;
        (found.inode_soft, found.inode_hard, found.inode_time)
    }

    fn files(&mut self, kind: QuotaKind, id: u32) -> u64 {
        self.quotactl(&control(QuotaCommand::GETOQUOTA, kind, id)).unwrap().limits.inodes
    }

    /// Creates a file at a time.
    fn make_at(&mut self, now: i64, who: &Caller, name: &str) -> Result<Fid, Errno> {
        let fid = self.next_fid();
        let request = create(who, (TOP, name), fid, mode::REGULAR | 0o644);
        let xid = self.next_xid();
        let call = Call { now, ..call(1, xid, &request) };
        self.execute(&call)?.result.map(|()| fid)
    }

    fn make(&mut self, who: &Caller, name: &str) -> Result<Fid, Errno> {
        self.make_at(NOW, who, name)
    }

    /// Returns one where everybody may create files.
    fn open_to_all() -> Self {
        let mut rig = Self::new();
        let all = SetAttr { mode: 0o777, valid: AttrValid::MODE, ..SetAttr::default() };
        rig.must(&setattr(&ROOT, TOP, all));
        rig
    }
}

#[test]
fn no_user_gets_more_files_than_the_hard_limit() {
    for kind in [QuotaKind::USER, QuotaKind::GROUP] {
        let mut rig = Rig::open_to_all();
        rig.set(kind, USER.uid, limits(0, 2)).unwrap();
        assert_eq!(rig.limits(kind, USER.uid), (0, 2, 0));
        rig.make(&USER, "a").unwrap();
        rig.make(&USER, "b").unwrap();
        assert_eq!(rig.make(&USER, "c"), Err(Errno::EDQUOT));
        assert_eq!(rig.fails(&rmdir(&USER, (TOP, "c"))), Errno::ENOENT);
        let fid = rig.next_fid();
        let flags = OpenFlags::CREAT | OpenFlags::WRITE;
        assert_eq!(rig.fails(&open(&USER, (TOP, "c"), fid, flags)), Errno::EDQUOT);
        assert_eq!(rig.names(TOP), ["a", "b"]);
        rig.must(&unlink(&USER, (TOP, "a")));
        rig.must(&open(&USER, (TOP, "c"), fid, flags));
        assert_eq!(rig.files(kind, USER.uid), 2);
        rig.mdt.check().unwrap();
    }
}

#[test]
fn root_creates_files_for_others_without_limits() {
    let mut rig = Rig::open_to_all();
    rig.set(QuotaKind::USER, USER.uid, limits(0, 1)).unwrap();
    for name in ["a", "b"] {
        let file = rig.make(&ROOT, name).unwrap();
        let owner = SetAttr { uid: USER.uid, valid: AttrValid::UID, ..SetAttr::default() };
        rig.must(&setattr(&ROOT, file, owner));
    }
    assert_eq!(rig.files(QuotaKind::USER, USER.uid), 2);
    assert_eq!(rig.make(&USER, "c"), Err(Errno::EDQUOT));
}

#[test]
fn a_file_is_not_given_to_a_group_that_has_enough() {
    let mut rig = Rig::open_to_all();
    let member = Caller { groups: [77, u32::MAX], ..USER };
    let files = ["a", "b"].map(|name| rig.make(&member, name).unwrap());
    rig.set(QuotaKind::GROUP, 77, limits(0, 1)).unwrap();
    let group = SetAttr { gid: 77, valid: AttrValid::GID, ..SetAttr::default() };
    rig.must(&setattr(&member, files[0], group));
    assert_eq!(rig.fails(&setattr(&member, files[1], group)), Errno::EDQUOT);
    rig.must(&setattr(&member, files[0], group));
    rig.must(&setattr(&ROOT, files[1], group));
    rig.mdt.check().unwrap();
}

#[test]
fn beyond_the_soft_limit_files_are_created_until_the_grace_ends() {
    let mut rig = Rig::open_to_all();
    rig.set(QuotaKind::USER, USER.uid, limits(1, 10)).unwrap();
    rig.make(&USER, "a").unwrap();
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid).2, 0);
    rig.make(&USER, "b").unwrap();
    let end = NOW + WEEK;
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid).2, end as u64);
    rig.make_at(end, &USER, "c").unwrap();
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid).2, end as u64, "it does not begin again");
    assert_eq!(rig.make_at(end + 1, &USER, "d"), Err(Errno::EDQUOT));
    rig.must(&unlink(&USER, (TOP, "a")));
    assert_eq!(rig.make_at(end + 1, &USER, "d"), Err(Errno::EDQUOT));
    rig.must(&unlink(&USER, (TOP, "b")));
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid).2, 0);
    rig.make_at(end + 1, &USER, "d").unwrap();
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid).2, (end + 1 + WEEK) as u64);
}

#[test]
fn graces_are_set_for_each_kind() {
    let mut rig = Rig::open_to_all();
    let asked = control(QuotaCommand::SETINFO, QuotaKind::USER, 0);
    let times = QuotaTimes { inode_grace: 60, block_grace: WEEK as u64, ..asked.times };
    let valid = QuotaLimits { valid: BLOCK_TIME | INODE_TIME, ..asked.limits };
    rig.quotactl(&QuotaControl { times, limits: valid, ..asked.clone() }).unwrap();
    let grace = |rig: &mut Rig, kind| {
        let times = rig.quotactl(&control(QuotaCommand::GETINFO, kind, 0)).unwrap().times;
        (times.block_grace, times.inode_grace)
    };
    assert_eq!(grace(&mut rig, QuotaKind::USER), (WEEK as u64, 60));
    assert_eq!(grace(&mut rig, QuotaKind::GROUP), (WEEK as u64, WEEK as u64));
    let times = QuotaTimes { block_grace: 60, ..times };
    let refused = rig.quotactl(&QuotaControl { times, limits: valid, ..asked });
    assert_eq!(refused, Err(Errno::EOPNOTSUPP), "limits of blocks are not enforced");
    for name in ["a", "b"] {
        rig.make(&USER, name).unwrap();
    }
    rig.set(QuotaKind::USER, USER.uid, limits(1, 0)).unwrap();
    let end = NOW + 60;
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid), (1, 0, end as u64), "it has too many");
    assert_eq!(rig.make_at(end + 1, &USER, "c"), Err(Errno::EDQUOT));
}

#[test]
fn a_new_hard_limit_alone_keeps_the_grace() {
    let mut rig = Rig::open_to_all();
    let (user, id) = (QuotaKind::USER, USER.uid);
    rig.set(user, id, limits(1, 5)).unwrap();
    rig.make(&USER, "a").unwrap();
    rig.make(&USER, "b").unwrap();
    let end = (NOW + WEEK) as u64;
    let asked = limits(1, 6);
    let valid = asked.valid | INODE_TIME;
    rig.set(user, id, QuotaLimits { inode_time: end - 9, valid, ..asked }).unwrap();
    assert_eq!(rig.limits(user, id), (1, 6, end - 9));
    let alone = QuotaLimits { inode_time: end, valid: INODE_TIME, ..QuotaLimits::default() };
    assert_eq!(rig.set(user, id, alone), Err(Errno::EOPNOTSUPP));
}

#[test]
fn files_of_a_project_are_limited_and_those_of_others_are_not() {
    let mut rig = Rig::open_to_all();
    let project = rig.mkdir((TOP, "project"));
    let of_project = SetAttr {
        projid: 7,
        flags: 0x2000_0000,
        mode: 0o777,
        valid: AttrValid::PROJID | AttrValid::ATTR_FLAG | AttrValid::MODE,
        ..SetAttr::default()
    };
    rig.must(&setattr(&ROOT, project, of_project));
    rig.set(QuotaKind::PROJECT, 7, limits(0, 2)).unwrap();
    let mut make = |place| {
        let fid = rig.next_fid();
        rig.ask(1, &create(&USER, place, fid, mode::REGULAR | 0o644)).map(drop)
    };
    assert_eq!(make((project, "a")), Ok(()), "the directory is the first");
    assert_eq!(make((project, "b")), Err(Errno::EDQUOT));
    assert_eq!(make((TOP, "b")), Ok(()));
}

#[test]
fn owners_without_limits_have_the_default_ones() {
    let mut rig = Rig::open_to_all();
    rig.set_default(QuotaKind::USER, 0, limits(0, 1));
    rig.make(&USER, "a").unwrap();
    assert_eq!(rig.make(&USER, "b"), Err(Errno::EDQUOT));
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid), (0, 1, 0));
    rig.set(QuotaKind::USER, USER.uid, limits(0, 2)).unwrap();
    rig.make(&USER, "b").unwrap();
    rig.set_default(QuotaKind::USER, USER.uid, limits(0, 0));
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid), (0, 1, 0));
    assert_eq!(rig.make(&USER, "c"), Err(Errno::EDQUOT));
    rig.set(QuotaKind::USER, USER.uid, limits(0, 3)).unwrap();
    rig.quotactl(&control(QuotaCommand::DELETEQID, QuotaKind::USER, USER.uid)).unwrap();
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid), (0, 1, 0));
    let all = control(QuotaCommand::DELETEQID, QuotaKind::USER, 0);
    assert_eq!(rig.quotactl(&all), Err(Errno::EINVAL));
    rig.make(&ROOT, "c").unwrap();
    rig.make(&ROOT, "d").unwrap();
}

#[test]
fn what_is_not_enforced_is_not_set() {
    let mut rig = Rig::open_to_all();
    let (user, id) = (QuotaKind::USER, USER.uid);
    let blocks = QuotaLimits { block_hard: 1024, valid: 0x1 | INODE_LIMITS, ..limits(0, 1) };
    assert_eq!(rig.set(user, id, blocks), Err(Errno::EOPNOTSUPP));
    assert_eq!(rig.limits(user, id), (0, 0, 0));
    assert_eq!(rig.set(user, id, limits(2, 1)), Err(Errno::EINVAL));
    assert_eq!(rig.set(user, 0, limits(0, 1)), Err(Errno::EINVAL));
    assert_eq!(rig.set(QuotaKind(7), id, limits(0, 1)), Err(Errno::EINVAL));
    let none = QuotaLimits { block_hard: 0, ..blocks };
    rig.set(user, id, none).unwrap();
    assert_eq!(rig.limits(user, id), (0, 1, 0));
}

#[test]
fn limits_and_graces_are_there_after_a_restart() {
    let mut rig = Rig::open_to_all();
    rig.set(QuotaKind::USER, USER.uid, limits(1, 2)).unwrap();
    rig.make(&USER, "a").unwrap();
    rig.make(&USER, "b").unwrap();
    let before = rig.limits(QuotaKind::USER, USER.uid);
    assert_eq!(before, (1, 2, (NOW + WEEK) as u64));
    let store = rig.store.clone();
    rig.restart(store);
    rig.mdt.recovered(NOW).unwrap();
    assert_eq!(rig.limits(QuotaKind::USER, USER.uid), before);
    assert_eq!(rig.make(&USER, "c"), Err(Errno::EDQUOT));
}
