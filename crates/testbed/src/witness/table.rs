//! Every invariant of lnet-behaviour §17 with the checks named after it, over real sockets in
//! network namespaces. The table itself is `checks.txt`.

use fulmar_sim::check::table::{Guard, guard};

/// Returns the checks of every invariant.
///
/// # Panics
/// If a row of `checks.txt` is not a number, a file and a name.
pub fn guards() -> Vec<Guard> {
    let rows = include_str!("checks.txt").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        let row = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        words.next().is_none().then(|| guard(row.0, row.1, row.2))
    };
    rows.map(|line| row(line).unwrap_or_else(|| panic!("checks.txt: {line:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use fulmar_sim::check::table::unguarded;

    use super::*;

    const FILES: [(&str, &str); 13] = [
        ("witness/answers", include_str!("answers.rs")),
        ("witness/arrivals", include_str!("arrivals.rs")),
        ("witness/credits", include_str!("credits.rs")),
        ("witness/discovery", include_str!("discovery.rs")),
        ("witness/operations", include_str!("operations.rs")),
        ("node/check", include_str!("../../../node/src/check.rs")),
        ("witness/transits", include_str!("transits.rs")),
        ("invariants/credits", include_str!("../../tests/testbed/invariants/credits.rs")),
        ("invariants/faults", include_str!("../../tests/testbed/invariants/faults.rs")),
        ("invariants/operations", include_str!("../../tests/testbed/invariants/operations.rs")),
        ("invariants/peers", include_str!("../../tests/testbed/invariants/peers.rs")),
        ("invariants/rails", include_str!("../../tests/testbed/invariants/rails.rs")),
        ("invariants/routers", include_str!("../../tests/testbed/invariants/routers.rs")),
    ];

    fn is_scenario(guard: &Guard) -> bool {
        guard.file.starts_with("invariants/")
    }

    #[test]
    fn every_invariant_has_a_check_that_exists() {
        let guards = guards();
        assert_eq!(unguarded(&guards, &FILES), None);
        for Guard { number, file, check } in guards.iter().filter(|guard| is_scenario(guard)) {
            let (_, text) = FILES.iter().find(|(name, _)| name == file).expect("it was found");
            // A function that is neither a test nor called by one checks nothing.
            let called = text.matches(&format!("{check}(")).count() > 1;
            let is_test = text.contains(&format!("#[test]\nfn {check}("));
            assert!(is_test || called, "{number}: {check} in {file} is never called");
        }
    }
}
