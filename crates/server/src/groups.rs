//! The groups of users as this machine knows them. Spec: mdt-ost §14.1.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fulmar_mdt::{Groups, groups_of_users};

/// The files of the system with its users and its groups.
const FILES: [&str; 2] = ["/etc/passwd", "/etc/group"];
/// How often they are looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// The longest one that is read.
const LEN_MAX: u64 = 64 << 20;

/// The groups of users in the files of the system, which are read again when they change.
#[derive(Debug)]
pub(crate) struct SystemGroups {
    files: [PathBuf; 2],
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    looked_at: Option<Instant>,
    /// Of each file the time of its last change and its length.
    versions: [Option<(SystemTime, u64)>; 2],
    groups: BTreeMap<u32, Arc<[u32]>>,
}

impl SystemGroups {
    pub(crate) fn new() -> Self {
        Self { files: FILES.map(PathBuf::from), state: Mutex::default() }
    }

    /// Returns the groups of a user at a time.
    fn at(&self, now: Instant, uid: u32) -> Option<Arc<[u32]>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked_at.is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL) {
            state.looked_at = Some(now);
            let versions = self.files.each_ref().map(|file| version(file));
            if versions != state.versions {
                let [users, groups] = self.files.each_ref().map(|file| content(file));
                state.groups = groups_of_users(&users, &groups);
                state.versions = versions;
            }
        }
        state.groups.get(&uid).cloned()
    }
}

impl Groups for SystemGroups {
    fn of(&self, uid: u32) -> Option<Arc<[u32]>> {
        self.at(Instant::now(), uid)
    }
}

fn version(file: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Returns the text of a file; nothing if there is none, or it is too long.
fn content(file: &Path) -> String {
    let is_short = fs::metadata(file).is_ok_and(|found| found.len() <= LEN_MAX);
    let bytes = if is_short { fs::read(file).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_when_they_have_changed() {
        let directory = std::env::temp_dir().join(format!("fulmar-groups-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let files = ["passwd", "group"].map(|name| directory.join(name));
        let known = SystemGroups { files: files.clone(), state: Mutex::default() };
        let begun = Instant::now();
        let of =
            |seconds| known.at(begun + Duration::from_secs(seconds), 5).map(|all| all.to_vec());
        assert_eq!(of(0), None, "there are no files");
        fs::write(&files[0], "ann:x:5:6::/:/bin/sh\n").unwrap();
        assert_eq!((of(0), of(1)), (None, Some(vec![6])));
        fs::write(&files[1], "build:x:7:ann\n").unwrap();
        assert_eq!(of(2), Some(vec![6, 7]));
        fs::remove_file(&files[0]).unwrap();
        assert_eq!(of(3), None);
        fs::remove_dir_all(&directory).unwrap();
    }
}
