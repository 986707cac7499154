//! Phrases that are not plain English, and what to write instead. `docs/terms.md` lists them too.

use crate::Finding;

/// Banned phrases, and what to write instead. Matched as whole words, in either case.
pub const BANNED: &[(&str, &str)] = &[
    ("untold", "unreported"),
    ("seldom", "rate limited, rarely"),
    ("foretell", "predict"),
    ("foretells", "predicts"),
    ("knock at", "connect to, probe"),
    ("is no number", "is not a number"),
    ("is no multiple", "is not a multiple"),
    ("hold to account", "blame"),
    ("needed no more", "no longer needed"),
    ("let be", "not changed, not checked"),
    ("manieth", "n-th, attempt"),
    ("yardstick", "baseline"),
    ("canary", "injected fault, deliberate defect"),
    ("stranger", "unknown peer"),
    ("the mend", "the fix, the remedy"),
    ("heals", "recovers"),
    ("far end", "remote host, remote side"),
    ("far host", "remote host"),
    ("cannot be had", "is not available, cannot be opened"),
    ("can be had", "is available"),
    ("is no size", "is not a valid size"),
    ("is no name", "is not a valid name"),
    ("is no address", "is not an address"),
    ("is no network", "is not a network"),
    ("as it should be", "as expected, correct"),
    ("stands still", "is paused"),
    ("held to account", "blamed"),
    ("answered for", "answered"),
    ("by and by", "later, gradually"),
    ("to and fro", "both ways"),
];

/// Files that list the phrases.
const LISTS: &[&str] = &["crates/tidy/src/phrases.rs", "docs/terms.md"];

/// Returns the banned phrases of a Rust file, a document, a script or a Makefile.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let is_checked =
        [".rs", ".md", ".sh"].iter().any(|end| path.ends_with(end)) || path.ends_with("Makefile");
    if !is_checked || LISTS.contains(&path) {
        return vec![];
    }
    let mut found = vec![];
    for (index, line) in text.lines().enumerate() {
        // A name such as `to_and_fro` holds the phrase too.
        let line = line.to_lowercase().replace('_', " ");
        for (phrase, instead) in BANNED.iter().filter(|(phrase, _)| has_phrase(&line, phrase)) {
            let what = format!("{phrase:?}: write {instead}");
            found.push(Finding::new("phrases", path, index + 1, what));
        }
    }
    found
}

/// Returns whether the line contains the phrase, not as part of a longer word.
fn has_phrase(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        // "There is no number" is plain English, "x is no number" is not.
        let is_plain = phrase.starts_with("is no ") && line[..at].ends_with("there ");
        !is_plain
            && !line[..at].ends_with(char::is_alphanumeric)
            && !line[at + phrase.len()..].starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_banned_phrase_is_found_in_either_case() {
        for (phrase, _) in BANNED {
            assert_eq!(check("a.rs", &format!("// It {phrase}.")).len(), 1, "{phrase}");
            assert_eq!(check("a.md", &phrase.to_uppercase()).len(), 1, "{phrase}");
        }
    }

    #[test]
    fn longer_words_and_other_files_are_not_checked() {
        assert_eq!(check("a.rs", "let untoldable = 1;"), []);
        assert_eq!(check("a.rs", "fn an_untold_error() {}").len(), 1);
        assert_eq!(check("a.rs", "// There is no number."), []);
        assert_eq!(check("a.txt", "untold"), []);
    }
}
