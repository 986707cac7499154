//! Two network namespaces joined by a link.

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

/// What sites are to be like.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteOptions {
    /// Small letters and digits. The namespaces are `fulmar-NAME-a` and `fulmar-NAME-b`.
    pub name: String,
    /// The name of the device in both.
    pub device: String,
    /// The addresses of either.
    pub addresses: [Vec<String>; 2],
    /// The direction from A to B, and that from B to A.
    pub lines: [Line; 2],
    /// The longest IP packet.
    pub mtu: u16,
    /// What chance does.
    pub seed: u64,
    /// What TCP is to be like in both.
    pub tcp: Tcp,
}

/// Two namespaces and their link. All of it goes when this goes: what still runs there gets SIGHUP,
/// and SIGKILL if it has not ended 0.2 s later. When the process is killed its devices go at once,
/// and the names when somebody makes sites again.
pub struct Sites {
    link: Link,
    namespaces: [Namespace; 2],
    _claim: Claim,
}

const PREFIX: &str = "fulmar-";
/// Where the locks are. The names of namespaces are kept there too: who sees these sees the locks,
/// in whichever network namespace that is.
const LOCKS: &str = "/run";
const SIDES: [&str; 2] = ["a", "b"];

impl Sites {
    /// Makes the namespaces and the link.
    ///
    /// # Errors
    /// If the name is taken, and what the system refused.
    pub fn start(options: &SiteOptions) -> Result<Self, LinkError> {
        let name = &options.name;
        if !is_name(name) {
            return Err(LinkError::Value(UnitError(format!(
                "{name:?} is no name for sites: it is 1 to 24 small letters and digits"
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

    /// Returns what each direction has carried so far.
    pub fn counters(&self) -> [Counters; 2] {
        self.link.counters()
    }

    /// Returns a command that runs a program at a site, 0 for A and 1 for B. The program is killed
    /// when the thread that starts it ends, so that nothing is left in the namespace.
    ///
    /// # Panics
    /// If there is no such site.
    pub fn command(&self, side: usize, program: &Path) -> Command {
        self.namespaces[side].command(program)
    }
}

/// Names without a hyphen: those of other tools of ours have one.
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

/// A lock that this process holds. The kernel takes it back when the process is gone, however it
/// went; the file stays until somebody sweeps.
struct Claim(File);

impl Claim {
    /// Takes the lock of that file, if `how` lets it.
    fn take(file: &Path, how: FlockOperation) -> io::Result<Self> {
        // Nobody but root can hold it.
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(file)?;
        flock(&file, how)?;
        Ok(Self(file))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A program that is being started has a copy of the file for a moment, which would hold on.
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

/// Claims a name, after all that runs which are no more have left was removed.
fn claim_swept(name: &str) -> Result<Claim, LinkError> {
    // Who sweeps holds the names of others for a while, so that it is one at a time who sweeps and
    // claims: a name that is held then is held by sites.
    let file = Path::new(LOCKS).join(format!("{PREFIX}sites.lock"));
    let _alone = Claim::take(&file, FlockOperation::LockExclusive)
        .map_err(|error| LinkError::Lock { file, error })?;
    sweep();
    let claim = claim_soon(Path::new(LOCKS), name)?;
    remove(name);
    Ok(claim)
}

/// Claims a name that may be held for a moment more: a program that was being started when its run
/// was killed has a copy of the lock until it runs.
fn claim_soon(locks: &Path, name: &str) -> Result<Claim, LinkError> {
    let begun = Instant::now();
    loop {
        match claim(locks, name) {
            Err(LinkError::NameTaken { .. }) if begun.elapsed() < HELD_ON_MAX => {
                std::thread::sleep(HELD_ON_MAX / 50);
            }
            result => return result,
        }
    }
}

/// How long that may be.
const HELD_ON_MAX: Duration = Duration::from_millis(500);

/// Removes the namespaces and locks of runs that are no more.
fn sweep() {
    let locks = Path::new(LOCKS);
    for name in left(Path::new(NAMES), locks) {
        // Nobody who lives can hold the name while this does.
        if let Ok(_claim) = claim(locks, &name) {
            remove(&name);
            // Who sweeps is alone: nobody has opened the file and waits for its lock.
            let _ = std::fs::remove_file(lock_of(locks, &name));
        }
    }
}

/// Returns the names of sites of which there is a namespace or a lock.
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
    fn a_name_is_held_by_one_at_a_time() {
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
        assert!(claim_soon(&locks, "site").is_ok(), "what was held on to is had a moment later");
        later.join().unwrap();
        std::fs::remove_dir_all(&locks).unwrap();
        let error = claim(&locks, "site").err().unwrap().to_string();
        assert!(error.contains("fulmar-sites-site.lock"), "{error}");
    }

    #[test]
    fn what_is_left_is_known_by_its_namespaces_and_locks() {
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
    fn only_names_of_ours_are_swept() {
        assert!(is_name("site") && is_name("wan7"));
        for name in ["", "lab-12", "Site", "a/b", "../x", "abcdefghijklmnopqrstuvwxyz"] {
            assert!(!is_name(name), "{name}");
        }
        assert_eq!(names_of("site"), ["fulmar-site-a", "fulmar-site-b"]);
    }
}
