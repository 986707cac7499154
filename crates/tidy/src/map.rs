//! The map of crates in ARCHITECTURE.md is complete and in the order of dependencies.

use crate::Finding;
use crate::crates::Package;
use crate::purity::PURE;

/// The file that holds the map.
pub const PATH: &str = "ARCHITECTURE.md";
const HEADING: &str = "## The map";

/// Returns what is wrong in the map: a crate without a row, a row without a crate, a crate with
/// two rows, a dependency below its user, or a wrong entry in the column `pure`.
pub fn check(text: &str, packages: &[Package]) -> Vec<Finding> {
    let rows = rows(text);
    let mut found = vec![];
    let mut add = |line: usize, what: String| found.push(Finding::new("map", PATH, line, what));
    for (at, row) in rows.iter().enumerate() {
        if rows[..at].iter().any(|other| other.name == row.name) {
            add(row.line, format!("{} has two rows", row.name));
        }
        if !packages.iter().any(|package| package.name == row.name) {
            add(row.line, format!("{} is not a crate: remove its row", row.name));
        }
        if row.is_pure != PURE.contains(&row.name) {
            add(row.line, format!("{}: the column pure differs from PURE in tidy", row.name));
        }
    }
    for package in packages {
        let place = |name: &str| rows.iter().position(|row| row.name == name);
        let Some(own) = place(&package.name) else {
            add(0, format!("{} has no row in the map of crates", package.name));
            continue;
        };
        for name in &package.dependencies {
            if place(name).is_some_and(|other| other > own) {
                add(rows[own].line, format!("{} uses {name}: move it below", package.name));
            }
        }
    }
    found
}

struct Row<'a> {
    name: &'a str,
    is_pure: bool,
    line: usize,
}

/// Reads the rows whose first cell is a name in backquotes, of the first table below the heading.
fn rows(text: &str) -> Vec<Row<'_>> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEADING);
    let table = lines.skip_while(|(_, line)| !line.starts_with('|'));
    let rows = table.take_while(|(_, line)| line.starts_with('|')).filter_map(|(index, line)| {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some(Row { name, is_pure: cells.next()? == "yes", line: index + 1 })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &str) -> Vec<usize> {
        let text =
            format!("# A\n\n## The map\n\n| crate | pure |\n|---|---|\n{rows}\n\n| `x` | |\n");
        let package = |name: &str, dependencies: &[&str]| Package {
            name: name.into(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        };
        let packages = [package("base", &[]), package("net", &["base"])];
        check(&text, &packages).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_crate_has_one_row_below_its_dependencies() {
        assert_eq!(found("| `base` | yes |\n| `net` | no |"), [0; 0]);
        assert_eq!(found("| `net` | no |\n| `base` | yes |"), [7]);
        assert_eq!(found("| `base` | yes |"), [0]);
        assert_eq!(found("| `base` | yes |\n| `net` | no |\n| `net` | no |"), [9]);
        assert_eq!(found("| `base` | yes |\n| `net` | no |\n| `gone` | no |"), [9]);
    }

    #[test]
    fn the_column_pure_follows_the_rule_of_purity() {
        assert_eq!(found("| `base` | no |\n| `net` | yes |"), [7, 8]);
    }
}
