//! Tests of filling and verifying.

use super::*;

const PAGE: usize = 4096;

fn good(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes);
    bytes
}

/// Returns whether a word at `at` of `len` bytes is checked.
fn is_checked(len: usize, at: usize, offset: usize, check: Check) -> bool {
    let mut bytes = good(len);
    bytes[at + 3] ^= 0x40;
    let got = GOOD ^ 0x4000_0000;
    match verify(&bytes, offset, check, Order::Little) {
        Ok(()) => false,
        Err(damage) => {
            assert_eq!(damage, Damage { offset: offset + at, got });
            true
        }
    }
}

fn checked(len: usize, offset: usize, check: Check) -> Vec<usize> {
    (0..len).step_by(WORD).filter(|at| is_checked(len, *at, offset, check)).collect()
}

#[test]
fn good_data_pass_every_check_and_poison_fails_every_real_one() {
    let mut bytes = good(2 * PAGE + 512);
    assert_eq!(bytes[..8], [0xb3, 0xee, 0xb2, 0xee, 0xb1, 0xee, 0xb0, 0xee]);
    let damage = |bytes: &[u8], check| verify(bytes, 0, check, Order::Little);
    for check in Check::KNOWN {
        assert_eq!(damage(&bytes, *check), Ok(()), "{check:?}");
    }
    fill_poison(&mut bytes);
    for check in [Check::NONE, Check::DISCARD, Check(9)] {
        assert_eq!(damage(&bytes, check), Ok(()), "{check:?}");
    }
    for check in [Check::SIMPLE, Check::FULL] {
        assert_eq!(damage(&bytes, check), Err(Damage { offset: 0, got: POISON }), "{check:?}");
    }
}

#[test]
fn data_of_the_other_byte_order_are_good_in_their_own() {
    let bytes = GOOD.to_be_bytes().repeat(PAGE / WORD + 3);
    for check in [Check::SIMPLE, Check::FULL] {
        assert_eq!(verify(&bytes, 0, check, Order::Big), Ok(()));
        let got = GOOD.swap_bytes();
        assert_eq!(verify(&bytes, 0, check, Order::Little), Err(Damage { offset: 0, got }));
        let little = good(PAGE);
        assert_eq!(verify(&little, 0, check, Order::Big), Err(Damage { offset: 0, got: GOOD }));
    }
}

#[test]
fn a_full_check_compares_every_word() {
    for len in [8, 16, PAGE, PAGE + 8, 2 * PAGE + 256] {
        assert_eq!(checked(len, 0, Check::FULL).len(), len / WORD);
    }
    assert_eq!(checked(512, PAGE - 256, Check::FULL).len(), 64);
}

#[test]
fn a_simple_check_compares_the_ends_of_each_page() {
    let ends = |len, offset| checked(len, offset, Check::SIMPLE);
    assert_eq!(ends(8, 0), [0]);
    assert_eq!(ends(64, 0), [0, 56]);
    assert_eq!(ends(PAGE, 0), [0, 4088]);
    assert_eq!(ends(PAGE, 5 * PAGE), [0, 4088]);
    assert_eq!(ends(2 * PAGE + 16, 0), [0, 4088, 4096, 8184, 8192, 8200]);
    assert_eq!(ends(PAGE + 8, 0), [0, 4088, 4096]);
    // Parts that begin inside a page.
    assert_eq!(ends(PAGE - 64, 64), [PAGE - 72]);
    assert_eq!(ends(PAGE, PAGE - 8), [0, 8, PAGE - 8]);
    assert_eq!(ends(128, 8), [120]);
    assert_eq!(ends(8, PAGE - 8), [0]);
}

#[test]
fn the_first_damage_is_reported() {
    let mut bytes = good(3 * PAGE);
    for at in [5000, 9000, 8184] {
        bytes[at] ^= 1;
    }
    let damage = |check| verify(&bytes, 3 * PAGE, check, Order::Little).unwrap_err().offset;
    assert_eq!(damage(Check::FULL), 3 * PAGE + 5000);
    assert_eq!(damage(Check::SIMPLE), 3 * PAGE + 8184);
}

#[test]
fn incomplete_words_are_not_checked() {
    for check in [Check::SIMPLE, Check::FULL] {
        for len in 0..8 {
            assert_eq!(verify(&vec![1; len], 0, check, Order::Little), Ok(()));
            assert_eq!(verify(&vec![1; len], 16, check, Order::Little), Ok(()));
        }
    }
}

#[test]
fn a_spoilt_word_is_found() {
    let mut bytes = good(16);
    spoil(&mut bytes[8..], u64::MAX);
    let found = verify(&bytes, 0, Check::FULL, Order::Little);
    assert_eq!(found, Err(Damage { offset: 8, got: GOOD - 1 }));
    spoil(&mut bytes[12..], 1);
    assert_eq!(bytes[12..], good(16)[12..], "an incomplete word is not changed");
}
