//! The space that a target has promised a client, so that what it caches can be written.
//! Spec: mdt-ost §19.1 to §19.5.
//!
//! ```text
//!            reserve             dirty              written            released (on disk)
//! available ────────► reserved ────────► dirty ─────────────► unstable ──────► the target's
//!     ▲ ◄───────────────┘ ◄───────────────┘ dropped              (again available by what replies grant)
//! ```
//!
//! A write pays for the blocks that it touches, and a tax for each extent. What it paid is the target's when it
//! is written. Unstable data are those that the target may lose in a crash: it counts them as dirty.

use std::ops::Range;

/// What a target and a client have agreed about grants and transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What a write pays for is a multiple of this, in bytes: a page, or a block if that is larger.
    pub chunk: u64,
    /// What an extent costs besides, in bytes; 0 without GRANT_PARAM.
    pub tax: u64,
    /// The longest extent in bytes.
    pub extent: u64,
    /// The largest RPC in bytes.
    pub rpc_size: u64,
    /// The size of the largest object in bytes.
    pub object_max: u64,
}

impl Terms {
    /// The smallest chunk: a page.
    pub const PAGE: u64 = 4096;

    /// Returns the terms that follow from what a target says when it is connected with GRANT_PARAM: the
    /// largest read or write, the size of a block as a power of two, what an extent costs in KiB, and the
    /// largest extent in blocks. Values that make no sense are replaced. Spec: mdt-ost §19.2.
    pub fn announced(brw_size: u32, block_bits: u8, tax_kib: u16, extent_blocks: u32) -> Self {
        // Blocks are at most as large as the smallest RPC.
        let bits = block_bits.min(20);
        let Self { rpc_size, .. } = Self::pages(brw_size.into());
        Self {
            chunk: Self::PAGE.max(1 << bits),
            tax: u64::from(tax_kib) << 10,
            extent: u64::from(extent_blocks.max(1)) << bits,
            rpc_size,
            object_max: u64::MAX,
        }
    }

    /// Returns the terms for a target that has announced none: pages, and no tax.
    pub fn pages(brw_size: u64) -> Self {
        let known = if brw_size < RPC_MIN { RPC_MIN } else { brw_size.min(RPC_MAX) };
        let rpc_size = known / Self::PAGE * Self::PAGE;
        Self { chunk: Self::PAGE, tax: 0, extent: u64::MAX, rpc_size, object_max: u64::MAX }
    }

    /// Returns what a contiguous range costs.
    pub fn cost(&self, range: &Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let start = range.start / self.chunk * self.chunk;
        let len = range.end.div_ceil(self.chunk) * self.chunk - start;
        len + self.tax * len.div_ceil(self.extent)
    }
}

/// Every target takes reads and writes of 1 MiB, and none of more than 64 MiB. Spec: mdt-ost §17.8.
const RPC_MIN: u64 = 1 << 20;
const RPC_MAX: u64 = 64 << 20;

/// What a read or a write says about grants. Spec: mdt-ost §19.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What the client has and has not used. `o_grant`.
    pub grant: u64,
    /// What it has cached, and what the target may lose. `o_dirty`.
    pub dirty: u64,
    /// How much it may want to cache. `o_undirty`.
    pub undirty: u32,
    /// What it gives back. `o_dropped`.
    pub dropped: u32,
    /// What this write uses. `o_grant_used`.
    pub used: u64,
}

/// The account of one target. All amounts are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    terms: Terms,
    available: u64,
    reserved: u64,
    dirty: u64,
    unstable: u64,
    lost: u64,
}

/// The most that a client may have. Spec: mdt-ost §19.3.
#[doc(alias = "OBD_MAX_GRANT")]
const GRANT_MAX: u64 = 0x7fff_ffff;
/// What a client wants when it connects first. Spec: mdt-ost §19.2.
const FIRST: u64 = 128 << 20;

impl Grants {
    /// Returns the account at a target that has granted nothing yet.
    pub fn new(terms: Terms) -> Self {
        Self { terms, available: 0, reserved: 0, dirty: 0, unstable: 0, lost: 0 }
    }

    /// Returns what was agreed.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns what a client says that it has, or wants, when it connects (`ocd_grant`).
    pub fn wanted(&self) -> u64 {
        (self.available + self.reserved + self.dirty).max(FIRST)
    }

    /// The client is connected, and has been told what the target accounts to it.
    pub fn connect(&mut self, terms: Terms, granted: u64) {
        self.terms = terms;
        self.available = granted.min(GRANT_MAX).saturating_sub(self.reserved + self.dirty);
        self.lost = 0;
    }

    /// The target has forgotten the client, and what it had granted.
    pub fn evict(&mut self) {
        (self.available, self.reserved, self.dirty, self.lost) = (0, 0, 0, 0);
    }

    /// Reserves what a write may cost, if there is enough.
    pub fn reserve(&mut self, cost: u64) -> bool {
        let is_enough = self.available >= cost;
        if is_enough {
            self.available -= cost;
            self.reserved += cost;
        }
        is_enough
    }

    /// Something that was reserved is dirty now, and costs less than was reserved, or even less than
    /// what it has joined.
    ///
    /// # Panics
    /// If it costs more than was reserved.
    pub fn dirty(&mut self, reserved: u64, cost: i64) {
        let back = i64::try_from(reserved).expect("less than 2^63") - cost;
        assert!(back >= 0, "a write costs {cost}, and {reserved} were reserved");
        self.reserved -= reserved;
        self.dirty = self.dirty.checked_add_signed(cost).expect("what is dirty was paid");
        self.available += back as u64;
    }

    /// Something dirty will not be written: what it cost is available again.
    pub fn dropped(&mut self, cost: u64) {
        self.dirty -= cost;
        self.available += cost;
    }

    /// Something dirty was sent, and the target has answered. `keeps`: it may still lose it.
    pub fn written(&mut self, cost: u64, keeps: bool) {
        self.dirty -= cost;
        self.unstable += if keeps { cost } else { 0 };
    }

    /// The target has on disk what it could have lost.
    pub fn released(&mut self, cost: u64) {
        self.unstable -= cost;
    }

    /// A reply grants more. What is too much is given back.
    pub fn granted(&mut self, more: u64) {
        let room = GRANT_MAX.saturating_sub(self.available + self.reserved + self.dirty);
        self.available += more.min(room);
        self.lost = self.lost.saturating_add(more.saturating_sub(room));
    }

    /// Returns what the next read or write says, and gives back what is lost. `dirty_max` and `window`:
    /// how much may be dirty, and how much the RPCs in flight and one more carry.
    pub fn figures(&mut self, used: u64, dirty_max: u64, window: u64) -> Figures {
        let dropped = self.lost.min(u64::from(u32::MAX));
        self.lost -= dropped;
        let wanted = dirty_max.max(window);
        let taxes = wanted.div_ceil(self.terms.extent).saturating_mul(self.terms.tax);
        let most = GRANT_MAX & !(4 * self.terms.rpc_size);
        let undirty =
            if self.dirty > dirty_max { 0 } else { wanted.saturating_add(taxes).min(most) };
        Figures {
            grant: self.available + self.reserved,
            dirty: self.dirty + self.unstable,
            undirty: undirty as u32,
            dropped: dropped as u32,
            used,
        }
    }

    /// Removes what has not been needed for a long time, to give it back; `None` if that is nothing.
    /// `window`: what the RPCs in flight and one more carry. When no more than that is left, one RPC is kept.
    /// Spec: mdt-ost §19.5.
    pub fn shrink(&mut self, window: u64) -> Option<u64> {
        let one = self.terms.cost(&(0..self.terms.rpc_size));
        let keep = if self.available > window { window.max(one) } else { one };
        let back = self.available.saturating_sub(keep);
        self.available -= back;
        (back > 0).then_some(back)
    }

    /// Returns what a write can take now.
    pub fn available(&self) -> u64 {
        self.available
    }

    /// Returns whether nothing is reserved, dirty or unstable.
    pub fn is_idle(&self) -> bool {
        (self.reserved, self.dirty, self.unstable) == (0, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const TERMS: Terms = Terms {
        chunk: 4096,
        tax: 24 << 10,
        extent: 16384 * 4096,
        rpc_size: 4 * MIB,
        object_max: u64::MAX,
    };

    #[test]
    fn a_write_pays_for_its_blocks_and_its_extents() {
        assert_eq!(TERMS.cost(&(0..1)), 4096 + 24576);
        assert_eq!(TERMS.cost(&(4095..4097)), 8192 + 24576);
        assert_eq!(TERMS.cost(&(0..65536)), 65536 + 24576);
        assert_eq!(TERMS.cost(&(0..64 * MIB + 1)), 64 * MIB + 4096 + 2 * 24576);
        assert_eq!((TERMS.cost(&(7..7)), Terms::pages(MIB).cost(&(5..4097))), (0, 8192));
    }

    #[test]
    fn terms_that_make_no_sense_are_replaced() {
        assert_eq!(Terms::announced(4 << 20, 12, 24, 16384), TERMS);
        let wrong = Terms::announced(0, 255, 0, 0);
        assert_eq!(
            wrong,
            Terms { chunk: MIB, tax: 0, extent: MIB, rpc_size: MIB, object_max: u64::MAX }
        );
        assert_eq!(Terms::announced(u32::MAX, 9, 0, 1).rpc_size, 64 * MIB);
        let mut grants = Grants::new(TERMS);
        grants.connect(TERMS, u64::MAX);
        (0..3).for_each(|_| grants.granted(u64::MAX));
        assert_eq!(grants.figures(0, 0, 0).grant, GRANT_MAX);
    }

    #[test]
    fn a_kernel_client_says_the_same_figures() {
        // 183 MiB of max_dirty_mb, and a tax for each of 3 extents.
        let mut grants = Grants::new(TERMS);
        assert_eq!(grants.wanted(), 128 * MIB);
        grants.connect(TERMS, 8_437_760);
        let figures = grants.figures(0, 183 * MIB, 36 * MIB);
        let expected = Figures { grant: 8_437_760, undirty: 191_963_136, ..Figures::default() };
        assert_eq!(figures, expected);
        assert_eq!(grants.figures(0, 4096 * MIB, 0).undirty, 0x7eff_ffff);
    }

    #[test]
    fn what_a_write_used_is_dirty_until_it_is_on_disk() {
        let mut grants = Grants::new(TERMS);
        grants.connect(TERMS, MIB);
        let cost = TERMS.cost(&(0..4096));
        assert!(grants.reserve(cost) && !grants.reserve(MIB));
        grants.dirty(cost, cost as i64);
        // A second write joins it: one tax for both.
        assert!(grants.reserve(cost));
        grants.dirty(cost, 4096);
        let cost = cost + 4096;
        grants.written(cost, true);
        grants.granted(7);
        let figures = grants.figures(cost, 0, 0);
        assert_eq!((figures.grant, figures.dirty), (MIB - cost + 7, cost));
        grants.released(cost);
        assert!(grants.is_idle());
    }

    #[test]
    fn an_eviction_ends_the_account_and_a_reconnect_does_not() {
        let mut grants = Grants::new(TERMS);
        grants.connect(TERMS, MIB);
        assert!(grants.reserve(5000) && grants.reserve(7000));
        grants.dirty(7000, 7000);
        grants.connect(TERMS, MIB);
        assert_eq!(grants.available(), MIB - 12_000);
        grants.evict();
        grants.connect(TERMS, MIB);
        assert_eq!(grants.available(), MIB);
    }

    #[test]
    fn what_is_too_much_goes_back_and_what_is_idle_too() {
        let mut grants = Grants::new(TERMS);
        grants.connect(TERMS, GRANT_MAX - 5);
        grants.granted(9);
        assert_eq!(grants.figures(0, 0, 0).dropped, 4);
        assert_eq!(grants.figures(0, 0, 0).dropped, 0);
        assert_eq!(grants.shrink(36 * MIB), Some(GRANT_MAX - 36 * MIB));
        let one = TERMS.cost(&(0..4 * MIB));
        assert_eq!(grants.shrink(36 * MIB), Some(36 * MIB - one));
        assert_eq!((grants.shrink(36 * MIB), grants.available()), (None, one));
    }

    proptest! {
        #[test]
        fn nothing_is_made_or_lost(steps in prop::collection::vec((0..5_u8, 0..900_u64), 1..80)) {
            let mut grants = Grants::new(TERMS);
            grants.connect(TERMS, 5000);
            // What the target accounts to the client.
            let mut server = 5000;
            let (mut reserved, mut dirty) = (Vec::new(), Vec::new());
            for (what, amount) in steps {
                match what {
                    0 if grants.reserve(amount) => reserved.push(amount),
                    1 => if let Some(taken) = reserved.pop() {
                        let cost = taken.min(amount);
                        grants.dirty(taken, cost as i64);
                        dirty.push(cost);
                    }
                    2 => dirty.pop().into_iter().for_each(|cost| grants.dropped(cost)),
                    3 => if let Some(cost) = dirty.pop() {
                        grants.written(cost, false);
                        server -= cost;
                    }
                    _ => {
                        grants.granted(amount);
                        server += amount;
                    }
                }
                let figures = grants.figures(0, 0, 0);
                prop_assert_eq!(figures.grant + figures.dirty, server);
                prop_assert_eq!(figures.dirty, dirty.iter().sum::<u64>());
            }
        }
    }
}
