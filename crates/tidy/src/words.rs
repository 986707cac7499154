//! Words that mark unfinished code, disable a check, or name the paths of one machine.

use crate::Finding;

// Written in two parts, so that this file can be checked too.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it, or remove it"),
    (concat!("FIX", "ME"), "fix it"),
    (concat!("X", "XX"), "fix it"),
    (concat!("to", "do!("), "finish it, or remove it"),
    (concat!("unimple", "mented!("), "finish it, or remove it"),
    (concat!("#[ig", "nore"), "run every test"),
    (concat!("allow(de", "ad_code)"), "remove unused code"),
    (concat!("allow(un", "used"), "remove unused code"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/t", "mp/"), "use the temporary directory of the system"),
];

/// Returns the banned words of a text file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut found = vec![];
    for (index, line) in text.lines().enumerate() {
        for (word, advice) in BANNED.iter().filter(|(word, _)| has_word(line, word)) {
            found.push(Finding::new("words", path, index + 1, format!("{word}: {advice}")));
        }
    }
    found
}

/// Returns whether `line` contains `word`, not as part of a longer word: templates of `mktemp` have
/// a row of X.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let joins_before = word.starts_with(is_part) && line[..at].ends_with(is_part);
        let joins_after = word.ends_with(is_part) && line[at + word.len()..].starts_with(is_part);
        !joins_before && !joins_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_banned_word_is_found() {
        for (word, _) in BANNED {
            assert_eq!(check("a.rs", &format!("let a; // {word} x")).len(), 1, "{word}");
        }
    }

    #[test]
    fn longer_words_are_not_found() {
        let text = format!("mktemp a.{} MAS{} https://a.org", "X".repeat(6), concat!("TO", "DOR"));
        assert_eq!(check("a.sh", &text), []);
    }
}
