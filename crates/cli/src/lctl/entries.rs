//! What a pattern selects among the names of parameters: files, and the directories that they are in.

use fulmar_control::show::ParameterName;

/// A file, or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Vec<String>,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File { is_readable: bool, is_writable: bool },
}

impl Entry {
    /// Returns that of the first parts of a name.
    fn of(listed: &ParameterName, len: usize) -> Self {
        let ParameterName { name, is_readable, is_writable } = listed;
        let (is_readable, is_writable) = (*is_readable, *is_writable);
        let kind = if len == name.len() {
            Kind::File { is_readable, is_writable }
        } else {
            Kind::Directory
        };
        Self { name: name[..len].to_vec(), kind }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    pub(super) fn is_readable(&self) -> bool {
        matches!(self.kind, Kind::File { is_readable: true, .. })
    }

    pub(super) fn is_writable(&self) -> bool {
        matches!(self.kind, Kind::File { is_writable: true, .. })
    }

    /// Returns its name with dots.
    pub(super) fn full_name(&self) -> String {
        self.name.join(".")
    }

    /// Returns the character that shows of which kind it is, if any.
    pub(super) fn mark(&self) -> &'static str {
        match self.kind {
            Kind::Directory => "/",
            Kind::File { is_writable: true, .. } => "=",
            Kind::File { .. } => "",
        }
    }
}

/// Returns what a pattern selects, each once and in the order of the names. What is in a selected directory
/// comes after all else that is beside it.
pub(super) fn select(pattern: &str, names: &[ParameterName], is_recursive: bool) -> Vec<Entry> {
    let found = names.iter().flat_map(|one| one.selected(pattern).map(|len| Entry::of(one, len)));
    let mut entries = once(found);
    if is_recursive {
        let directories: Vec<Entry> =
            entries.iter().filter(|one| one.is_directory()).cloned().collect();
        for directory in directories {
            add_content(&directory, names, &mut entries);
        }
    }
    entries
}

fn add_content(directory: &Entry, names: &[ParameterName], entries: &mut Vec<Entry>) {
    let len = directory.name.len();
    let inside =
        names.iter().filter(|one| one.name.len() > len && one.name[..len] == directory.name);
    let content = once(inside.map(|one| Entry::of(one, len + 1)));
    entries.extend(content.iter().cloned());
    for below in content.iter().filter(|one| one.is_directory()) {
        add_content(below, names, entries);
    }
}

/// Returns each entry once.
fn once(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let mut seen = std::collections::BTreeSet::new();
    entries.filter(|one| seen.insert(one.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<ParameterName> {
        let listed = |name: &str, is_readable, is_writable| ParameterName {
            name: name.split('/').map(str::to_owned).collect(),
            is_readable,
            is_writable,
        };
        vec![
            listed("mdt/lv-MDT0000/exports/10.0.0.1@tcp/stats", true, true),
            listed("mdt/lv-MDT0000/md_stats", true, true),
            listed("mdt/lv-MDT0001/md_stats", true, false),
            listed("debug", true, true),
            listed("debug_marker", false, true),
            listed("routes", true, false),
        ]
    }

    fn selected(pattern: &str, is_recursive: bool) -> Vec<String> {
        let entries = select(pattern, &names(), is_recursive);
        entries.iter().map(|one| one.full_name() + one.mark()).collect()
    }

    #[test]
    fn a_pattern_selects_files_and_directories() {
        assert_eq!(selected("*", false), ["mdt/", "debug=", "debug_marker=", "routes"]);
        assert_eq!(selected("debug*", false), ["debug=", "debug_marker="]);
        assert_eq!(
            selected("mdt.*.*", false),
            ["mdt.lv-MDT0000.exports/", "mdt.lv-MDT0000.md_stats=", "mdt.lv-MDT0001.md_stats"]
        );
        assert_eq!(selected("none", true), [""; 0]);
    }

    #[test]
    fn directories_are_followed() {
        assert_eq!(
            selected("m*", true),
            [
                "mdt/",
                "mdt.lv-MDT0000/",
                "mdt.lv-MDT0001/",
                "mdt.lv-MDT0000.exports/",
                "mdt.lv-MDT0000.md_stats=",
                "mdt.lv-MDT0000.exports.10.0.0.1@tcp/",
                "mdt.lv-MDT0000.exports.10.0.0.1@tcp.stats=",
                "mdt.lv-MDT0001.md_stats",
            ]
        );
    }
}
