//! References to the specification name a section that exists.
//!
//! A reference is a file of `docs/spec` without `.md` and sections, such as `lnet-wire §2.4, §2.5`
//! or `lnet-behaviour §8.4 to §8.6`. In a file of `docs/spec` itself, a section without a file is
//! one of the same file.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;

const FOLDER: &str = "docs/spec/";

/// The sections of each file of the specification, by the file's name without `.md`.
pub type Sections = BTreeMap<String, BTreeSet<String>>;

/// Returns the numbers of the headings in each file of `docs/spec`.
pub fn sections(texts: &[(String, String)]) -> Sections {
    let files = texts.iter().filter_map(|(path, text)| Some((spec_name(path)?, text)));
    let headings = |text: &str| {
        let headings = text.lines().filter(|line| line.starts_with("##"));
        let numbers = headings.filter_map(|line| {
            let number = line.trim_start_matches('#').split_whitespace().next()?;
            Some(number.trim_end_matches('.').to_owned())
        });
        numbers.filter(|number| number.starts_with(|c: char| c.is_ascii_digit())).collect()
    };
    files.map(|(name, text)| (name.to_owned(), headings(text))).collect()
}

/// Returns the references of a text file that do not resolve. Of a Rust file only the comments are
/// read.
pub fn check(path: &str, text: &str, sections: &Sections) -> Vec<Finding> {
    let mut reader = Reader { path, sections, own: spec_name(path), file: None, found: vec![] };
    let mut is_start = true;
    let mut named = true;
    for (index, line) in text.lines().enumerate() {
        let content = if path.ends_with(".rs") { comment(line) } else { Some(line) };
        let Some(content) = content else {
            is_start = true;
            continue;
        };
        if std::mem::take(&mut is_start) {
            reader.file = None;
        }
        for word in content.split_whitespace() {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '§');
            if !named && reader.spec(bare).is_none() {
                reader.add(index, format!("Spec: {bare}: docs/spec has no such file"));
            }
            named = word != "Spec:" || !path.ends_with(".rs");
            reader.read(index, bare);
            if word.ends_with('.') {
                reader.file = None;
            }
        }
    }
    reader.found
}

struct Reader<'a> {
    path: &'a str,
    sections: &'a Sections,
    /// The specification that this file is.
    own: Option<&'a str>,
    /// The specification that the sentence has named.
    file: Option<&'a str>,
    found: Vec<Finding>,
}

impl<'a> Reader<'a> {
    fn spec(&self, word: &str) -> Option<&'a str> {
        let name = word.strip_suffix(".md").unwrap_or(word);
        self.sections.get_key_value(name).map(|(name, _)| name.as_str())
    }

    fn read(&mut self, index: usize, word: &'a str) {
        if let Some(file) = self.spec(word) {
            self.file = Some(file);
        }
        // Another document, whose sections are not ours to check.
        if word == "RFC" {
            self.file = Some("");
        }
        let Some(number) = word.strip_prefix('§') else { return };
        let number: String =
            number.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let Some(file) = self.file.or(self.own) else { return };
        let Some(known) = self.sections.get(file) else { return };
        if !known.contains(number.trim_end_matches('.')) {
            self.add(index, format!("docs/spec/{file}.md has no section {number}"));
        }
    }

    fn add(&mut self, index: usize, what: String) {
        self.found.push(Finding::new("spec", self.path, index + 1, what));
    }
}

fn spec_name(path: &str) -> Option<&str> {
    path.strip_prefix(FOLDER)?.strip_suffix(".md")
}

/// Returns what stands behind `//`, `///` or `//!`.
fn comment(line: &str) -> Option<&str> {
    let start = line.trim_start();
    let text = start.strip_prefix("//").or_else(|| Some(line.split_once(" // ")?.1))?;
    Some(text.trim_start_matches(['/', '!']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "# Wire\n\n## 2. NIDs\n### 2.1 Nets\n### 2.2 Text\n\nSee §2.1 and §9.\n";

    fn found(path: &str, text: &str) -> Vec<usize> {
        let texts = [("docs/spec/lnet-wire.md".to_owned(), SPEC.to_owned())];
        let found = check(path, text, &sections(&texts));
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_section_must_be_a_heading_of_its_file() {
        assert_eq!(found("a.rs", "//! NIDs. Spec: lnet-wire §2.1."), [0; 0]);
        assert_eq!(found("a.rs", "//! NIDs. Spec: lnet-wire §2.3."), [1]);
        assert_eq!(found("a.rs", "let a; // lnet-wire §7"), [1]);
    }

    #[test]
    fn lists_and_ranges_are_followed_over_lines() {
        let text = "/// Spec: lnet-wire §2.1, §2.2 to\n/// §2.9, 3.\n/// Other §5.\nfn f() {}";
        assert_eq!(found("a.rs", text), [2]);
    }

    #[test]
    fn a_reference_must_name_a_file_of_docs_spec() {
        assert_eq!(found("a.rs", "//! Spec: lnet-wires §2."), [1]);
        assert_eq!(found("a.rs", "//! Spec:\n//! lnet-wire §2."), [0; 0]);
    }

    #[test]
    fn sections_of_other_documents_and_strings_are_not_checked() {
        assert_eq!(found("a.rs", "// RFC 9438 §5.1, and lnet-wire §2."), [0; 0]);
        assert_eq!(found("a.rs", "let text = \"lnet-wire §9\";"), [0; 0]);
    }

    #[test]
    fn the_specification_refers_to_itself() {
        assert_eq!(found("docs/spec/lnet-wire.md", SPEC), [7]);
        assert_eq!(found("notes.md", "lnet-wire.md §2.2 and `lnet-wire` §3"), [1]);
    }
}
