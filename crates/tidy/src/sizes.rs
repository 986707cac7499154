//! Limits for the lengths of files and functions.

use crate::Finding;
use crate::source::Source;

/// The most lines of a file.
pub const FILE_MAX: usize = 600;
/// The most lines of a function, from `fn` to its closing brace.
pub const FUNCTION_MAX: usize = 70;

/// Returns the files and functions that are too long.
pub fn check(source: &Source) -> Vec<Finding> {
    let path = source.path.as_str();
    let mut found = vec![];
    if source.lines > FILE_MAX {
        let what = format!("{} lines, more than {FILE_MAX}: split it", source.lines);
        found.push(Finding { size: source.lines, ..Finding::new("file-size", path, 0, what) });
    }
    for function in source.functions.iter().filter(|function| function.lines > FUNCTION_MAX) {
        let (name, size) = (&function.name, function.lines);
        let what = format!("{name} has {size} lines, more than {FUNCTION_MAX}: split it");
        found.push(Finding { size, ..Finding::new("function-size", path, function.line, what) });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_files_and_functions_are_found_with_their_size() {
        let text = format!("fn f() {{{}}}\n{}", "\n".repeat(71), "\n".repeat(600));
        let found = check(&Source::parse("crates/a/src/lib.rs", &text));
        let sizes: Vec<_> = found.iter().map(|finding| (finding.rule, finding.size)).collect();
        assert_eq!(sizes, [("file-size", 672), ("function-size", 72)]);
    }

    #[test]
    fn sizes_at_the_limits_are_accepted() {
        let text = format!("fn f() {{{}}}{}", "\n".repeat(69), "\n".repeat(531));
        assert_eq!(check(&Source::parse("crates/a/src/lib.rs", &text)), []);
    }
}
