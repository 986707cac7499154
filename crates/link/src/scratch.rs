//! Namespaces and files of this process with unique names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::LinkError;
use crate::namespace::{NAMES, Namespace, ip, output};

/// The prefix of the names, before the id of the process.
const PREFIX: &str = "fulmar-lab-";

/// A prefix for names of network namespaces, and a directory. The directory is removed when this is
/// dropped. Namespaces and directories of processes that were killed are removed by the next
/// [`Scratch::new`].
#[derive(Debug)]
pub struct Scratch {
    tag: String,
    directory: PathBuf,
}

impl Scratch {
    /// Removes the remains of killed processes, and creates the directory.
    ///
    /// # Errors
    /// If network namespaces are not possible.
    pub fn new() -> Result<Self, LinkError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        check_allowed()?;
        let place = std::env::temp_dir();
        sweep(&place);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let tag = format!("{PREFIX}{}-{count}", std::process::id());
        let directory = place.join(&tag);
        std::fs::create_dir_all(&directory)
            .map_err(|error| LinkError::System { what: "cannot create a directory", error })?;
        Ok(Self { tag, directory })
    }

    /// Creates a network namespace.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn namespace(&self, name: &str) -> Result<Namespace, LinkError> {
        Namespace::new(format!("{}-{name}", self.tag))
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Checks that this process may create network namespaces.
///
/// # Errors
/// If not; the error says what to do.
pub fn check_allowed() -> Result<(), LinkError> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(LinkError::Command("network namespaces need root: run it with sudo".to_owned()))
    }
}

/// Removes the namespaces, and the directories in `directory`, of processes that have ended.
fn sweep(directory: &Path) {
    for name in left_behind(Path::new(NAMES)) {
        // Programs there should have ended with their parent, but a stopped one may not have.
        let list = output(Command::new("ip").args(["netns", "pids", &name]));
        for id in list.iter().flat_map(|list| list.lines()) {
            let _ = output(Command::new("kill").args(["-KILL", id]));
        }
        // Another process may remove them at the same time, here and below.
        let _ = ip(&["netns", "delete", &name]);
    }
    for name in left_behind(directory) {
        let _ = std::fs::remove_dir_all(directory.join(name));
    }
}

/// Returns the names that belong to processes that have ended.
fn left_behind(directory: &Path) -> impl Iterator<Item = String> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let process = process.filter(|id| id.parse::<u32>().is_ok());
        process.is_some_and(|id| !Path::new("/proc").join(id).exists())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remains_of_a_process_are_removed_after_its_end() {
        let ours = std::process::id();
        let place = std::env::temp_dir().join(format!("fulmar-sweep-{ours}"));
        // No process has the largest id.
        let (dead, alive) = (format!("{PREFIX}{}-0", u32::MAX), format!("{PREFIX}{ours}-0"));
        let kept = [alive, "fulmar-lab-notes-0".to_owned(), format!("other-{}-0", u32::MAX)];
        for name in kept.iter().chain([&dead]) {
            std::fs::create_dir_all(place.join(name)).unwrap();
            std::fs::write(place.join(name).join("log"), "words").unwrap();
        }
        sweep(&place);
        assert!(!place.join(&dead).exists());
        for name in &kept {
            assert!(place.join(name).join("log").exists(), "{name}");
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
