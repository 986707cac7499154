//! Which modes exclude each other. Spec: ptlrpc-ldlm-mgs §20.

use fulmar_lustre_wire::ldlm::LockMode;

/// What may be granted beside the mode of each bit, of those that clients may ask for. Two group locks
/// are compatible only if they have the same group: see the policy of each type.
const COMPATIBLE: [u32; 7] = {
    let [ex, pw, pr, cw, cr, nl, group] = [1, 2, 4, 8, 16, 32, 64];
    [
        nl,
        nl | cr,
        nl | cr | pr,
        nl | cr | cw,
        nl | cr | cw | pr | pw,
        nl | cr | cw | pr | pw | ex | group,
        nl | group,
    ]
};

/// How many modes clients may ask for: those of the lowest bits.
pub(crate) const COUNT: usize = COMPATIBLE.len();

/// Returns whether a mode is one that clients may ask for.
pub(crate) fn is_valid(mode: LockMode) -> bool {
    mode.0.is_power_of_two() && mode.0 >> COUNT == 0
}

/// Returns whether two locks of these modes may be granted on the same part of a resource. False for
/// modes that are not valid.
pub fn are_compatible(a: LockMode, b: LockMode) -> bool {
    is_valid(a) && is_valid(b) && COMPATIBLE[a.0.trailing_zeros() as usize] & b.0 != 0
}

/// Returns whether the holder of a lock of mode `held` may do what `wanted` allows.
pub(crate) fn covers(held: LockMode, wanted: LockMode) -> bool {
    let allows = |mode| match mode {
        LockMode::EX => &[LockMode::EX, LockMode::PW, LockMode::PR, LockMode::CW, LockMode::CR][..],
        LockMode::PW => &[LockMode::PW, LockMode::PR, LockMode::CW, LockMode::CR],
        LockMode::PR => &[LockMode::PR, LockMode::CR],
        LockMode::CW => &[LockMode::CW, LockMode::CR],
        LockMode::CR => &[LockMode::CR],
        LockMode::GROUP => &[LockMode::GROUP],
        _ => &[],
    };
    wanted == LockMode::NL && is_valid(held) || allows(held).contains(&wanted)
}

#[cfg(test)]
mod tests {
    use super::LockMode as M;
    use super::*;

    fn valid() -> impl Iterator<Item = LockMode> {
        (0..COUNT).map(|bit| LockMode(1 << bit))
    }

    #[test]
    fn compatibility_is_the_same_in_both_directions() {
        for (a, b) in valid().flat_map(|a| valid().map(move |b| (a, b))) {
            assert_eq!(are_compatible(a, b), are_compatible(b, a), "{a:?} and {b:?}");
        }
    }

    #[test]
    fn modes_have_the_compatibility_of_the_table_of_the_specification() {
        let expected = [
            (M::EX, &[M::NL][..]),
            (M::PW, &[M::NL, M::CR]),
            (M::PR, &[M::NL, M::CR, M::PR]),
            (M::CW, &[M::NL, M::CR, M::CW]),
            (M::CR, &[M::NL, M::CR, M::CW, M::PR, M::PW]),
            (M::NL, &[M::NL, M::CR, M::CW, M::PR, M::PW, M::EX, M::GROUP]),
            (M::GROUP, &[M::NL, M::GROUP]),
        ];
        for (a, others) in expected {
            for b in valid() {
                assert_eq!(are_compatible(a, b), others.contains(&b), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn what_is_not_one_mode_of_a_client_is_not_valid() {
        for mode in [M(0), M(3), M::COS, M::TXN, M(1 << 31)] {
            assert!(
                !is_valid(mode) && !are_compatible(mode, M::NL) && !are_compatible(M::NL, mode)
            );
        }
        assert!(valid().all(is_valid));
    }

    #[test]
    fn a_mode_that_covers_another_excludes_all_that_the_other_excludes() {
        for (held, wanted) in valid().flat_map(|a| valid().map(move |b| (a, b))) {
            if !covers(held, wanted) || held == LockMode::GROUP {
                continue;
            }
            for other in valid().filter(|&mode| !are_compatible(wanted, mode)) {
                assert!(!are_compatible(held, other), "{held:?}, {wanted:?}, {other:?}");
            }
        }
    }
}
