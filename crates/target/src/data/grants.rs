//! Grants: the space that clients may use without asking, so that what they cache fits.
//! Spec: mdt-ost §19.1 to §19.5.
//!
//! ```text
//! free space = reserved + granted + left
//! granted    = what each client has + what writes under way will take (pending)
//! ```
//!
//! A write takes its space from the grant of its client, or else from what is left. Until it is done
//! the space is pending, and no other client gets it.

use std::collections::BTreeMap;

use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{Niobuf, NiobufFlags, Obdo, ObdoFlags};

use super::space::{BLOCK, blocks_of};

/// The size of a block, as the power of two that clients are told.
pub(super) const BLOCK_BITS: u8 = 12;
/// The space of an inode, likewise. As a kernel server with ldiskfs says.
pub(super) const INODE_BITS: u8 = 5;
/// What a client pays for each extent in KiB.
pub(super) const TAX_KIB: u16 = 24;
/// The largest extent in blocks.
pub(super) const EXTENT_BLOCKS: u32 = 16384;
/// The most that a client may have. Spec: mdt-ost §19.3.
#[doc(alias = "OBD_MAX_GRANT")]
const GRANT_MAX: u64 = 0x7fff_ffff;

/// What was agreed with a client about grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The most that it gets at once, in bytes.
    chunk: u64,
    /// Whether it says how much of its grant each write uses.
    says_used: bool,
    /// Whether it gets any.
    has_grant: bool,
}

impl Share {
    /// Returns what follows from the flags of a connection and its largest write.
    pub(super) fn of(flags: ConnectFlags, brw_size: u32) -> Self {
        let says_used = flags.has(ConnectFlags::GRANT_PARAM);
        let extents = u64::from(brw_size).div_ceil(u64::from(EXTENT_BLOCKS) * BLOCK);
        let tax = if says_used { (extents * u64::from(TAX_KIB)) << 10 } else { 0 };
        let has_grant = flags.has(ConnectFlags::GRANT) && !flags.has(ConnectFlags::RDONLY);
        Self { chunk: 2 * (u64::from(brw_size) + tax), says_used, has_grant }
    }
}

/// All grants of a target.
#[derive(Debug, Default)]
pub(super) struct Grants {
    accounts: BTreeMap<Handle, Account>,
    /// What writes under way will take, by export. Their clients may be gone.
    pending: BTreeMap<Handle, u64>,
    total: Total,
}

#[derive(Debug)]
struct Account {
    share: Share,
    granted: u64,
    dirty: u64,
}

/// Sums over all clients, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// What clients may use, and what writes under way will take.
    pub granted: u64,
    /// What of it they have cached.
    pub dirty: u64,
    /// What writes under way will take.
    pub pending: u64,
}

/// How a write is paid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Payment {
    /// For each range, whether there is room for it.
    pub(super) paid: Vec<bool>,
    /// What is pending until the write is done.
    pub(super) pending: u64,
    /// What the client gets more; `None` if it did not ask.
    pub(super) given: Option<u64>,
}

impl Grants {
    /// Begins the account of a client, or changes what was agreed.
    pub(super) fn connect(&mut self, export: Handle, share: Share) {
        let new = || Account { share, granted: 0, dirty: 0 };
        self.accounts.entry(export).or_insert_with(new).share = share;
    }

    /// Returns the grant of a client that has connected and wants so much. `free`: bytes of the medium
    /// that may be granted. `is_again`: it was connected before, and has a grant.
    pub(super) fn grant(&mut self, export: Handle, wanted: u64, free: u64, is_again: bool) -> u64 {
        let left = self.left(free);
        let Some(account) = self.accounts.get_mut(&export) else { return 0 };
        self.total.dirty -= std::mem::take(&mut account.dirty);
        let has = account.granted;
        self.give(export, has, wanted, left, is_again);
        self.accounts.get(&export).map_or(0, |account| account.granted)
    }

    /// Ends the account of a client: its grant is free again.
    pub(super) fn disconnect(&mut self, export: Handle) {
        if let Some(account) = self.accounts.remove(&export) {
            self.total.granted -= account.granted;
            self.total.dirty -= account.dirty;
        }
    }

    /// Handles a write, and what its body says about grants. `again`: the space was taken when it came
    /// first.
    pub(super) fn write(
        &mut self,
        export: Handle,
        asked: &Obdo,
        ranges: &[Niobuf],
        free: u64,
        again: bool,
    ) -> Payment {
        let says = says_grant(asked);
        if says {
            self.note(export, asked);
        }
        let mut left = self.left(free);
        let mut payment = if again {
            Payment { paid: vec![true; ranges.len()], ..Payment::default() }
        } else {
            self.pay(export, asked, ranges, &mut left)
        };
        if says {
            payment.given = Some(self.settle(export, asked, left));
        }
        payment
    }

    /// Applies what the body of a read says about grants. A read gets none. `free` is wanted if the client gives
    /// some back.
    pub(super) fn read<E>(
        &mut self,
        export: Handle,
        asked: &Obdo,
        free: impl FnOnce() -> Result<u64, E>,
    ) -> Result<Option<u64>, E> {
        if !says_grant(asked) {
            return Ok(None);
        }
        self.note(export, asked);
        if shrinks(asked) {
            self.shrink(export, asked.grant, free()?);
        }
        Ok(Some(0))
    }

    /// Ends a write: what it took is on the medium, or was not needed.
    pub(super) fn release(&mut self, export: Handle, pending: u64) {
        if pending == 0 {
            return;
        }
        let own = self.pending.get_mut(&export).expect("a write under way is known");
        *own -= pending;
        if *own == 0 {
            self.pending.remove(&export);
        }
        self.total.pending -= pending;
        self.total.granted -= pending;
    }

    /// Receives grant back that a client does not need, while that is worth the trouble.
    pub(super) fn shrink(&mut self, export: Handle, back: u64, free: u64) {
        let left = self.left(free);
        let Some(account) = self.accounts.get_mut(&export) else { return };
        if self.total.granted.saturating_mul(4) < left {
            return;
        }
        let back = back.min(account.granted);
        account.granted -= back;
        self.total.granted -= back;
    }

    /// Returns the sums.
    pub(super) fn total(&self) -> Total {
        self.total
    }

    /// Adds all accounts up, and says what does not match the sums.
    pub(super) fn check(&self) -> Result<(), String> {
        let pending: u64 = self.pending.values().sum();
        let granted: u64 = self.accounts.values().map(|account| account.granted).sum();
        let dirty = self.accounts.values().map(|account| account.dirty).sum();
        let sums = Total { granted: granted + pending, dirty, pending };
        if sums != self.total {
            return Err(format!("accounts sum up to {sums:?}, but {:?} is noted", self.total));
        }
        match self.accounts.values().find(|account| account.granted > GRANT_MAX) {
            Some(account) => Err(format!("{account:?} has too much")),
            None => Ok(()),
        }
    }

    /// Returns the free space that is not granted.
    pub(super) fn left(&self, free: u64) -> u64 {
        free.saturating_sub(self.total.granted) / BLOCK * BLOCK
    }

    /// Applies what a client says of its cache, and the grant that it has lost.
    fn note(&mut self, export: Handle, asked: &Obdo) {
        let Some(account) = self.accounts.get_mut(&export) else { return };
        // Requests may overtake each other: a client may say a little more than is known.
        let most = account.granted + 2 * account.share.chunk;
        let dirty = if i64::try_from(asked.blocks).is_ok() { asked.blocks.min(most) } else { 0 };
        self.total.dirty = self.total.dirty - account.dirty + dirty;
        account.dirty = dirty;
        let dropped = u64::from(asked.misc);
        if dropped <= account.granted {
            account.granted -= dropped;
            self.total.granted -= dropped;
        }
    }

    /// Pays the ranges of a write with the grant of its client, and with what is left.
    fn pay(&mut self, export: Handle, asked: &Obdo, ranges: &[Niobuf], left: &mut u64) -> Payment {
        let Some(account) = self.accounts.get_mut(&export) else {
            // The client is gone.
            return Payment { paid: vec![false; ranges.len()], ..Payment::default() };
        };
        let (mut granted, mut more) = (0, 0);
        let mut covers_all = false;
        let used = asked.data_version;
        if account.share.says_used && used > 0 {
            let missing = used.saturating_sub(account.granted);
            if missing == 0 || *left > missing {
                (granted, more, covers_all) = (used - missing, missing, true);
                *left -= missing;
            }
        }
        let mut pay = |range: &Niobuf| {
            let from_grant = range.flags.has(NiobufFlags::FROM_GRANT);
            let blocks = blocks_of(&(range.offset..range.offset + u64::from(range.len)));
            let bytes = blocks.end - blocks.start;
            if from_grant && covers_all {
                return true;
            }
            if from_grant && account.granted >= granted + bytes {
                granted += bytes;
                return true;
            }
            if *left > bytes {
                more += bytes;
                *left -= bytes;
                return true;
            }
            false
        };
        let paid = ranges.iter().map(&mut pay).collect();
        let pending = granted + more;
        account.granted -= granted;
        let cached = if asked.valid.has(Valid::FLGRANT) { granted.min(account.dirty) } else { 0 };
        account.dirty -= cached;
        self.total.dirty -= cached;
        self.total.granted += more;
        self.total.pending += pending;
        if pending > 0 {
            *self.pending.entry(export).or_default() += pending;
        }
        Payment { paid, pending, given: None }
    }

    /// Reduces a grant, or increases it.
    fn settle(&mut self, export: Handle, asked: &Obdo, left: u64) -> u64 {
        if shrinks(asked) {
            self.shrink(export, asked.grant, left.saturating_add(self.total.granted));
            return 0;
        }
        self.give(export, asked.grant, asked.mode.into(), left, false)
    }

    /// Gives a client more, and returns how much. `has`: what it thinks it has.
    fn give(&mut self, export: Handle, has: u64, wanted: u64, left: u64, is_again: bool) -> u64 {
        let Some(account) = self.accounts.get_mut(&export) else { return 0 };
        let Share { chunk, has_grant, .. } = account.share;
        // One that has much more than is known here is to use that up first.
        let is_wrong = has >= account.granted + chunk;
        if !has_grant || left == 0 || wanted > GRANT_MAX || has >= wanted || is_wrong {
            return 0;
        }
        let (left, most) = if is_again { (left, u64::MAX) } else { (left / 8, chunk) };
        let grant = (wanted - has).min(left).div_ceil(BLOCK) * BLOCK;
        let room = (wanted + chunk).min(GRANT_MAX).saturating_sub(account.granted);
        let grant = grant.min(most).min(room);
        account.granted += grant;
        self.total.granted += grant;
        grant
    }
}

/// Returns whether a body says something about grants.
fn says_grant(asked: &Obdo) -> bool {
    asked.valid.has(Valid::FLBLOCKS | Valid::FLGRANT)
}

fn shrinks(asked: &Obdo) -> bool {
    asked.valid.has(Valid::FLFLAGS) && asked.flags.flags.has(ObdoFlags::SHRINK_GRANT)
}
