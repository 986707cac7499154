//! Attributes: who may set them, and what else changes with them.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::mdt::{AttrValid, Bias, Create, OpenFlags, SetAttr, XattrFlags};
use fulmar_mdt::{Caller, mode};

use crate::requests::{
    OTHER, ROOT, USER, chmod, close, create, create_as, link, rename, setattr, setxattr, unlink,
    user,
};
use crate::rig::{NOW, Rig};

const TOP: Fid = Fid::ROOT;
type A = AttrValid;
const IMMUTABLE: u32 = 0x10;
const PROJECT_INHERIT: u32 = 0x2000_0000;

fn with(valid: AttrValid) -> SetAttr {
    SetAttr { valid, ..SetAttr::default() }
}

impl Rig {
    /// Returns a file of the user with this mode.
    fn file(&mut self, name: &str, bits: u32) -> Fid {
        let file = self.touch(&ROOT, (TOP, name));
        let owner = SetAttr { uid: USER.uid, gid: USER.gid, ..with(A::UID | A::GID) };
        self.must(&setattr(&ROOT, file, owner));
        self.must(&chmod(&ROOT, file, bits));
        file
    }

    fn mode(&mut self, file: Fid) -> u32 {
        self.getattr(file).unwrap().mode & mode::PERMISSIONS
    }
}

#[test]
fn only_owners_and_root_change_modes_and_owners() {
    let mut rig = Rig::new();
    let file = rig.file("file", 0o644);
    let object = rig.object(file).unwrap();
    rig.must(&chmod(&USER, file, 0o600));
    assert_eq!(rig.fails(&chmod(&OTHER, file, 0o666)), Errno::EPERM);
    let owner = |uid| SetAttr { uid, ..with(A::UID) };
    let group = |gid| SetAttr { gid, ..with(A::GID) };
    assert_eq!(rig.fails(&setattr(&USER, file, owner(OTHER.uid))), Errno::EPERM);
    assert_eq!(rig.fails(&setattr(&USER, file, group(77))), Errno::EPERM);
    let member = Caller { groups: [77, u32::MAX], ..USER };
    rig.must(&setattr(&member, file, group(77)));
    assert_eq!(rig.fails(&setattr(&Caller { gid: 77, ..OTHER }, file, group(77))), Errno::EPERM);
    rig.must(&setattr(&ROOT, file, owner(OTHER.uid)));
    assert_eq!(rig.fates()[&object].uid, OTHER.uid, "its object has the same owner");
    assert_eq!(rig.getattr(file).unwrap().gid, 77);
    assert_eq!(rig.fails(&chmod(&ROOT, Fid { oid: 99, ..file }, 0o600)), Errno::ENOENT);
    rig.mdt.check().unwrap();
}

#[test]
fn a_file_that_is_given_away_loses_what_it_executes_with() {
    let mut rig = Rig::new();
    let owner = SetAttr { uid: OTHER.uid, ..with(A::UID) };
    let group = SetAttr { gid: OTHER.gid, ..with(A::GID) };
    for (bits, change, expected) in [
        (0o6755, owner, 0o2755),
        (0o6755, group, 0o4755),
        (0o6745, group, 0o6745),
        (0o6755, SetAttr { mode: 0o6755, valid: A::UID | A::MODE, ..owner }, 0o2755),
        (0o6755, with(A::KILL_SUID), 0o2755),
        (0o6755, with(A::KILL_SGID), 0o4755),
        (0o6745, with(A::KILL_SGID), 0o6745),
    ] {
        let file = rig.file(&format!("{bits:o}-{:x}-{}", change.valid.0, change.mode), bits);
        rig.must(&setattr(&ROOT, file, change));
        assert_eq!(rig.mode(file), expected, "{bits:o} after {change:?}");
    }
    // Without the permission to execute, those of the group may leave it.
    let file = rig.file("of a group", 0o2666);
    let kill = with(A::KILL_SGID | A::FORCE);
    rig.must(&setattr(&Caller { groups: [USER.gid, u32::MAX], ..OTHER }, file, kill));
    assert_eq!(rig.mode(file), 0o2666);
    rig.must(&setattr(&OTHER, file, kill));
    assert_eq!(rig.mode(file), 0o666);
    // Who cuts a file takes that away too, without a right to change the mode: the client says so.
    let file = rig.file("written", 0o6777);
    let cut = SetAttr { mode: 0o777, ..with(A::MODE | A::SIZE) };
    assert_eq!(rig.fails(&setattr(&OTHER, file, cut)), Errno::EPERM);
    rig.must(&setattr(&OTHER, file, SetAttr { valid: cut.valid | A::FORCE, ..cut }));
    assert_eq!(rig.mode(file), 0o777);
    let file = rig.file("of the owner", 0o644);
    let foreign = Caller { gid: 5, ..USER };
    rig.must(&chmod(&foreign, file, 0o2755));
    assert_eq!(rig.mode(file), 0o755, "the owner is not in its group");
    rig.must(&chmod(&USER, file, 0o2755));
    assert_eq!(rig.mode(file), 0o2755);
}

#[test]
fn what_a_request_says_of_itself_gives_no_right() {
    let mut rig = Rig::new();
    let file = rig.file("private", 0o6600);
    let claims = [
        (A::NONE, Bias::NONE),
        (A::FORCE, Bias::NONE),
        (A::FROM_OPEN, Bias::NONE),
        (A::OVERRIDE, Bias::NONE),
        (A::FORCE | A::FROM_OPEN | A::OVERRIDE, Bias::PERM_BYPASS),
    ];
    let wanted = SetAttr { mode: 0o4777, uid: OTHER.uid, flags: IMMUTABLE, ..SetAttr::default() };
    let changes = [
        A::MODE,
        A::UID,
        A::ATTR_FLAG,
        A::SIZE,
        A::BLOCKS,
        A::MTIME_SET | A::MTIME,
        A::ATIME_SET | A::PROJID,
        A::KILL_SUID,
        A::KILL_SGID,
    ];
    for (claim, bias) in claims {
        for change in changes {
            let asked = SetAttr { valid: change | claim, bias, ..wanted };
            let errno = rig.fails(&setattr(&OTHER, file, asked));
            assert!(matches!(errno, Errno::EPERM | Errno::EACCES), "{errno} to {asked:?}");
        }
        // Only the bits to execute with go, and nothing else with them.
        let asked = SetAttr { valid: A::MODE | claim, bias, mode: 0o600, ..wanted };
        let errno = rig.fails(&setattr(&OTHER, file, asked));
        assert!(matches!(errno, Errno::EPERM | Errno::EACCES), "{errno} to {asked:?}");
    }
    assert_eq!(rig.mode(file), 0o6600);
}

#[test]
fn who_has_a_file_open_to_write_it_cuts_it_whatever_its_mode_is_now() {
    let mut rig = Rig::new();
    rig.connect(2);
    let file = rig.file("open", 0o4666);
    let handle = rig.open_by(2, (TOP, "open"), OpenFlags::WRITE);
    rig.must(&chmod(&USER, file, 0o4600));
    let cut = setattr(&OTHER, file, with(A::SIZE | A::FROM_OPEN));
    let drops = SetAttr { mode: 0o600, ..with(A::MODE | A::FORCE | A::KILL_SUID) };
    assert_eq!(rig.fails(&cut), Errno::EACCES, "another client has it open");
    assert_eq!(rig.fails(&setattr(&OTHER, file, drops)), Errno::EACCES);
    rig.ask(2, &cut).unwrap();
    rig.ask(2, &setattr(&OTHER, file, drops)).unwrap();
    assert_eq!(rig.mode(file), 0o600);
    rig.close(2, file, handle);
    assert_eq!(rig.ask(2, &cut).unwrap_err(), Errno::EACCES, "it is closed");
}

#[test]
fn capabilities_of_a_program_go_with_its_owner_and_its_data() {
    const NAME: &str = "security.capability";
    let mut rig = Rig::new();
    let file = rig.file("program", 0o757);
    let set = |rig: &mut Rig| {
        rig.must(&setxattr(&ROOT, file, NAME, Some(b"all"), XattrFlags::NONE));
        assert_eq!(rig.xattr(file, NAME).unwrap(), b"all");
    };
    let written = with(A::KILL_SUID | A::KILL_SGID | A::FORCE);
    let owner = SetAttr { uid: OTHER.uid, ..with(A::UID) };
    for (who, change) in [(OTHER, written), (ROOT, owner)] {
        set(&mut rig);
        rig.must(&setattr(&who, file, change));
        assert_eq!(rig.xattr(file, NAME), Err(Errno::ENODATA), "{change:?}");
    }
    set(&mut rig);
    rig.must(&chmod(&ROOT, file, 0o757));
    assert_eq!(rig.xattr(file, NAME).unwrap(), b"all");
    // The kernel of who may write it removes them before.
    let writer = user(USER.uid + 100);
    rig.must(&setxattr(&writer, file, NAME, None, XattrFlags::NONE));
    assert_eq!(rig.xattr(file, NAME), Err(Errno::ENODATA));
    set(&mut rig);
    rig.must(&chmod(&ROOT, file, 0o755));
    assert_eq!(rig.fails(&setxattr(&writer, file, NAME, None, XattrFlags::NONE)), Errno::EPERM);
}

#[test]
fn times_are_set_by_owners_and_now_by_writers() {
    let mut rig = Rig::new();
    let file = rig.file("file", 0o622);
    let past = A::MTIME | A::MTIME_SET | A::ATIME | A::ATIME_SET;
    let past = SetAttr { mtime: 10, atime: 20, ..with(past) };
    rig.must(&setattr(&USER, file, past));
    let body = rig.getattr(file).unwrap();
    assert_eq!((body.mtime, body.atime, body.ctime), (10, 20, NOW));
    rig.must(&setattr(&OTHER, file, SetAttr { mtime: NOW, ..past }));
    rig.must(&chmod(&USER, file, 0o644));
    assert_eq!(rig.fails(&setattr(&OTHER, file, past)), Errno::EACCES);
    let earlier = A::CTIME | A::CTIME_SET;
    rig.must(&setattr(&USER, file, SetAttr { ctime: 5, ..with(earlier) }));
    assert_eq!(rig.getattr(file).unwrap().ctime, NOW, "it never goes back");
}

#[test]
fn a_file_that_is_only_appended_to_gets_the_times_of_now_and_no_others() {
    const APPEND_ONLY: u32 = 0x20;
    let mut rig = Rig::new();
    let file = rig.file("file", 0o622);
    let flags = |flags| SetAttr { flags, ..with(A::ATTR_FLAG) };
    let times = A::ATIME | A::ATIME_SET | A::MTIME | A::MTIME_SET | A::CTIME | A::CTIME_SET;
    let now = SetAttr { atime: NOW + 9, mtime: NOW + 9, ctime: NOW + 9, ..with(times) };
    rig.must(&setattr(&ROOT, file, flags(APPEND_ONLY)));
    for who in [USER, OTHER] {
        rig.must(&setattr(&who, file, now));
    }
    assert_eq!(rig.getattr(file).unwrap().mtime, NOW + 9);
    for other in [
        SetAttr { mtime: 10, ..now },
        SetAttr { atime: 10, ..now },
        SetAttr { valid: times | A::MODE, mode: 0o777, ..now },
        SetAttr { valid: times | A::SIZE, ..now },
    ] {
        assert_eq!(rig.fails(&setattr(&USER, file, other)), Errno::EPERM, "{other:?}");
    }
    rig.must(&setattr(&ROOT, file, flags(IMMUTABLE)));
    assert_eq!(rig.fails(&setattr(&USER, file, now)), Errno::EPERM);
}

#[test]
fn a_close_does_not_undo_times_that_were_set() {
    let mut rig = Rig::new();
    let file = rig.file("file", 0o644);
    let written = A::MTIME | A::MTIME_SET | A::CTIME | A::CTIME_SET;
    let closed = |time| SetAttr { mtime: time, ctime: time, ..with(written) };
    let first = rig.open((TOP, "file"), OpenFlags::WRITE);
    let second = rig.open((TOP, "file"), OpenFlags::WRITE);
    let reader = rig.open((TOP, "file"), OpenFlags::READ);
    rig.must(&setattr(&USER, file, SetAttr { mtime: 10, ..with(A::MTIME | A::MTIME_SET) }));
    rig.must(&close(file, first, closed(NOW - 5)));
    assert_eq!(rig.getattr(file).unwrap().mtime, 10);
    rig.must(&close(file, reader, closed(NOW + 9)));
    assert_eq!(rig.getattr(file).unwrap().mtime, 10, "it was not open for writing");
    rig.must(&close(file, second, closed(NOW + 5)));
    let body = rig.getattr(file).unwrap();
    assert_eq!((body.mtime, body.ctime), (NOW + 5, NOW + 5));
}

#[test]
fn an_immutable_file_does_not_change() {
    let mut rig = Rig::new();
    let file = rig.file("file", 0o666);
    let flags = |flags| SetAttr { flags, ..with(A::ATTR_FLAG) };
    assert_eq!(rig.fails(&setattr(&USER, file, flags(IMMUTABLE))), Errno::EPERM);
    rig.must(&setattr(&ROOT, file, flags(IMMUTABLE)));
    assert_eq!(rig.fails(&chmod(&ROOT, file, 0o600)), Errno::EPERM);
    assert_eq!(rig.fails(&link(&ROOT, file, (TOP, "other"))), Errno::EPERM);
    assert_eq!(rig.fails(&unlink(&ROOT, (TOP, "file"))), Errno::EPERM);
    assert_eq!(rig.fails(&rename(&ROOT, (TOP, "file"), (TOP, "other"))), Errno::EPERM);
    rig.must(&setattr(&ROOT, file, flags(0)));
    rig.must(&unlink(&ROOT, (TOP, "file")));
}

#[test]
fn new_files_have_the_project_of_their_directory() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    let project = SetAttr { projid: 7, flags: PROJECT_INHERIT, ..with(A::PROJID | A::ATTR_FLAG) };
    rig.must(&setattr(&ROOT, directory, project));
    let (file, inner) = (rig.touch(&ROOT, (directory, "file")), rig.mkdir((directory, "inner")));
    assert_eq!([file, inner].map(|fid| rig.getattr(fid).unwrap().projid), [7, 7]);
    assert_eq!(rig.getattr(inner).unwrap().flags & PROJECT_INHERIT, PROJECT_INHERIT);
    let outside = rig.file("outside", 0o644);
    assert_eq!(rig.fails(&link(&ROOT, outside, (directory, "new"))), Errno::EXDEV);
    let moved = rename(&ROOT, (TOP, "outside"), (directory, "new"));
    assert_eq!(rig.fails(&moved), Errno::EXDEV);
    assert_eq!(
        rig.fails(&setattr(&USER, outside, SetAttr { projid: 9, ..with(A::PROJID) })),
        Errno::EPERM
    );
    let heirs = SetAttr { flags: PROJECT_INHERIT, ..with(A::ATTR_FLAG) };
    assert_eq!(rig.fails(&setattr(&USER, outside, heirs)), Errno::EPERM);
    rig.mdt.check().unwrap();
}

#[test]
fn new_files_have_the_mode_and_the_group_that_they_should() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    rig.must(&setattr(&ROOT, directory, SetAttr { gid: 50, ..with(A::GID) }));
    rig.must(&chmod(&ROOT, directory, 0o2777));
    let (file, inner) = (rig.next_fid(), rig.next_fid());
    let umask = 0o027;
    let new =
        Create { child: file, mode: mode::REGULAR | 0o666, umask, time: NOW, ..Create::default() };
    rig.must(&create_as(&USER, (directory, "file"), new));
    let body = rig.getattr(file).unwrap();
    assert_eq!((body.mode, body.uid, body.gid), (mode::REGULAR | 0o640, USER.uid, 50));
    rig.must(&create(&USER, (directory, "inner"), inner, mode::DIRECTORY | 0o755));
    let body = rig.getattr(inner).unwrap();
    assert_eq!((body.mode, body.gid), (mode::DIRECTORY | 0o2755, 50));
}
