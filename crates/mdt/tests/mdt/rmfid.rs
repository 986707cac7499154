//! Files that are removed by their FIDs.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::List;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::format::{FIDS, MDT_BODY, RMFID};
use fulmar_lustre_wire::mdt::{OpenFlags, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_mdt::Caller;

use crate::requests::{self, OTHER, ROOT, USER};
use crate::rig::{NOW, Rig, call};

const TOP: Fid = Fid::ROOT;

/// Removes all names of a file, as the host does.
fn rmfid(rig: &Rig, who: &Caller, fid: Fid) -> Result<(), Errno> {
    let body = requests::body(who, Fid::default(), Valid::NONE);
    let request = Message::request(&RMFID).with(&MDT_BODY, &body).with(&FIDS, &List(vec![fid]));
    let call = call(1, 9, &request);
    for (parent, name) in rig.mdt.names_to_remove(&call, fid)? {
        rig.mdt.remove_name(&call, fid, (parent, &name))?;
    }
    Ok(())
}

#[test]
fn a_file_goes_with_all_its_names() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    let file = rig.touch(&ROOT, (TOP, "f"));
    rig.must(&requests::link(&ROOT, file, (directory, "g")));
    rig.mdt.register_changelog_user(None, None, NOW).unwrap();
    assert_eq!(rmfid(&rig, &ROOT, directory), Err(Errno::ENOTEMPTY));
    rmfid(&rig, &ROOT, file).unwrap();
    assert_eq!(rig.getattr(file).unwrap_err(), Errno::ENOENT);
    rmfid(&rig, &ROOT, directory).unwrap();
    assert_eq!(rig.names(TOP), Vec::<String>::new());
    let kinds: Vec<_> = rig.changes(0).into_iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [ChangeKind::UNLINK, ChangeKind::UNLINK, ChangeKind::RMDIR]);
    assert_eq!(rmfid(&rig, &ROOT, file), Err(Errno::ENOENT));
    rig.mdt.check().unwrap();
}

#[test]
fn files_of_others_and_files_in_use_stay() {
    let mut rig = Rig::new();
    rig.must(&requests::chmod(&ROOT, TOP, 0o777));
    let file = rig.touch(&USER, (TOP, "f"));
    assert_eq!(rmfid(&rig, &OTHER, file), Err(Errno::EACCES));
    assert_eq!(rmfid(&rig, &ROOT, TOP), Err(Errno::EINVAL));
    assert_eq!(rmfid(&rig, &ROOT, Fid { seq: 1, oid: 5, version: 0 }), Err(Errno::EINVAL));
    let handle = rig.open((TOP, "f"), OpenFlags::READ);
    assert_eq!(rmfid(&rig, &USER, file), Err(Errno::EBUSY));
    rig.close(1, file, handle);
    rmfid(&rig, &USER, file).unwrap();
    assert_eq!(rig.names(TOP), Vec::<String>::new());
}
