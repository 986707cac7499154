//! What kernel servers return instead of what the model says. The files are the same after it.

use fulmar_base::Errno;

use super::operation::Operation;
use super::outcome::{Expectation, Outcome};
use super::words::Access;

/// Returns the operation that is executed instead of one that kernel clients do wrong. Those append by `O_DIRECT` only the first
/// stripe at the end, and leave a hole before the next one.
pub(super) fn instead_of(operation: &Operation) -> Operation {
    let mut operation = operation.clone();
    if let Operation::Open { access: Access { append: true, direct, .. }, .. } = &mut operation {
        *direct = false;
    }
    operation
}

/// Returns whether an outcome is what kernel servers are known to return.
pub(super) fn admit(operation: &Operation, expected: &Expectation, found: &Outcome) -> bool {
    let is_expected = |errno| *expected == Expectation::Outcome(Outcome::Failed(errno));
    match operation {
        // Those on ZFS do not look whether it was there.
        Operation::RemoveXattr { .. } => *found == Outcome::Done && is_expected(Errno::ENODATA),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_not_direct() {
        let instead = |text: &str| instead_of(&text.parse().unwrap()).to_string();
        assert_eq!(instead("open h0 /f0 wacd wide"), "open h0 /f0 wac wide");
        assert_eq!(instead("open h0 /f0 wcd wide"), "open h0 /f0 wcd wide");
    }

    #[test]
    fn an_attribute_that_is_missing_may_be_removed() {
        let expected = Expectation::Outcome(Outcome::Failed(Errno::ENODATA));
        let of = |text: &str| text.parse::<Operation>().unwrap();
        let remove = of("removexattr /f0 user.a");
        assert!(admit(&remove, &expected, &Outcome::Done));
        assert!(!admit(
            &remove,
            &Expectation::Outcome(Outcome::Failed(Errno::ENOENT)),
            &Outcome::Done
        ));
        assert!(!admit(&remove, &expected, &Outcome::Failed(Errno::ENOENT)));
        assert!(!admit(&of("getxattr /f0 user.a"), &expected, &Outcome::Done));
    }
}
