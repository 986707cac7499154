//! The layouts of new files, as `lfs setstripe` makes them, and access control lists, as bytes.

use fulmar_base::Errno;
use fulmar_lustre_wire::layout::{
    Component, CompositeHeader, CompositeMd, LovHeader, LovMd, Pattern,
};
use fulmar_lustre_wire::{Content, acl};
use fulmar_wire::Order;

use super::words::{Acl, AclEntry, Layout};

/// The smallest stripe.
const STRIPE: u32 = 64 << 10;

impl Layout {
    /// Returns the layout that is sent; `None` for that of the directory.
    pub(super) fn to_bytes(self) -> Option<Vec<u8>> {
        let stripes = |count| LovMd::wanted(STRIPE, count);
        let small = u64::from(STRIPE);
        match self {
            Self::Default => None,
            Self::Plain => Some(stripes(1).to_bytes()),
            Self::Wide => Some(stripes(LovMd::ALL_STRIPES).to_bytes()),
            Self::Parts => Some(composite([
                (small, stripes(1)),
                (4 * small, stripes(2)),
                (u64::MAX, stripes(LovMd::ALL_STRIPES)),
            ])),
            Self::OnMdt => {
                let on_mdt = LovMd::wanted(STRIPE, 0);
                let header = LovHeader { pattern: Pattern::MDT, ..on_mdt.header };
                let on_mdt = LovMd { header, ..on_mdt };
                Some(composite([(small, on_mdt), (u64::MAX, stripes(2))]))
            }
        }
    }
}

/// Returns a layout of components by their ends.
fn composite(parts: impl IntoIterator<Item = (u64, LovMd)>) -> Vec<u8> {
    let mut start = 0;
    let parts = parts.into_iter().map(|(end, layout)| {
        let component = Component { start, end, ..Component::default() };
        start = end;
        (component, layout)
    });
    CompositeMd::new(CompositeHeader::new(0), parts.collect()).to_bytes()
}

impl Acl {
    /// Returns the value of the attribute in which a list is.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let entry = |entry: &AclEntry| acl::AclEntry {
            tag: acl::AclTag(entry.tag),
            permissions: acl::AclPermissions(entry.permissions),
            id: entry.id,
        };
        let entries = self.0.iter().map(entry).collect();
        acl::Acl { version: acl::Acl::VERSION, entries }.to_bytes()
    }

    /// Returns the list of such a value.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Errno> {
        let found = acl::Acl::decode(bytes, Order::Little).map_err(|_| Errno::EPROTO)?;
        let entry = |entry: &acl::AclEntry| AclEntry {
            tag: entry.tag.0,
            id: entry.id,
            permissions: entry.permissions.0,
        };
        let mut entries: Vec<_> = found.entries.iter().map(entry).collect();
        entries.sort_unstable();
        Ok(Self(entries))
    }
}
