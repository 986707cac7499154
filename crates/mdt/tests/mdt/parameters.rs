//! What an administrator sets of an MDT: statistics, and who root of a client is.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::mdt::{AttrValid, OpenFlags, SetAttr};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Handle, Status};
use fulmar_mdt::{Caller, Capabilities, Groups, Mdt, mode};

use crate::requests::{
    self, ROOT, USER, create, lookup, mkdir, open, rename, setattr, unlink, user,
};
use crate::rig::{NOW, Rig, call};

const TOP: Fid = Fid::ROOT;

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

impl Rig {
    /// Sends a request and counts it, as the host does.
    fn counted(&mut self, request: &Message<'_>) {
        let xid = self.next_xid();
        let call = call(1, xid, request);
        let reply = self.execute(&call).map(|reply| reply.message);
        let refused = |errno| Message::reply(request.format(), Status::failed(errno));
        let reply = reply.unwrap_or_else(refused);
        self.mdt.spent(&call, &reply, Duration::from_micros(30));
    }
}

#[test]
fn names_of_parameters_are_in_order() {
    assert!(Mdt::PARAMETERS.is_sorted_by_key(|one| one.name));
}

#[test]
fn operations_are_counted_by_their_names() {
    let mut rig = Rig::new();
    let (directory, file) = (rig.next_fid(), rig.next_fid());
    let fifo = rig.next_fid();
    rig.counted(&mkdir(&ROOT, (TOP, "d"), directory));
    rig.counted(&create(&ROOT, (TOP, "p"), fifo, mode::FIFO | 0o600));
    rig.counted(&create(&ROOT, (TOP, "p"), fifo, mode::FIFO | 0o600));
    rig.counted(&rename(&ROOT, (TOP, "p"), (TOP, "q")));
    rig.counted(&rename(&ROOT, (TOP, "q"), (directory, "q")));
    rig.counted(&unlink(&ROOT, (directory, "q")));
    let wanted = SetAttr { valid: AttrValid::MODE, mode: 0o700, ..SetAttr::default() };
    rig.counted(&setattr(&ROOT, directory, wanted));
    rig.counted(&requests::getattr(directory));
    rig.counted(&requests::getattr(file));
    let stats = rig.shown("mdt.*.md_stats");
    let counted: Vec<(&str, &str)> = stats
        .lines()
        .skip(3)
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    assert_eq!(
        counted,
        [
            ("mknod", "1"),
            ("unlink", "1"),
            ("mkdir", "1"),
            ("rename", "2"),
            ("getattr", "1"),
            ("setattr", "1"),
            ("samedir_rename", "1"),
            ("crossdir_rename", "1"),
        ]
    );
    let of_client = rig.mdt.client_file(&[Handle(1)], Duration::from_secs(NOW as u64));
    assert!(
        of_client.contains("mkdir                               1 samples [usecs] 30 30 30 900")
    );
    assert!(!rig.mdt.client_file(&[Handle(2)], Duration::ZERO).contains("samples"));
    rig.tune("mdt.*.md_stats", "clear").unwrap();
    assert!(!rig.shown("mdt.*.md_stats").contains("samples"));
    assert!(rig.tune("mdt.*.md_stats", "5").is_err());
}

#[test]
fn root_of_a_client_is_squashed_with_its_groups_and_capabilities() {
    let mut rig = Rig::new();
    let private = rig.mkdir((TOP, "private"));
    let secret = rig.touch(&ROOT, (private, "secret"));
    let bits = |mode| SetAttr { valid: AttrValid::MODE, mode, ..SetAttr::default() };
    rig.must(&setattr(&ROOT, private, bits(0o750)));
    let open_to_all = rig.mkdir((TOP, "open"));
    rig.must(&setattr(&ROOT, open_to_all, bits(0o777)));
    assert_eq!(rig.shown("mdt.*.root_squash"), "0:0\n");
    rig.tune("mdt.*.root_squash", "99:98").unwrap();
    rig.tune("mdt.*.nosquash_nids", "10.0.0.[1-3]@tcp").unwrap();
    assert_eq!(rig.shown("mdt.*.nosquash_nids"), "10.0.0.[1-3]@tcp\n");

    // A group of root gives nothing any more, and no capability.
    let root = Caller { groups: [0, 77], ..ROOT };
    assert_eq!(rig.fails(&lookup(&root, (private, "secret"))), Errno::EACCES);
    assert_eq!(rig.fails(&setattr(&root, secret, bits(0o777))), Errno::EPERM);
    let file = rig.touch(&root, (open_to_all, "new"));
    let body = rig.getattr(file).unwrap();
    assert_eq!((body.uid, body.gid), (99, 98));
    let users = rig.touch(&USER, (open_to_all, "users"));
    assert_eq!(rig.getattr(users).unwrap().uid, USER.uid, "others are not squashed");

    for (from, is_excepted) in [("10.0.0.2@tcp", true), ("10.0.0.4@tcp", false)] {
        let found = rig.send_from(nid(from), 1, &lookup(&root, (private, "secret"))).unwrap();
        assert_eq!(found.result.is_ok(), is_excepted, "{from}");
    }
    rig.tune("mdt.*.nosquash_nids", "NONE").unwrap();
    let from = nid("10.0.0.2@tcp");
    let denied = rig.send_from(from, 1, &lookup(&root, (private, "secret"))).unwrap();
    assert_eq!(denied.result, Err(Errno::EACCES));
    // A group without a user is no squash.
    rig.tune("mdt.*.root_squash", "0:98").unwrap();
    rig.must(&lookup(&root, (private, "secret")));
    assert!(rig.tune("mdt.*.root_squash", "99").is_err());
    assert_eq!(rig.shown("mdt.*.root_squash"), "0:98\n");
}

#[test]
fn users_have_no_capabilities_unless_they_are_enabled() {
    let mut rig = Rig::new();
    let private = rig.mkdir((TOP, "private"));
    let bits = SetAttr { valid: AttrValid::MODE, mode: 0o700, ..SetAttr::default() };
    rig.must(&setattr(&ROOT, private, bits));
    let caller = Caller { capabilities: Capabilities::DAC_READ_SEARCH, ..user(1000) };
    let opened = open(&caller, (private, "x"), Fid::default(), OpenFlags::READ);
    assert_eq!(rig.fails(&opened), Errno::EACCES);
    rig.tune("mdt.*.enable_cap_mask", "cap_dac_read_search").unwrap();
    assert_eq!(rig.shown("mdt.*.enable_cap_mask"), "cap_dac_read_search\n");
    assert_eq!(rig.ask(1, &opened).unwrap().result, Ok(()), "it sees that there is no such file");
}

#[test]
fn limits_hold_for_the_enabled_kinds_of_owners() {
    let rig = Rig::new();
    assert_eq!(rig.shown("osd-fulmar.*.quota_slave.enabled"), "ugp\n");
    rig.tune("quota.mdt", "g").unwrap();
    assert_eq!(rig.shown("osd-fulmar.*.quota_slave.enabled"), "g\n");
    rig.tune("quota.mdt", "none").unwrap();
    assert_eq!(rig.shown("osd-fulmar.*.quota_slave.enabled"), "none\n");
}

/// Knows one user.
struct OneUser;

impl Groups for OneUser {
    fn of(&self, uid: u32) -> Option<Arc<[u32]>> {
        (uid == USER.uid).then(|| vec![70, 71].into())
    }
}

#[test]
fn users_are_in_the_groups_that_the_machine_knows_unless_that_is_switched_off() {
    let mut rig = Rig::new();
    rig.mdt.set_groups(Arc::new(OneUser));
    let shared = rig.mkdir((TOP, "shared"));
    let set = SetAttr { valid: AttrValid::MODE, mode: 0o770, ..SetAttr::default() };
    rig.must(&setattr(&ROOT, shared, set));
    let set = SetAttr { valid: AttrValid::GID, gid: 71, ..SetAttr::default() };
    rig.must(&setattr(&ROOT, shared, set));
    rig.must(&lookup(&USER, (shared, "x")));
    let other = user(USER.uid + 1);
    assert_eq!(rig.fails(&lookup(&other, (shared, "x"))), Errno::EACCES);
    rig.must(&lookup(&Caller { groups: [71, u32::MAX], ..other }, (shared, "x")));
    assert_eq!(rig.shown("mdt.*.identity_upcall"), "SYSTEM\n");
    rig.tune("mdt.*.identity_upcall", "NONE").unwrap();
    assert_eq!(rig.shown("mdt.*.identity_upcall"), "NONE\n");
    assert_eq!(rig.fails(&lookup(&USER, (shared, "x"))), Errno::EACCES);
    rig.tune("mdt.*.identity_upcall", "/usr/sbin/l_getidentity").unwrap();
    rig.must(&lookup(&USER, (shared, "x")));
    assert!(rig.tune("mdt.*.identity_upcall", "/bin/true").is_err());
    rig.tune("mdt.*.root_squash", "99:98").unwrap();
    assert_eq!(rig.fails(&lookup(&ROOT, (shared, "x"))), Errno::EACCES);
}
