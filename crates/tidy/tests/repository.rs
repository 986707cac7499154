//! Applies the rules to this repository.
#![allow(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

use fulmar_tidy::exceptions::Exceptions;
use fulmar_tidy::source::Source;
use fulmar_tidy::{
    Finding, crates, licences, map, offsets, pages, phrases, purity, repository, sizes, spec, words,
};

fn require_none(rules: &[&'static str], found: Vec<Finding>) {
    let exceptions = Exceptions::parse(&repository::read("crates/tidy/exceptions.toml"));
    let left = exceptions.apply(rules, found);
    let lines: Vec<String> = left.iter().map(|finding| format!("  {finding}\n")).collect();
    assert!(left.is_empty(), "\n{}", lines.concat());
}

fn check_texts(rules: &[&'static str], check: impl Fn(&str, &str) -> Vec<Finding>) {
    let texts = repository::texts();
    require_none(rules, texts.iter().flat_map(|(path, text)| check(path, text)).collect());
}

/// One test, as the sources are parsed for it: pure crates do no I/O, `unsafe` is only in its crates, only wire crates contain
/// byte offsets, and files and functions are short.
#[test]
fn every_source_keeps_the_rules() {
    let rules = ["purity", "unsafe", "offsets", "file-size", "function-size"];
    let checks = [purity::check, purity::check_unsafe, offsets::check, sizes::check];
    let check = |source: &Source| checks.iter().flat_map(|check| check(source)).collect::<Vec<_>>();
    require_none(&rules, repository::sources().iter().flat_map(check).collect());
}

#[test]
fn no_text_is_marked_as_unfinished() {
    check_texts(&["words"], words::check);
}

#[test]
fn no_text_has_a_banned_phrase() {
    check_texts(&["phrases"], phrases::check);
}

#[test]
fn the_page_of_terms_lists_every_banned_phrase() {
    let terms = repository::read("docs/terms.md").to_lowercase();
    let missing = |(phrase, _): &&(&str, &str)| !terms.contains(&format!("| {phrase} |"));
    let missing: Vec<_> = phrases::BANNED.iter().filter(missing).collect();
    assert!(missing.is_empty(), "add rows to docs/terms.md: {missing:?}");
}

#[test]
fn references_to_the_specification_resolve() {
    let sections = spec::sections(&repository::texts());
    assert!(!sections.is_empty(), "docs/spec has files");
    check_texts(&["spec"], |path, text| spec::check(path, text, &sections));
}

#[test]
fn the_map_of_crates_is_complete() {
    let packages = crates::packages(&repository::metadata(&["--no-deps"]));
    require_none(&["map"], map::check(&repository::read(map::PATH), &packages));
}

#[test]
fn the_map_of_crates_is_short() {
    require_none(&["pages"], pages::check_map(&repository::read(map::PATH)).into_iter().collect());
}

#[test]
fn every_crate_has_a_page() {
    let is_root = |path: &str| {
        let place = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
        place.is_some_and(|(_, rest)| rest == "src/lib.rs")
    };
    let texts = repository::texts();
    let roots = texts.iter().filter(|(path, _)| is_root(path));
    let found: Vec<_> = roots.filter_map(|(path, text)| pages::check_page(path, text)).collect();
    require_none(&["pages"], found);
}

#[test]
fn what_documents_name_exists() {
    let root = repository::root();
    check_texts(&["pages"], |path, text| pages::check_names(path, text, &root));
}

#[test]
fn every_dependency_has_a_purpose() {
    let list = repository::read(pages::DEPENDENCIES);
    require_none(&["pages"], pages::check_dependencies(&repository::read("Cargo.toml"), &list));
}

#[test]
fn crates_depend_only_on_lower_ones() {
    let packages = crates::packages(&repository::metadata(&["--no-deps"]));
    require_none(&["layers"], crates::check_layers(&packages));
}

#[test]
fn every_manifest_inherits_the_common_settings() {
    let packages = crates::packages(&repository::metadata(&["--no-deps"]));
    require_none(&["manifest"], packages.iter().flat_map(crates::check_manifest).collect());
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    // Only the dependencies of this platform: others may not have been downloaded.
    let platform = format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH);
    let allowed = licences::allowed(&repository::read("deny.toml"));
    require_none(&["licences"], licences::check(&repository::metadata(&[&platform]), &allowed));
}

#[test]
fn every_exception_is_of_a_known_rule() {
    let rules = ["purity", "unsafe", "offsets", "file-size", "function-size", "words"];
    let exceptions = Exceptions::parse(&repository::read("crates/tidy/exceptions.toml"));
    for exception in &exceptions.exception {
        assert!(rules.contains(&exception.rule.as_str()), "{exception:?}");
    }
}
