//! What part of its resource a lock covers. Spec: ptlrpc-ldlm-mgs §17.3.

use fulmar_wire::{wire_flags, wire_struct};
use serde::Serialize;

use super::LockType;

wire_flags! {
    /// Parts of the state of a file. Spec: ptlrpc-ldlm-mgs §25.1.
    pub struct InodeBits(u64) {
        /// The name and the existence of the file.
        LOOKUP = 0x01,
        /// Size, times, number of links; the content of a directory.
        UPDATE = 0x02,
        /// The state of being open.
        OPEN = 0x04,
        LAYOUT = 0x08,
        /// Mode, owner, group and ACL.
        PERM = 0x10,
        /// Extended attributes.
        XATTR = 0x20,
        /// The data on the MDT.
        DOM = 0x40,
    }
}

wire_struct! {
    /// The part of its resource that a lock covers, as sent: 32 bytes. Their meaning depends on the
    /// type of the resource ([`Policy::typed`]).
    #[doc(alias = "ldlm_wire_policy_data_t")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Policy {
        pub words: [u64; 3],
        pub halves: [u32; 2],
    }
}

/// A range of bytes of an OST object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Extent {
    pub start: u64,
    /// The last byte; [`Extent::EOF`] without an end.
    pub end: u64,
    /// The group of a group lock.
    pub gid: u64,
}

impl Extent {
    /// The end of a range without an end.
    #[doc(alias = "OBD_OBJECT_EOF")]
    pub const EOF: u64 = u64::MAX;
}

/// Parts of the state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct InodebitsPolicy {
    pub bits: InodeBits,
    /// In requests the bits that are wanted only if they are free; in callbacks, converts and
    /// replies to requests that wait, those to give up.
    #[doc(alias = "cancel_bits")]
    pub try_bits: InodeBits,
    /// The group of a group lock.
    pub gid: u64,
    /// The index of the MDT that asks; 0 for clients.
    pub initiator: u32,
}

/// A range of bytes of a file and who locks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Flock {
    pub start: u64,
    /// The last byte; `i64::MAX` without an end.
    pub end: u64,
    /// Chosen by the client; different owners conflict.
    pub owner: u64,
    pub pid: u32,
}

/// The meaning of a [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum TypedPolicy {
    Extent(Extent),
    Flock(Flock),
    Inodebits(InodebitsPolicy),
    /// Plain locks cover their resource.
    Other(Policy),
}

impl Policy {
    /// Returns the range of an extent lock.
    pub fn extent(self) -> Extent {
        let [start, end, gid] = self.words;
        Extent { start, end, gid }
    }

    /// Returns the range of a flock.
    pub fn flock(self) -> Flock {
        let ([start, end, owner], [_, pid]) = (self.words, self.halves);
        Flock { start, end, owner, pid }
    }

    /// Returns the bits of an inodebits lock.
    pub fn inodebits(self) -> InodebitsPolicy {
        let ([bits, try_bits, gid], [_, initiator]) = (self.words, self.halves);
        InodebitsPolicy { bits: InodeBits(bits), try_bits: InodeBits(try_bits), gid, initiator }
    }

    /// Returns the meaning for a resource of type `kind`.
    pub fn typed(self, kind: LockType) -> TypedPolicy {
        match kind {
            LockType::EXTENT => TypedPolicy::Extent(self.extent()),
            LockType::FLOCK => TypedPolicy::Flock(self.flock()),
            LockType::IBITS => TypedPolicy::Inodebits(self.inodebits()),
            _ => TypedPolicy::Other(self),
        }
    }
}

impl From<Extent> for Policy {
    fn from(Extent { start, end, gid }: Extent) -> Self {
        Self { words: [start, end, gid], halves: [0, 0] }
    }
}

impl From<Flock> for Policy {
    fn from(Flock { start, end, owner, pid }: Flock) -> Self {
        Self { words: [start, end, owner], halves: [0, pid] }
    }
}

impl From<InodebitsPolicy> for Policy {
    fn from(policy: InodebitsPolicy) -> Self {
        let InodebitsPolicy { bits, try_bits, gid, initiator } = policy;
        Self { words: [bits.0, try_bits.0, gid], halves: [0, initiator] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { Policy = 32 }

    #[test]
    fn a_policy_has_the_meaning_of_its_type() {
        let policy = Policy { words: [2, 0x48, 3], halves: [0, 5] };
        let extent = Extent { start: 2, end: 0x48, gid: 3 };
        assert_eq!(policy.typed(LockType::EXTENT), TypedPolicy::Extent(extent));
        assert_eq!(Policy::from(extent), Policy { halves: [0, 0], ..policy });
        let flock = Flock { start: 2, end: 0x48, owner: 3, pid: 5 };
        assert_eq!(policy.typed(LockType::FLOCK), TypedPolicy::Flock(flock));
        assert_eq!(Policy::from(flock), policy);
        let try_bits = InodeBits::LAYOUT | InodeBits::DOM;
        let bits = InodebitsPolicy { bits: InodeBits::UPDATE, try_bits, gid: 3, initiator: 5 };
        assert_eq!(policy.typed(LockType::IBITS), TypedPolicy::Inodebits(bits));
        assert_eq!(Policy::from(bits), policy);
        assert_eq!(policy.typed(LockType::PLAIN), TypedPolicy::Other(policy));
    }
}
