//! The attributes of a file, and what a request wants of it.

use fulmar_wire::{wire_enum, wire_struct};
use serde::Serialize;

use super::Valid;
use crate::{Fid, Handle, Padding};

wire_enum! {
    /// A state of a file that will pass. Spec: mdt-ost §3.1.
    #[derive(Default)]
    pub struct TransientState(u64) {
        /// None.
        NONE = 0,
        /// It is being restored from the archive.
        #[doc(alias = "MS_RESTORE")]
        RESTORE = 1,
    }
}

wire_struct! {
    /// The attributes of a file in replies; the file, the caller and the wanted attributes in
    /// requests: 216 bytes. Times are in seconds. Spec: mdt-ost §3.1.
    #[doc(alias = "mdt_body")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct MdtBody {
        /// The file; in requests that have a name, its parent.
        #[doc(alias = "mbo_fid1")]
        pub fid: Fid,
        /// In requests the child, if it is known.
        #[doc(alias = "mbo_fid2")]
        pub child: Fid,
        /// The open file.
        pub open_handle: Handle,
        /// The attributes that are wanted or present.
        pub valid: Valid,
        /// Bytes; for `READPAGE` the hash to start at.
        pub size: u64,
        pub mtime: i64,
        pub atime: i64,
        pub ctime: i64,
        /// Units of 512 bytes.
        pub blocks: u64,
        /// The version of the data.
        pub version: u64,
        pub state: TransientState,
        /// The caller.
        pub fsuid: u32,
        pub fsgid: u32,
        /// The first 32 capabilities of the caller.
        pub capability: u32,
        /// Type and permissions; for `READPAGE` the wanted attributes of entries.
        pub mode: u32,
        pub uid: u32,
        pub gid: u32,
        /// The flags of the inode; for intents how the file will be opened.
        pub flags: u32,
        pub rdev: u32,
        /// The number of links; for `READPAGE` the wanted bytes.
        pub nlink: u32,
        pub layout_generation: u32,
        /// A further group of the caller, or `u32::MAX`.
        pub suppgid: u32,
        /// The bytes of the layout or attribute: in requests the room for it.
        pub ea_size: u32,
        pub acl_size: u32,
        /// The size of the largest layout.
        pub max_md_size: u32,
        pub unused: u32,
        pub uid_high: u32,
        pub gid_high: u32,
        pub projid: u32,
        /// The size of the part on the MDT.
        pub dom_size: u64,
        pub dom_blocks: u64,
        /// Since 2.14.
        pub btime: i64,
        /// Bit 0: the file has no SELinux label; bit 1: no SMACK label.
        pub xattr_absent: u64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<8>,
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! { MdtBody = 216 }

    /// The attributes of a created file, mdt-ost §26.2.
    const CREATED: &str = "01 04 00 00 02 00 00 00 03 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        57 3e 70 53 91 e9 78 5b 8f 2f 02 80 80 00 00 11
        00 00 00 00 00 00 00 00 b1 57 00 6b 00 00 00 00
        b1 57 00 6b 00 00 00 00 b1 57 00 6b 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 a4 81 00 00 00 00 00 00 00 00 00 00
        00 00 08 00 00 00 00 00 01 00 00 00 00 00 00 00
        00 00 00 00 38 00 00 00 00 00 00 00 80 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00";

    #[test]
    fn a_created_file_has_a_handle_and_attributes() {
        let body: MdtBody = check_example(&hex(CREATED));
        assert_eq!(body.fid, Fid { seq: 0x2_0000_0401, oid: 3, version: 0 });
        assert_eq!(body.open_handle, Handle(0x5b78_e991_5370_3e57));
        assert_eq!((body.mode, body.flags, body.nlink), (0o100_644, 0x8_0000, 1));
        assert_eq!((body.ea_size, body.max_md_size), (56, 128));
        assert_eq!((body.mtime, body.atime, body.ctime), (0x6b00_57b1, 0x6b00_57b1, 0x6b00_57b1));
    }
}
