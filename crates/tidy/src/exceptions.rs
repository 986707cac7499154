//! What the rules let pass, and why.

use serde::Deserialize;

use crate::Finding;

/// The contents of `exceptions.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    /// All of them.
    #[serde(default)]
    pub exception: Vec<Exception>,
}

/// One entry: what `rule` finds in `path` is let pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Exception {
    pub rule: String,
    pub path: String,
    pub reason: String,
    /// For sizes: up to so many lines.
    #[serde(default)]
    pub max: usize,
}

impl Exceptions {
    /// Reads the file.
    ///
    /// # Panics
    /// If it is not what it should be.
    pub fn parse(text: &str) -> Self {
        let exceptions: Self = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        for exception in &exceptions.exception {
            assert!(!exception.reason.trim().is_empty(), "{} has no reason", exception.path);
        }
        exceptions
    }

    /// Returns the findings of `rules` that no entry excuses, and the entries for them that excuse
    /// nothing: the list only shrinks.
    pub fn apply(&self, rules: &[&'static str], found: Vec<Finding>) -> Vec<Finding> {
        let excuses = |entry: &Exception, finding: &Finding| {
            let same = entry.rule == finding.rule && entry.path == finding.path;
            same && finding.size <= entry.max
        };
        let idle = self.exception.iter().filter_map(|entry| {
            let rule = rules.iter().find(|rule| **rule == entry.rule)?;
            let idle = !found.iter().any(|finding| excuses(entry, finding));
            idle.then(|| Finding::new(rule, &entry.path, 0, "this exception is needed no more"))
        });
        let mut left: Vec<Finding> = idle.collect();
        left.extend(
            found
                .into_iter()
                .filter(|finding| !self.exception.iter().any(|entry| excuses(entry, finding))),
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
        // The size that is too big, and the exception that does not cover it.
        assert_eq!(left(701), 2);
    }

    #[test]
    fn an_exception_that_excuses_nothing_is_found() {
        let exceptions = Exceptions::parse(TEXT);
        assert_eq!(exceptions.apply(&["file-size"], vec![]).len(), 1);
        assert_eq!(exceptions.apply(&["words"], vec![]).len(), 0);
    }
}
