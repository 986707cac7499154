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
    ("nobody", "the node, user or operation that is meant"),
    ("patience", "timeout"),
];

/// Where a phrase is the right word: the user and the group `nobody` of Unix.
const ALLOWED: &[(&str, &str)] =
    &[("nobody", "crates/nodemap/"), ("nobody", "crates/ost/tests/ost/nodemaps.rs")];

/// How documentation may not begin: a method handles, acquires, removes, records or sets something.
const TAKES: [&str; 2] = ["/// Takes ", "//! Takes "];

/// Files that list the phrases.
const LISTS: &[&str] = &["crates/tidy/src/phrases.rs", "docs/terms.md"];

/// Returns the banned phrases of a Rust file, a document, a script or a Makefile.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let is_checked =
        [".rs", ".md", ".sh"].iter().any(|end| path.ends_with(end)) || path.ends_with("Makefile");
    if !is_checked || LISTS.contains(&path) {
        return vec![];
    }
    let is_allowed = |phrase: &str| {
        ALLOWED.iter().any(|(word, place)| *word == phrase && path.starts_with(place))
    };
    let mut found = vec![];
    for (index, line) in text.lines().enumerate() {
        if TAKES.iter().any(|start| line.trim_start().starts_with(start)) {
            let what = "\"Takes\": write Handles, Acquires, Removes, Records or Sets";
            found.push(Finding::new("phrases", path, index + 1, what));
        }
        // A name such as `to_and_fro` holds the phrase too.
        let line = line.to_lowercase().replace('_', " ");
        let is_banned = |phrase: &str| has_phrase(&line, phrase) && !is_allowed(phrase);
        for (phrase, instead) in BANNED.iter().filter(|(phrase, _)| is_banned(phrase)) {
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
    fn documentation_says_what_a_method_does() {
        assert_eq!(check("a.rs", "    /// Takes the reply.").len(), 1);
        assert_eq!(check("a.rs", "    // Takes a while."), []);
        assert_eq!(check("a.rs", "/// Handles the reply."), []);
    }

    #[test]
    fn the_account_of_unix_may_be_named() {
        assert_eq!(check("crates/nodemap/src/nodemap.rs", "const NOBODY: u32 = 65534;"), []);
        assert_eq!(check("crates/node/src/lib.rs", "const NOBODY: u32 = 65534;").len(), 1);
    }

    #[test]
    fn longer_words_and_other_files_are_not_checked() {
        assert_eq!(check("a.rs", "let untoldable = 1;"), []);
        assert_eq!(check("a.rs", "fn an_untold_error() {}").len(), 1);
        assert_eq!(check("a.rs", "// There is no number."), []);
        assert_eq!(check("a.txt", "untold"), []);
    }
}
