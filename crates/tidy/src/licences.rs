//! Every dependency has an allowed licence.

use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::Finding;

/// Returns the licences that `deny.toml` allows.
///
/// # Panics
/// If the text has no such list.
pub fn allowed(deny: &str) -> Vec<String> {
    let deny: toml::Table = deny.parse().unwrap_or_else(|error| panic!("deny.toml: {error}"));
    let list = deny["licenses"]["allow"].as_array().expect("deny.toml lists licences");
    list.iter().filter_map(|licence| licence.as_str().map(str::to_owned)).collect()
}

/// Returns the packages that `cargo metadata` lists and whose licence is not among `allowed`.
pub fn check(metadata: &Value, allowed: &[String]) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let found = packages.filter_map(|package| {
        let licence = package["license"].as_str().unwrap_or("");
        let what = format!("{} {} has licence {licence:?}", package["name"], package["version"]);
        let refused = !permits(licence, allowed);
        refused.then(|| Finding::new("licences", "Cargo.lock", 0, what))
    });
    found.collect()
}

fn permits(licence: &str, allowed: &[String]) -> bool {
    // Old crates write `MIT/Apache-2.0`; the lax mode reads it as a choice.
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else { return false };
    expression.evaluate(|requirement| allowed.contains(&requirement.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_with_or_and_and_are_understood() {
        let allowed = allowed("[licenses]\nallow = [\"MIT\", \"Unicode-3.0\"]");
        assert!(permits("MIT OR Apache-2.0", &allowed));
        assert!(permits("MIT/Apache-2.0", &allowed));
        assert!(permits("(GPL-2.0-only OR MIT) AND Unicode-3.0", &allowed));
        assert!(!permits("MIT AND GPL-2.0-only", &allowed));
        assert!(!permits("GPL-2.0-only", &allowed));
        assert!(!permits("", &allowed));
    }
}
