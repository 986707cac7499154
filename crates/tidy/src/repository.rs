//! The files of the repository, and the output of `cargo metadata`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::source::Source;

/// Directories with generated files.
const GENERATED: &[&str] = &[
    ".git",
    "target",
    "fuzz/target",
    "models/target",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/coverage",
];

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", root.display()))
}

/// Returns every text file as its path, relative to the root, and its content.
pub fn texts() -> Vec<(String, String)> {
    let mut found = vec![];
    walk(&root(), "", &mut found);
    found.sort();
    found
}

/// Returns every Rust file.
pub fn sources() -> Vec<Source> {
    let rust = texts().into_iter().filter(|(path, _)| path.ends_with(".rs"));
    rust.map(|(path, text)| Source::parse(&path, &text)).collect()
}

/// Returns the content of the file at `path`, relative to the root of the repository.
///
/// # Panics
/// If it cannot be read.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the output of `cargo metadata`.
///
/// # Panics
/// If cargo fails; the message has its standard error.
pub fn metadata(arguments: &[&str]) -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("cargo metadata: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("cargo metadata: {error}"))
}

fn walk(dir: &Path, prefix: &str, found: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries.flatten() {
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if GENERATED.contains(&path.as_str()) {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), &format!("{path}/"), found),
            // Files that are not text are not checked, and symbolic links are not followed.
            Ok(kind) if kind.is_file() => {
                found.extend(fs::read_to_string(entry.path()).ok().map(|text| (path, text)));
            }
            _ => {}
        }
    }
}
