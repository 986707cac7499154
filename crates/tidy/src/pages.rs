//! What explains the code exists and says where things are: a page for each crate, the map, and
//! what documents name.

use std::path::Path;

use crate::Finding;
use crate::map;

/// The most bytes of the map.
pub const MAP_MAX: usize = 14_336;
/// The fewest lines of documentation at the top of a crate.
pub const PAGE_MIN: usize = 12;
/// The file with the purpose of each dependency.
pub const DEPENDENCIES: &str = "docs/decisions/dependencies.md";

/// Documents whose references to files are checked, and the folder of more of them.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
const DECISIONS: &str = "docs/decisions/";
/// A word that begins so, or ends with `.md`, names a file or a folder.
const FOLDERS: &[&str] = &["crates/", "docs/", "scripts/", "fuzz/", "models/", "packaging/"];

/// Returns a finding if the map is too long to be read at once.
pub fn check_map(text: &str) -> Option<Finding> {
    let what = || {
        let advice = "move what explains one crate to the top of its src/lib.rs";
        format!("{} bytes, more than {MAP_MAX}: {advice}", text.len())
    };
    (text.len() > MAP_MAX).then(|| Finding::new("pages", map::PATH, 0, what()))
}

/// Returns a finding if the root file of a crate has no page at its top.
pub fn check_page(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().take_while(|line| line.starts_with("//!")).count();
    let what = || {
        format!(
            "{lines} lines of documentation at the top, fewer than {PAGE_MIN}: explain the crate"
        )
    };
    (lines < PAGE_MIN).then(|| Finding::new("pages", path, 0, what()))
}

/// Returns the files and folders that a document names and that are not below `root`; and of rows
/// such as ``| `crates/net/src/rx.rs` `step` |`` the functions that are not in the file.
pub fn check_names(path: &str, text: &str, root: &Path) -> Vec<Finding> {
    if !DOCUMENTS.contains(&path) && !path.starts_with(DECISIONS) {
        return vec![];
    }
    let mut found = vec![];
    for (index, line) in text.lines().enumerate() {
        let mut add = |what: String| found.push(Finding::new("pages", path, index + 1, what));
        for name in names(line).filter(|name| !root.join(name).exists()) {
            add(format!("there is no {name}"));
        }
        let Some((file, function)) = place(line) else { continue };
        let source = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        if !source.contains(&format!("fn {function}")) {
            add(format!("{file} has no function {function}"));
        }
    }
    found
}

/// Returns the dependencies of the workspace that have no purpose in the list.
pub fn check_dependencies(manifest: &str, list: &str) -> Vec<Finding> {
    let manifest: toml::Table =
        manifest.parse().unwrap_or_else(|error| panic!("Cargo.toml: {error}"));
    let dependencies = manifest["workspace"]["dependencies"].as_table();
    let foreign =
        dependencies.into_iter().flatten().filter(|(_, value)| value.get("path").is_none());
    let missing = foreign.filter(|(name, _)| !list.contains(&format!("`{name}`")));
    let what = |name: &str| format!("add a row with the purpose of {name}");
    missing.map(|(name, _)| Finding::new("pages", DEPENDENCIES, 0, what(name))).collect()
}

/// Returns the words of a line that name a file or a folder of the repository.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c.is_whitespace() || "`|()\"".contains(c));
    let words = words.map(|word| word.trim_end_matches(['.', ',', ';', ':', '/']));
    words.filter(|word| {
        let is_name = FOLDERS.iter().any(|folder| word.starts_with(folder));
        let is_document = word.ends_with(".md") && !word.contains(':');
        (is_name || is_document) && !word.contains(['*', '<', '…', '$', '{'])
    })
}

/// Returns the file and the function that a row of a table begins with.
fn place(line: &str) -> Option<(&str, &str)> {
    let (file, rest) = line.strip_prefix("| `")?.split_once('`')?;
    let (function, _) = rest.strip_prefix(" `")?.split_once('`')?;
    file.ends_with(".rs").then_some((file, function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::root;

    fn found(text: &str) -> Vec<String> {
        let found = check_names("ARCHITECTURE.md", text, &root());
        found.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_long_map_is_found() {
        assert_eq!(check_map(&"x".repeat(MAP_MAX)), None);
        assert!(check_map(&"x".repeat(MAP_MAX + 1)).is_some());
    }

    #[test]
    fn a_crate_without_a_page_is_found() {
        let page = "//! Line.\n".repeat(PAGE_MIN);
        assert_eq!(check_page("crates/a/src/lib.rs", &page), None);
        let short = "//! Line.\n".repeat(PAGE_MIN - 1) + "\n//! Later.";
        assert!(check_page("crates/a/src/lib.rs", &short).is_some());
    }

    #[test]
    fn names_of_files_that_are_gone_are_found() {
        assert_eq!(
            found("See `crates/tidy/src/pages.rs`, docs/terms.md, and CONTRIBUTING.md."),
            [""; 0]
        );
        assert_eq!(
            found("See (`crates/tidy/src/gone.rs`)."),
            ["there is no crates/tidy/src/gone.rs"]
        );
        assert_eq!(found("See docs/gone.md."), ["there is no docs/gone.md"]);
        assert_eq!(found("A family has `tests/CRATE/main.rs`, and `crates/*`."), [""; 0]);
    }

    #[test]
    fn functions_that_are_gone_are_found() {
        assert_eq!(found("| `crates/tidy/src/pages.rs` `check_map` | checks |"), [""; 0]);
        let gone = "crates/tidy/src/pages.rs has no function check_gone";
        assert_eq!(found("| `crates/tidy/src/pages.rs` `check_gone` | checks |"), [gone]);
    }

    #[test]
    fn a_dependency_without_a_purpose_is_found() {
        let manifest = "[workspace.dependencies]\na = { path = \"a\" }\nslab = \"1\"\ntoml = \"1\"";
        let found = check_dependencies(manifest, "| `slab` | net | tables |");
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("toml"));
    }
}
