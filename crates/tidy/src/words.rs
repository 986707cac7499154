//! Words that say "not done", silence a check, or name one person's machine.

use crate::Finding;

// Written in halves, so that this file may be checked too.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it, or leave it out"),
    (concat!("FIX", "ME"), "mend it"),
    (concat!("X", "XX"), "mend it"),
    (concat!("to", "do!("), "finish it, or leave it out"),
    (concat!("unimple", "mented!("), "finish it, or leave it out"),
    (concat!("#[ig", "nore"), "a test that does not run proves nothing"),
    (concat!("allow(de", "ad_code)"), "remove what nobody uses"),
    (concat!("allow(un", "used"), "remove what nobody uses"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/t", "mp/"), "take the directory that the system names"),
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

/// Returns whether `word` stands in `line` and is not part of a longer one: `mktemp` has its own
/// use for a row of X.
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
    fn longer_words_are_others() {
        let text = format!("mktemp a.{} MAS{} https://a.org", "X".repeat(6), concat!("TO", "DOR"));
        assert_eq!(check("a.sh", &text), []);
    }
}
