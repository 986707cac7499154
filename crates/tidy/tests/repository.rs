//! The rules, put to this repository.
#![allow(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

use fulmar_tidy::exceptions::Exceptions;
use fulmar_tidy::source::Source;
use fulmar_tidy::{Finding, crates, licences, offsets, purity, repository, sizes, words};

fn require_none(rules: &[&'static str], found: Vec<Finding>) {
    let exceptions = Exceptions::parse(&repository::read("crates/tidy/exceptions.toml"));
    let left = exceptions.apply(rules, found);
    let lines: Vec<String> = left.iter().map(|finding| format!("  {finding}\n")).collect();
    assert!(left.is_empty(), "\n{}", lines.concat());
}

fn check_sources(rules: &[&'static str], check: impl Fn(&Source) -> Vec<Finding>) {
    require_none(rules, repository::sources().iter().flat_map(check).collect());
}

#[test]
fn pure_crates_cannot_observe_the_world() {
    check_sources(&["purity"], purity::check);
}

#[test]
fn unsafe_has_one_home() {
    check_sources(&["unsafe"], purity::check_unsafe);
}

#[test]
fn only_wire_crates_know_byte_offsets() {
    check_sources(&["offsets"], offsets::check);
}

#[test]
fn files_and_functions_are_short() {
    check_sources(&["file-size", "function-size"], sizes::check);
}

#[test]
fn no_text_says_that_it_is_unfinished() {
    let texts = repository::texts();
    require_none(
        &["words"],
        texts.iter().flat_map(|(path, text)| words::check(path, text)).collect(),
    );
}

#[test]
fn crates_know_only_lower_ones() {
    let packages = crates::packages(&repository::metadata(&["--no-deps"]));
    require_none(&["layers"], crates::check_layers(&packages));
}

#[test]
fn every_manifest_inherits_what_all_share() {
    let packages = crates::packages(&repository::metadata(&["--no-deps"]));
    require_none(&["manifest"], packages.iter().flat_map(crates::check_manifest).collect());
}

#[test]
fn every_dependency_has_a_licence_that_we_may_use() {
    // Only what this platform is built of: the rest may never have been downloaded.
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
