//! The data of bulk transfers: known words, so that a receiver detects damage.
//! Spec: lnet-selftest §10.3.

use fulmar_wire::{Order, wire_enum};

/// The word of good data.
#[doc(alias = "BRW_MAGIC")]
pub const GOOD: u64 = 0xeeb0_eeb1_eeb2_eeb3;
/// The word in memory that is about to be overwritten.
#[doc(alias = "BRW_POISON")]
pub const POISON: u64 = 0xbeef_beef_beef_beef;
/// Bytes of a word; the length of every transfer is a multiple of it.
pub const WORD: usize = 8;
/// Simple checks compare the first and last words of fragments of this size.
const PAGE: usize = 4096;

wire_enum! {
    /// The check of the data of a transfer.
    pub struct Check(u32) {
        /// None.
        NONE = 1,
        /// The first and the last word of each page.
        SIMPLE = 2,
        /// Every word.
        FULL = 3,
        /// None, and the receiver may discard the data.
        DISCARD = 4,
    }
}

/// A word that differs from the sent word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Damage {
    /// Where, in bytes from the start of the transfer.
    pub offset: usize,
    /// The word that was found, in native order.
    pub got: u64,
}

/// Fills `bytes` with good data, little-endian.
pub fn fill(bytes: &mut [u8]) {
    fill_with(bytes, GOOD);
}

/// Fills `bytes` with poison, which received data must overwrite.
pub fn fill_poison(bytes: &mut [u8]) {
    fill_with(bytes, POISON);
}

fn fill_with(bytes: &mut [u8], word: u64) {
    for place in bytes.chunks_exact_mut(WORD) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// Adds to the first word of `bytes`, so that a check detects damage.
pub fn spoil(bytes: &mut [u8], add: u64) {
    if let Some(first) = bytes.first_chunk_mut() {
        *first = u64::from_le_bytes(*first).wrapping_add(add).to_le_bytes();
    }
}

/// Checks a part of a transfer. A part that ends inside a page is assumed to be the last.
///
/// `offset` is the position of the part in the transfer, a multiple of [`WORD`]; `order` is the
/// byte order of the node that filled it.
///
/// # Errors
/// Returns the first damaged word.
pub fn verify(bytes: &[u8], offset: usize, check: Check, order: Order) -> Result<(), Damage> {
    let good = match order {
        Order::Little => GOOD,
        Order::Big => GOOD.swap_bytes(),
    };
    let damage = |at: usize| {
        let got = word(bytes.get(at..at + WORD)?);
        (got != good).then_some(Damage { offset: offset + at, got })
    };
    let damaged = match check {
        Check::FULL => {
            // Whole pages are compared first, and only a damaged one word by word.
            let is_bad = |page: &[u8]| words(page).fold(0, |bits, word| bits | (word ^ good)) != 0;
            let page = bytes.chunks(PAGE).position(is_bad);
            page.and_then(|page| (page * PAGE..bytes.len()).step_by(WORD).find_map(damage))
        }
        Check::SIMPLE => ends_of_pages(offset, bytes.len()).find_map(damage),
        _ => None,
    };
    damaged.map_or(Ok(()), Err)
}

/// Returns the positions of the first and last words of pages in a part of `len` bytes.
fn ends_of_pages(offset: usize, len: usize) -> impl Iterator<Item = usize> {
    let before = offset % PAGE;
    let end = before + len;
    let ends = move |page: usize| [page, (page + PAGE).min(end).saturating_sub(WORD)];
    (0..end).step_by(PAGE).flat_map(ends).filter_map(move |at| at.checked_sub(before))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(WORD).map(word)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}
