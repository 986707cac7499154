//! Exceptions from the rules, with their reasons.

use serde::Deserialize;

use crate::Finding;

/// The content of `exceptions.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    /// The entries.
    #[serde(default)]
    pub exception: Vec<Exception>,
}

/// One entry: findings of `rule` in `path` are accepted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Exception {
    pub rule: String,
    pub path: String,
    pub reason: String,
    /// For rules about sizes: the most lines.
    #[serde(default)]
    pub max: usize,
}

impl Exceptions {
    /// Parses the file.
    ///
    /// # Panics
    /// If it is not valid, or an entry has no reason.
    pub fn parse(text: &str) -> Self {
        let exceptions: Self = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        for exception in &exceptions.exception {
            assert!(!exception.reason.trim().is_empty(), "{} has no reason", exception.path);
        }
        exceptions
    }

    /// Returns the findings of `rules` that no entry accepts, and the entries of `rules` that are
    /// unused: the list only shrinks.
    pub fn apply(&self, rules: &[&'static str], found: Vec<Finding>) -> Vec<Finding> {
        let accepts = |entry: &Exception, finding: &Finding| {
            let same = entry.rule == finding.rule && entry.path == finding.path;
            same && finding.size <= entry.max
        };
        let unused = self.exception.iter().filter_map(|entry| {
            let rule = rules.iter().find(|rule| **rule == entry.rule)?;
            let unused = !found.iter().any(|finding| accepts(entry, finding));
            unused.then(|| Finding::new(rule, &entry.path, 0, "remove this unused exception"))
        });
        let mut left: Vec<Finding> = unused.collect();
        left.extend(
            found
                .into_iter()
                .filter(|finding| !self.exception.iter().any(|entry| accepts(entry, finding))),
        );
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[exception]]
        rule = "file-size"
        path = "a.rs"
        max = 700
        reason = "one table"
    "#;

    fn left(size: usize) -> usize {
        let finding = Finding { size, ..Finding::new("file-size", "a.rs", 0, "") };
        Exceptions::parse(TEXT).apply(&["file-size"], vec![finding]).len()
    }

    #[test]
    fn a_file_may_shrink_but_not_grow_past_its_exception() {
        assert_eq!(left(700), 0);
        // The finding, and the exception that does not cover it.
        assert_eq!(left(701), 2);
    }

    #[test]
    fn an_unused_exception_is_found() {
        let exceptions = Exceptions::parse(TEXT);
        assert_eq!(exceptions.apply(&["file-size"], vec![]).len(), 1);
        assert_eq!(exceptions.apply(&["words"], vec![]).len(), 0);
    }
}
