//! Access control lists beside the permissions of files.

use super::super::words::{Acl, AclEntry};

const OWNER: u16 = 1;
const GROUP: u16 = 4;
const MASK: u16 = 16;
const OTHERS: u16 = 32;

impl Acl {
    /// Returns the list that says what a mode says.
    pub fn of_mode(mode: u32) -> Self {
        let entry = |tag, shift: u32| AclEntry {
            tag,
            id: AclEntry::NO_ID,
            permissions: (mode >> shift & 7) as u16,
        };
        Self(vec![entry(OWNER, 6), entry(GROUP, 3), entry(OTHERS, 0)])
    }

    /// Returns whether it says more than a mode can.
    pub fn is_more_than_a_mode(&self) -> bool {
        self.0.len() > 3
    }

    /// Returns the permissions of a mode: that of the group is the mask, if there is one.
    pub fn mode(&self) -> u32 {
        let group = if self.has(MASK) { MASK } else { GROUP };
        self.of(OWNER) << 6 | self.of(group) << 3 | self.of(OTHERS)
    }

    /// Returns the list after a change of the mode.
    #[must_use]
    pub fn with_mode(&self, mode: u32) -> Self {
        let group = if self.has(MASK) { MASK } else { GROUP };
        self.changed(|entry| match entry.tag {
            OWNER => (mode >> 6 & 7) as u16,
            OTHERS => (mode & 7) as u16,
            tag if tag == group => (mode >> 3 & 7) as u16,
            _ => entry.permissions,
        })
    }

    /// Returns the list that a new file gets in a directory with this one as default: what its mode does not allow is
    /// taken away.
    #[must_use]
    pub fn inherited(&self, mode: u32) -> Self {
        self.with_mode(self.mode() & mode)
    }

    fn changed(&self, permissions: impl Fn(&AclEntry) -> u16) -> Self {
        let changed = |entry: &AclEntry| AclEntry { permissions: permissions(entry), ..*entry };
        Self(self.0.iter().map(changed).collect())
    }

    fn has(&self, tag: u16) -> bool {
        self.0.iter().any(|entry| entry.tag == tag)
    }

    fn of(&self, tag: u16) -> u32 {
        let found = self.0.iter().find(|entry| entry.tag == tag);
        found.map_or(0, |entry| entry.permissions.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_the_permission_of_the_group() {
        let acl: Acl = "u::rwx,u:5:rw-,g::r-x,m::rw-,o::r--".parse().unwrap();
        assert_eq!(acl.mode(), 0o764);
        assert_eq!(acl.with_mode(0o600).to_string(), "u::rw-,u:5:rw-,g::r-x,m::---,o::---");
        assert_eq!(acl.inherited(0o640).to_string(), "u::rw-,u:5:rw-,g::r-x,m::r--,o::---");
        assert_eq!(Acl::of_mode(0o751).to_string(), "u::rwx,g::r-x,o::--x");
        assert!(acl.is_more_than_a_mode() && !Acl::of_mode(0).is_more_than_a_mode());
    }
}
