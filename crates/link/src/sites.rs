//! Two network namespaces with a link.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::counters::Counters;
use crate::error::LinkError;
use crate::line::Line;
use crate::link::{End, Link, Options};
use crate::namespace::{self, NAMES, Namespace};
use crate::tcp::Tcp;
use crate::units::UnitError;

/// The options of sites.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteOptions {
    /// Lower-case letters and digits. The namespaces are `fulmar-NAME-a` and `fulmar-NAME-b`.
    pub name: String,
    /// The name of the device in both.
    pub device: String,
    /// The addresses of each site.
    pub addresses: [Vec<String>; 2],
    /// The direction from A to B, and that from B to A.
    pub lines: [Line; 2],
    /// The longest IP packet.
    pub mtu: u16,
    /// The seed of random events.
    pub seed: u64,
    /// The TCP settings of both.
    pub tcp: Tcp,
}

/// Two namespaces and their link, which are removed when this is dropped: programs that still run
/// there get SIGHUP, and SIGKILL 0.2 s later. If the process is killed, its devices are removed at
/// once, and the namespaces when sites are created again.
pub struct Sites {
    link: Link,
    namespaces: [Namespace; 2],
    _claim: Claim,
}

const PREFIX: &str = "fulmar-";
/// The directory of the locks. The names of namespaces are in the same place: a process that sees
/// these sees the locks, in any network namespace.
const LOCKS: &str = "/run";
const SIDES: [&str; 2] = ["a", "b"];

impl Sites {
    /// Creates the namespaces and the link.
    ///
    /// # Errors
    /// If the name is in use, or the system refuses an operation.
    pub fn start(options: &SiteOptions) -> Result<Self, LinkError> {
        let name = &options.name;
        if !is_name(name) {
            return Err(LinkError::Value(UnitError(format!(
                "{name:?} is not a valid name: use 1 to 24 lower-case letters and digits"
            ))));
        }
        let claim = claim_swept(name)?;
        let namespaces = {
            let [a, b] = names_of(name);
            [Namespace::new(a)?, Namespace::new(b)?]
        };
        let end = |side: usize| End {
            namespace: namespaces[side].name().to_owned(),
            device: options.device.clone(),
            addresses: options.addresses[side].clone(),
        };
        let link = Link::start(&Options {
            ends: [end(0), end(1)],
            lines: options.lines,
            mtu: options.mtu,
            seed: options.seed,
        })?;
        for namespace in &namespaces {
            options.tcp.set(namespace.name())?;
        }
        Ok(Self { link, namespaces, _claim: claim })
    }

    /// Returns the names of the two namespaces.
    pub fn namespaces(&self) -> [&str; 2] {
        self.namespaces.each_ref().map(Namespace::name)
    }

    /// Returns the link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the counters of each direction.
    pub fn counters(&self) -> [Counters; 2] {
        self.link.counters()
    }

    /// Returns a command that runs a program at a site, 0 for A and 1 for B. The program is killed
    /// when the thread that starts it ends, so that no program is left in the namespace.
    ///
    /// # Panics
    /// If there is no such site.
    pub fn command(&self, side: usize, program: &Path) -> Command {
        self.namespaces[side].command(program)
    }
}

/// Returns whether a name is valid. It has no hyphen: names of other Fulmar tools have one.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=24).contains(&name.len()) && name.chars().all(fits)
}

fn names_of(name: &str) -> [String; 2] {
    SIDES.map(|side| format!("{PREFIX}{name}-{side}"))
}

fn lock_of(locks: &Path, name: &str) -> PathBuf {
    locks.join(format!("{PREFIX}sites-{name}.lock"))
}

/// A lock of this process. The kernel releases it when the process ends; the file stays until the
/// next clean-up.
struct Claim(File);

impl Claim {
    /// Acquires the lock of a file, as `how` says.
    fn take(file: &Path, how: FlockOperation) -> io::Result<Self> {
        // Only root can hold it.
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(file)?;
        flock(&file, how)?;
        Ok(Self(file))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A program that is being started has a copy of the file, which would keep the lock.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Claims a name for this process.
fn claim(locks: &Path, name: &str) -> Result<Claim, LinkError> {
    let file = lock_of(locks, name);
    Claim::take(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        match error.kind() {
            io::ErrorKind::WouldBlock => LinkError::NameTaken { name: name.to_owned() },
            _ => LinkError::Lock { file, error },
        }
    })
}

/// Claims a name, after the remains of ended runs were removed.
fn claim_swept(name: &str) -> Result<Claim, LinkError> {
    // The clean-up holds other names for a short time, so that only one process at a time may clean
    // up and claim: a name that is then locked belongs to sites.
    let file = Path::new(LOCKS).join(format!("{PREFIX}sites.lock"));
    let _alone = Claim::take(&file, FlockOperation::LockExclusive)
        .map_err(|error| LinkError::Lock { file, error })?;
    sweep();
    let claim = claim_soon(Path::new(LOCKS), name)?;
    remove(name);
    Ok(claim)
}

/// Claims a name that may be locked for a moment: a program that was being started when its run was
/// killed has a copy of the lock until it runs.
fn claim_soon(locks: &Path, name: &str) -> Result<Claim, LinkError> {
    let start = Instant::now();
    loop {
        match claim(locks, name) {
            Err(LinkError::NameTaken { .. }) if start.elapsed() < HELD_ON_MAX => {
                std::thread::sleep(HELD_ON_MAX / 50);
            }
            result => return result,
        }
    }
}

/// The limit of that time.
const HELD_ON_MAX: Duration = Duration::from_millis(500);

/// Removes the namespaces and locks of ended runs.
fn sweep() {
    let locks = Path::new(LOCKS);
    for name in left(Path::new(NAMES), locks) {
        // No running process can hold the name at the same time.
        if let Ok(_claim) = claim(locks, &name) {
            remove(&name);
            // Only one process cleans up: no other has opened the file and waits for its lock.
            let _ = std::fs::remove_file(lock_of(locks, &name));
        }
    }
}

/// Returns the names of sites that have a namespace or a lock.
fn left(namespaces: &Path, locks: &Path) -> BTreeSet<String> {
    let files = |place| std::fs::read_dir(place).into_iter().flatten().flatten();
    let namespaces = files(namespaces).filter_map(|file| {
        let file = file.file_name().into_string().ok()?;
        let (name, side) = file.strip_prefix(PREFIX)?.rsplit_once('-')?;
        SIDES.contains(&side).then(|| name.to_owned())
    });
    let locks = files(locks).filter_map(|file| {
        let file = file.file_name().into_string().ok()?;
        let name = file.strip_prefix(PREFIX)?.strip_prefix("sites-")?.strip_suffix(".lock")?;
        Some(name.to_owned())
    });
    namespaces.chain(locks).filter(|name| is_name(name)).collect()
}

fn remove(name: &str) {
    for name in names_of(name) {
        if Path::new(NAMES).join(&name).exists() {
            namespace::remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_owner_at_a_time() {
        let locks = std::env::temp_dir().join(format!("fulmar-locks-{}", std::process::id()));
        std::fs::create_dir(&locks).unwrap();
        let first = claim(&locks, "site").unwrap();
        let error = claim(&locks, "site").err().unwrap();
        assert!(error.to_string().contains("choose another --name"), "{error}");
        assert!(claim(&locks, "other").is_ok());
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(first);
        });
        assert!(claim_soon(&locks, "site").is_ok(), "the lock is available a moment later");
        later.join().unwrap();
        std::fs::remove_dir_all(&locks).unwrap();
        let error = claim(&locks, "site").err().unwrap().to_string();
        assert!(error.contains("fulmar-sites-site.lock"), "{error}");
    }

    #[test]
    fn remains_are_found_by_their_namespaces_and_locks() {
        let place = std::env::temp_dir().join(format!("fulmar-left-{}", std::process::id()));
        let [namespaces, locks] = ["netns", "locks"].map(|name| place.join(name));
        assert!(left(&namespaces, &locks).is_empty());
        std::fs::create_dir_all(&namespaces).unwrap();
        std::fs::create_dir_all(&locks).unwrap();
        let names = ["fulmar-one-a", "fulmar-one-b", "fulmar-lab-12-a", "fulmar-x", "other-a"];
        names.iter().for_each(|name| drop(File::create(namespaces.join(name)).unwrap()));
        let _held = claim(&locks, "one").unwrap();
        let _too = claim(&locks, "two").unwrap();
        let names = ["fulmar-sites.lock", "other.lock"];
        names.iter().for_each(|name| drop(File::create(locks.join(name)).unwrap()));
        assert_eq!(left(&namespaces, &locks).into_iter().collect::<Vec<_>>(), ["one", "two"]);
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn only_names_of_sites_are_removed() {
        assert!(is_name("site") && is_name("wan7"));
        for name in ["", "lab-12", "Site", "a/b", "../x", "abcdefghijklmnopqrstuvwxyz"] {
            assert!(!is_name(name), "{name}");
        }
        assert_eq!(names_of("site"), ["fulmar-site-a", "fulmar-site-b"]);
    }
}
