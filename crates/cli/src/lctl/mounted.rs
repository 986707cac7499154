//! Parameters of what is mounted on this machine, which the processes of the mounts know.

use std::path::{Path, PathBuf};

use fulmar_base::Errno;
use fulmar_client::special::{PARAMETER, PARAMETERS};
use fulmar_control::show::Parameter;
use fulmar_text::pattern;

use crate::mounts::{attribute, mounts, set_attribute};

/// A parameter of a mount.
pub(super) struct Mounted {
    mount: PathBuf,
    /// Its name with slashes.
    path: String,
    parts: Vec<String>,
}

/// Returns the values of the parameters of all mounts that any of the patterns selects, as far as they are known.
pub(crate) fn read_all(patterns: &[&str]) -> Vec<Parameter> {
    let all = find_by(|parts| patterns.iter().any(|pattern| pattern::selects(pattern, parts)));
    all.iter().filter_map(|one| one.read().ok().flatten()).collect()
}

/// Returns the parameters of all mounts that a pattern selects.
pub(super) fn find(selected: &str) -> Vec<Mounted> {
    find_by(|parts| pattern::selects(selected, parts))
}

fn find_by(is_selected: impl Fn(&[String]) -> bool) -> Vec<Mounted> {
    let mut found = Vec::new();
    for mount in mounts() {
        for path in names(&mount) {
            let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
            if is_selected(&parts) {
                found.push(Mounted { mount: mount.clone(), path, parts });
            }
        }
    }
    found
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

impl Mounted {
    /// Its name with slashes.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Its name with dots.
    pub(super) fn name(&self) -> String {
        self.parts.join(".")
    }

    /// Returns it without its value.
    pub(super) fn unread(&self) -> Parameter {
        Parameter { name: self.parts.clone(), value: String::new() }
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
