//! Parameters of what is mounted on this machine, which the processes of the mounts know.

use std::path::{Path, PathBuf};

use fulmar_base::Errno;
use fulmar_client::special::{DEBUG_LOG, PARAMETER, PARAMETERS};
use fulmar_control::show::{Parameter, ParameterName};
use fulmar_text::pattern;

use crate::context::Context;
use crate::mounts::{attribute, mounts, set_attribute};

/// The files of a mount that cannot be set.
const READ_ONLY: [&str; 5] =
    ["cur_dirty_bytes", "cur_grant_bytes", "import", "lock_count", "lock_unused_count"];

/// The parameter of a mount that marks its debug log.
const MARKER: &str = "debug_marker";

/// A parameter of a mount.
pub(super) struct MountParameter {
    mount: PathBuf,
    /// Its name with slashes.
    path: String,
    parts: Vec<String>,
}

/// Returns the parameters of all mounts.
pub(super) fn all() -> Vec<MountParameter> {
    mounts().into_iter().flat_map(of_mount).collect()
}

/// Returns the parameters of a mount.
fn of_mount(mount: PathBuf) -> Vec<MountParameter> {
    let named = |path: String| {
        let parts = path.split('/').map(str::to_owned).collect();
        MountParameter { mount: mount.clone(), path, parts }
    };
    names(&mount).into_iter().map(named).collect()
}

/// Returns the mounts whose debug logs a command of lctl is about.
pub(super) fn with_log(context: &Context) -> Vec<PathBuf> {
    if context.is_node_named { Vec::new() } else { mounts() }
}

/// Removes and returns the lines of the debug log of a mount; none of one whose process is gone.
pub(super) fn take_log(mount: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    while let Ok(part) = attribute(mount, DEBUG_LOG) {
        if part.is_empty() {
            break;
        }
        let part = String::from_utf8_lossy(&part);
        lines.extend(part.split_inclusive('\n').map(str::to_owned));
    }
    lines
}

/// Marks the debug log of a mount, or empties it.
///
/// # Errors
/// EPERM for others than the superuser.
pub(super) fn mark_log(mount: &Path, text: &str) -> Result<(), Errno> {
    set_attribute(mount, &[PARAMETER, MARKER.as_bytes()].concat(), Some(text.as_bytes()))
}

/// Returns the values of the parameters of all mounts that any of the patterns selects, as far as they are known.
pub(crate) fn read_all(patterns: &[&str]) -> Vec<Parameter> {
    let is_selected = |one: &&MountParameter| {
        patterns.iter().any(|pattern| pattern::selects(pattern, &one.parts))
    };
    all().iter().filter(is_selected).filter_map(|one| one.read().ok().flatten()).collect()
}

/// Returns the names of all parameters of a mount; none of one whose process is gone.
fn names(mount: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let from = [PARAMETERS, names.len().to_string().as_bytes()].concat();
        let Ok(more) = attribute(mount, &from) else { return names };
        let more = String::from_utf8_lossy(&more);
        if more.is_empty() {
            return names;
        }
        names.extend(more.lines().map(str::to_owned));
    }
}

impl MountParameter {
    /// Its name with slashes.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Its name with dots.
    pub(super) fn name(&self) -> String {
        self.parts.join(".")
    }

    /// The parts of its name.
    pub(super) fn parts(&self) -> &[String] {
        &self.parts
    }

    pub(super) fn is_selected(&self, pattern: &str) -> bool {
        pattern::selects(pattern, &self.parts)
    }

    /// Returns what can be done with it.
    pub(super) fn listed(&self) -> ParameterName {
        let file = self.parts.last().map(String::as_str).unwrap_or_default();
        let (is_readable, is_writable) = (file != MARKER, !READ_ONLY.contains(&file));
        ParameterName { name: self.parts.clone(), is_readable, is_writable }
    }

    /// Returns it with its value; `None` if it is not known at the moment.
    pub(super) fn read(&self) -> Result<Option<Parameter>, Errno> {
        match attribute(&self.mount, &self.attribute()) {
            Ok(value) => {
                let value = String::from_utf8_lossy(&value).into_owned();
                Ok(Some(Parameter { name: self.parts.clone(), value }))
            }
            Err(Errno::ENODATA) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Sets it.
    pub(super) fn set(&self, value: &str) -> Result<(), Errno> {
        set_attribute(&self.mount, &self.attribute(), Some(value.as_bytes()))
    }

    fn attribute(&self) -> Vec<u8> {
        [PARAMETER, self.path.as_bytes()].concat()
    }
}
