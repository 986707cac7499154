//! POSIX access control lists. Little-endian from every peer. Spec: mdt-ost §10.2.

use fulmar_wire::{DecodeError, Order, Reader, Writer, wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use crate::Content;
use crate::content::{read_rest, write_all};

wire_enum! {
    /// The user or group that an entry is about.
    pub struct AclTag(u16) {
        /// The owner.
        USER_OBJ = 0x1,
        /// A user.
        USER = 0x2,
        /// The group of the file.
        GROUP_OBJ = 0x4,
        /// A group.
        GROUP = 0x8,
        /// The most that all but the owner and others have.
        MASK = 0x10,
        /// Others.
        OTHER = 0x20,
    }
}

wire_flags! {
    /// What is allowed.
    pub struct AclPermissions(u16) {
        EXECUTE = 0x1,
        WRITE = 0x2,
        READ = 0x4,
    }
}

wire_struct! {
    /// An entry: 8 bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct AclEntry {
        pub tag: AclTag,
        pub permissions: AclPermissions,
        /// The user or the group; `u32::MAX` if there is none.
        pub id: u32,
    }
}

/// A list: 4 bytes, and 8 for each entry. A file without a list has an empty buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Acl {
    /// [`Acl::VERSION`].
    pub version: u32,
    /// The entries.
    pub entries: Vec<AclEntry>,
}

impl Acl {
    /// The only version.
    #[doc(alias = "POSIX_ACL_XATTR_VERSION")]
    pub const VERSION: u32 = 2;
}

impl Content for Acl {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, Order::Little);
        let version = r.u32("Acl.version")?;
        Ok(Self { version, entries: read_rest(r, "Acl.entries")? })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        w.u32(self.version);
        write_all(&self.entries, w);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! { AclEntry = 8 }

    #[test]
    fn a_list_may_name_users() {
        let bytes = hex("02 00 00 00 01 00 06 00 ff ff ff ff 02 00 04 00 f4 01 00 00");
        let acl: Acl = check_example(&bytes);
        let [owner, user] = acl.entries.as_slice() else { panic!("{acl:?}") };
        assert_eq!((acl.version, owner.tag, user.tag), (2, AclTag::USER_OBJ, AclTag::USER));
        assert_eq!(owner.permissions, AclPermissions::READ | AclPermissions::WRITE);
        assert_eq!((owner.id, user.id), (u32::MAX, 500));
        assert!(Acl::decode(&bytes[..18], Order::Little).is_err());
    }
}
