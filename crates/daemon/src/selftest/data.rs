//! Data of bulk transfers.

use fulmar_lnet_wire::selftest::{Check, Damage, WORD, fill, fill_poison, spoil, verify};
use fulmar_net::{Buffer, Slice};
use fulmar_selftest::Contents;
use fulmar_wire::Order;

/// Allocates memory with known data. Zeros are written too: otherwise all untouched pages would map
/// to a single zero page, and the measurement would be wrong.
pub(super) fn allocate(len: usize, contents: Contents) -> Buffer {
    let buffer = Buffer::new(len);
    let mut page = [0; PAGE];
    if contents == Contents::Good {
        fill(&mut page);
    }
    for offset in (0..len).step_by(PAGE) {
        buffer.write_at(offset, &page[..PAGE.min(len - offset)]);
    }
    buffer
}

/// Adds to the first word of `slice`.
pub(super) fn damage_word(slice: &Slice, add: u64) {
    let mut word = [0; WORD];
    slice.read_at(0, &mut word);
    spoil(&mut word, add);
    slice.write_at(0, &word);
}

/// Checks the words of `slice`, then poisons the checked words.
pub(super) fn check(slice: &Slice, check: Check, order: Order) -> Result<(), Damage> {
    let mut result = Ok(());
    let mut poison = [0; PAGE];
    fill_poison(&mut poison);
    let mut page = [0; PAGE];
    for start in (0..slice.len()).step_by(PAGE) {
        let len = PAGE.min(slice.len() - start);
        let mut check_words = |at: usize, len: usize| {
            slice.read_at(at, &mut page[..len]);
            result = result.and_then(|()| verify(&page[..len], at, Check::FULL, order));
            slice.write_at(at, &poison[..len]);
        };
        match check {
            Check::FULL => check_words(start, len),
            Check::SIMPLE => {
                check_words(start, WORD.min(len));
                if len >= 2 * WORD {
                    check_words(start + len - WORD, WORD);
                }
            }
            _ => {}
        }
    }
    result
}

const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use fulmar_lnet_wire::selftest::{GOOD, POISON};

    use super::*;

    fn slice(contents: Contents) -> Slice {
        allocate(3 * PAGE + 24, contents).slice(..)
    }

    #[test]
    fn good_data_passes_once_and_is_poisoned() {
        for how in [Check::FULL, Check::SIMPLE] {
            let slice = slice(Contents::Good);
            assert_eq!(check(&slice, how, Order::Little), Ok(()));
            let again = check(&slice, how, Order::Little);
            assert_eq!(again, Err(Damage { offset: 0, got: POISON }));
        }
    }

    #[test]
    fn a_full_check_finds_any_damaged_word() {
        for at in [0, 8, PAGE, 2 * PAGE + 512, 3 * PAGE + 16] {
            let slice = slice(Contents::Good);
            damage_word(&slice.slice(at..at + WORD), 3);
            let found = check(&slice, Check::FULL, Order::Little);
            assert_eq!(found, Err(Damage { offset: at, got: GOOD + 3 }));
        }
    }
}
