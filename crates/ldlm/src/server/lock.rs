//! A lock as a namespace keeps it, in 80 bytes.

use fulmar_base::Errno;
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{
    Extent, Flock, InodeBits, InodebitsPolicy, LockDesc, LockFlags, LockMode, LockType, Policy,
    ResourceDesc, ResourceId,
};

use crate::mode;
use crate::slab::NIL;
use crate::treap::Links;

/// A mode in a byte: the number of its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mode(pub(super) u8);

impl Mode {
    pub(super) const COUNT: usize = mode::COUNT;
    pub(super) const EX: Self = Self(0);
    pub(super) const PW: Self = Self(1);
    pub(super) const PR: Self = Self(2);
    pub(super) const CW: Self = Self(3);
    pub(super) const NL: Self = Self(5);
    pub(super) const GROUP: Self = Self(6);

    /// Returns the mode of a request. `None` if it has not exactly one valid bit.
    pub(super) fn of(wire: LockMode) -> Option<Self> {
        mode::is_valid(wire).then(|| Self(wire.0.trailing_zeros() as u8))
    }

    pub(super) fn wire(self) -> LockMode {
        LockMode(1 << self.0)
    }

    /// Returns whether both may be granted.
    pub(super) fn is_compatible(self, other: Self) -> bool {
        mode::are_compatible(self.wire(), other.wire())
    }

    /// Returns whether its holder may change the object.
    pub(super) fn writes(self) -> bool {
        [Self::EX, Self::PW, Self::CW, Self::GROUP].contains(&self)
    }
}

/// The type of the locks of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Extent,
    Flock,
    Inodebits,
}

impl Kind {
    pub(super) fn of(wire: LockType) -> Option<Self> {
        match wire {
            LockType::PLAIN => Some(Self::Plain),
            LockType::EXTENT => Some(Self::Extent),
            LockType::FLOCK => Some(Self::Flock),
            LockType::IBITS => Some(Self::Inodebits),
            _ => None,
        }
    }

    pub(super) fn wire(self) -> LockType {
        match self {
            Self::Plain => LockType::PLAIN,
            Self::Extent => LockType::EXTENT,
            Self::Flock => LockType::FLOCK,
            Self::Inodebits => LockType::IBITS,
        }
    }
}

/// The bits of a file that a lock can cover.
pub(super) const BITS_ALL: u64 = 0x7f;

/// What part of its resource a lock covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Bytes, the last included. Other types than extents and flocks cover all.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The bits, the group of a group lock, or the owner of a flock.
    pub(super) value: u64,
    /// The process of a flock, or the bits that a request wants if they are free.
    pub(super) more: u32,
}

impl Part {
    /// Returns the part that a request names. Spec: ptlrpc-ldlm-mgs §17.3, §21.2.
    pub(super) fn of(kind: Kind, mode: Mode, policy: Policy) -> Result<Self, Errno> {
        let all = Self { start: 0, end: Extent::EOF, value: 0, more: 0 };
        let part = match kind {
            Kind::Plain => all,
            Kind::Extent => {
                let Extent { start, end, gid } = policy.extent();
                if mode == Mode::GROUP && gid == 0 {
                    return Err(Errno::EINVAL);
                }
                Self { start, end, value: gid, more: 0 }
            }
            Kind::Flock => {
                let Flock { start, end, owner, pid } = policy.flock();
                Self { start, end, value: owner, more: pid }
            }
            Kind::Inodebits => return Self::of_bits(mode, policy.inodebits()),
        };
        if part.start <= part.end { Ok(part) } else { Err(Errno::EINVAL) }
    }

    fn of_bits(mode: Mode, policy: InodebitsPolicy) -> Result<Self, Errno> {
        let InodebitsPolicy { bits, try_bits, gid, .. } = policy;
        if bits.0 | try_bits.0 == 0 || bits.0 & !BITS_ALL != 0 {
            return Err(Errno::EPROTO);
        }
        let whole = Self { start: 0, end: Extent::EOF, value: bits.0, more: 0 };
        if mode == Mode::GROUP {
            return match bits {
                InodeBits::DOM if gid != 0 => Ok(Self { value: gid, ..whole }),
                _ => Err(Errno::EPROTO),
            };
        }
        Ok(Self { more: (try_bits.0 & BITS_ALL & !bits.0) as u32, ..whole })
    }

    pub(super) fn is_all(&self) -> bool {
        (self.start, self.end) == (0, Extent::EOF)
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    pub(super) fn policy(&self, kind: Kind, mode: Mode) -> Policy {
        let Self { start, end, value, more } = *self;
        match kind {
            Kind::Plain => Policy::default(),
            Kind::Extent => Extent { start, end, gid: value }.into(),
            Kind::Flock => Flock { start, end, owner: value, pid: more }.into(),
            Kind::Inodebits => {
                let bits = InodeBits(self.bits(mode));
                let gid = if mode == Mode::GROUP { value } else { 0 };
                InodebitsPolicy { bits, try_bits: InodeBits(0), gid, initiator: 0 }.into()
            }
        }
    }

    /// Returns the bits of an inodebits lock.
    pub(super) fn bits(&self, mode: Mode) -> u64 {
        if mode == Mode::GROUP { InodeBits::DOM.0 } else { self.value }
    }
}

/// What a lock is requested for, or what a lock is: as much as decides about conflicts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) kind: Kind,
    pub(super) mode: Mode,
    pub(super) part: Part,
    /// The holder's export.
    pub(super) export: u32,
}

impl Claim {
    /// Returns whether two locks of one resource exclude each other. Spec: ptlrpc-ldlm-mgs §20,
    /// §24.4.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let is_group = self.mode == Mode::GROUP || other.mode == Mode::GROUP;
        if self.mode == Mode::GROUP && other.mode == Mode::GROUP {
            return self.part.value != other.part.value;
        }
        !self.mode.is_compatible(other.mode)
            && match self.kind {
                Kind::Plain => true,
                Kind::Extent => is_group || self.part.overlaps(&other.part),
                Kind::Flock => !self.has_owner_of(other) && self.part.overlaps(&other.part),
                Kind::Inodebits => self.part.bits(self.mode) & other.part.bits(other.mode) != 0,
            }
    }

    /// Returns whether the attributes of the object come with the lock: it is on data.
    /// Spec: ptlrpc-ldlm-mgs §27.1.
    pub(super) fn has_lvb(&self) -> bool {
        self.kind == Kind::Extent
            || self.kind == Kind::Inodebits && self.part.bits(self.mode) == InodeBits::DOM.0
    }

    /// Returns whether both are flocks of one owner.
    pub(super) fn has_owner_of(&self, other: &Self) -> bool {
        (self.export, self.part.value) == (other.export, other.part.value)
    }
}

/// A lock.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    /// The server's name of it.
    pub(super) handle: Handle,
    /// The client's name of it, or the host's.
    pub(super) client: Handle,
    /// As requested while it waits, as granted later.
    pub(super) part: Part,
    pub(super) requested: Mode,
    pub(super) is_granted: bool,
    pub(super) flags: Flags,
    pub(super) export: u32,
    pub(super) resource: u32,
    /// Its place in the index of granted locks.
    pub(super) links: Links,
}

/// What else is known of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(pub(super) u8);

impl Flags {
    /// Its holder knows that others wait for it.
    pub(super) const BLOCKS: Self = Self(1);
    /// It goes by itself when others wait for it.
    pub(super) const CANCEL_ON_BLOCK: Self = Self(2);
    pub(super) const NO_EXPANSION: Self = Self(4);
    /// The data of holders that are in its way are dropped.
    pub(super) const DISCARDS: Self = Self(8);
    /// Its own data were dropped.
    pub(super) const DISCARDED: Self = Self(16);
    /// It is granted, but its holder is not told yet.
    pub(super) const GRANTING: Self = Self(32);

    pub(super) fn of(flags: LockFlags) -> Self {
        let pairs = [
            (LockFlags::CANCEL_ON_BLOCK, Self::CANCEL_ON_BLOCK),
            (LockFlags::NO_EXPANSION, Self::NO_EXPANSION),
            (LockFlags::AST_DISCARD_DATA, Self::DISCARDS),
        ];
        pairs
            .iter()
            .filter(|(wire, _)| flags.has(*wire))
            .fold(Self(0), |all, pair| all.with(pair.1))
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Lock {
    pub(super) fn new(handle: Handle, client: Handle, claim: &Claim, flags: Flags) -> Self {
        Self {
            handle,
            client,
            part: claim.part,
            requested: claim.mode,
            is_granted: false,
            flags,
            export: claim.export,
            resource: NIL,
            links: Links::default(),
        }
    }

    pub(super) fn claim(&self, kind: Kind) -> Claim {
        Claim { kind, mode: self.requested, part: self.part, export: self.export }
    }

    /// Returns the lock as messages describe it.
    pub(super) fn desc(&self, kind: Kind, id: ResourceId) -> LockDesc {
        LockDesc {
            resource: ResourceDesc { kind: kind.wire(), id, ..Default::default() },
            requested: self.requested.wire(),
            granted: if self.is_granted { self.requested.wire() } else { LockMode(0) },
            policy: self.part.policy(kind, self.requested),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_in_bytes_agree_with_modes_on_the_wire() {
        for mode in (0..7).map(Mode) {
            assert_eq!(Mode::of(mode.wire()), Some(mode));
        }
        assert_eq!((Mode::of(LockMode(3)), Mode::of(LockMode::COS)), (None, None));
        assert_eq!(Mode::GROUP.wire(), LockMode::GROUP);
    }

    #[test]
    fn a_lock_is_small() {
        assert!(size_of::<Lock>() <= 80, "{}", size_of::<Lock>());
        assert_eq!(size_of::<Option<Lock>>(), size_of::<Lock>());
    }
}
