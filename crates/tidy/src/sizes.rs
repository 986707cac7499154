//! Files and functions stay short enough to read.

use crate::Finding;
use crate::source::Source;

/// Lines that a file may have.
pub const FILE_MAX: usize = 600;
/// Lines that a function may have, from `fn` to its closing brace.
pub const FUNCTION_MAX: usize = 70;

/// Returns what is too long.
pub fn check(source: &Source) -> Vec<Finding> {
    let path = source.path.as_str();
    let mut found = vec![];
    if source.lines > FILE_MAX {
        let what = format!("{} lines; split it before it passes {FILE_MAX}", source.lines);
        found.push(Finding { size: source.lines, ..Finding::new("file-size", path, 0, what) });
    }
    for function in source.functions.iter().filter(|function| function.lines > FUNCTION_MAX) {
        let (name, size) = (&function.name, function.lines);
        let what = format!("{name} has {size} lines; {FUNCTION_MAX} fit a screen");
        found.push(Finding { size, ..Finding::new("function-size", path, function.line, what) });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_found_with_its_size() {
        let text = format!("fn f() {{{}}}\n{}", "\n".repeat(71), "\n".repeat(600));
        let found = check(&Source::parse("crates/a/src/lib.rs", &text));
        let sizes: Vec<_> = found.iter().map(|finding| (finding.rule, finding.size)).collect();
        assert_eq!(sizes, [("file-size", 672), ("function-size", 72)]);
    }

    #[test]
    fn the_limits_themselves_are_fine() {
        let text = format!("fn f() {{{}}}{}", "\n".repeat(69), "\n".repeat(531));
        assert_eq!(check(&Source::parse("crates/a/src/lib.rs", &text)), []);
    }
}
