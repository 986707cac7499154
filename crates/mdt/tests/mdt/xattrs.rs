//! Extended attributes and lists of access.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::EA_DATA;
use fulmar_lustre_wire::mdt::XattrFlags;

use crate::requests::{ROOT, USER, chmod, getxattr, setxattr};
use crate::rig::Rig;

const TOP: Fid = Fid::ROOT;
const ANY: XattrFlags = XattrFlags::NONE;

impl Rig {
    fn xattr(&mut self, file: Fid, name: &str) -> Result<Vec<u8>, Errno> {
        let reply = self.ask(1, &getxattr(file, name, 65_536))?;
        Ok(reply.message.bytes(&EA_DATA).unwrap_or_default().to_vec())
    }
}

#[test]
fn values_are_set_replaced_and_removed() {
    let mut rig = Rig::new();
    let directory = for_all(&mut rig);
    let file = rig.touch(&USER, (directory, "file"));
    let set = |value, flags| setxattr(&USER, file, "user.a", value, flags);
    assert_eq!(rig.fails(&set(Some(b"1"), XattrFlags::REPLACE)), Errno::ENODATA);
    rig.must(&set(Some(b"1"), XattrFlags::CREATE));
    assert_eq!(rig.fails(&set(Some(b"2"), XattrFlags::CREATE)), Errno::EEXIST);
    rig.must(&set(Some(b"2"), XattrFlags::REPLACE));
    assert_eq!(rig.xattr(file, "user.a").unwrap(), b"2");
    assert_eq!(rig.fails(&getxattr(file, "user.none", 100)), Errno::ENODATA);
    rig.must(&set(Some(b"a longer value"), ANY));
    assert_eq!(rig.fails(&getxattr(file, "user.a", 5)), Errno::ERANGE);
    rig.must(&set(None, ANY));
    assert_eq!(rig.fails(&set(None, ANY)), Errno::ENODATA);
    rig.mdt.check().unwrap();
}

/// Returns a directory in which everybody makes files.
fn for_all(rig: &mut Rig) -> Fid {
    let directory = rig.mkdir((TOP, "all"));
    rig.must(&chmod(&ROOT, directory, 0o777));
    directory
}
