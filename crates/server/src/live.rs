//! Targets that are started and stopped while their node runs.
//!
//! The commands are `fulmar target start|stop`. `Serving` is a handle to them all; `Roster` lists
//! what is served now, for the parameters, the changelogs, `lctl dl` and the administrator of the
//! MGS, all by weak references. The number of a target (`TargetId`) is never used twice, so what
//! comes late for a target that is gone (a commit, work that is done, a command of an operation)
//! meets nothing.
//!
//! ```text
//! start: open the directory ─► partitions of its kind, if they are the first ─► add: Starting ─► restore exports, recover ─► Open ─► join
//! stop:  Stopping: ENODEV ─► leave the file system ─► operations end, 5 s at most ─► remove ─► commit ─► close the store: its lock is free
//! ```
//!
//! A target that stops refuses everything with ENODEV, as one that is not there does, so clients
//! keep what they have and connect again until it is back; they are *not* evicted, and stay on its
//! disk. Operations that wait for locks are not waited for: no client can give those up any more.
//! `Targets::remove` drops what is left of its operations with its locks;
//! `rpc::Server::remove_target` takes its exports, callbacks, difficult replies and recovery, and
//! answers what was under way with ENODEV, after LNet has released the memory of bulk data. What
//! those had applied is on disk or is lost, as after a crash; the clients repeat it, and saved
//! replies tell the difference. Partitions stay open when the last target of their kind is gone, so
//! that clients get ENODEV at once. The thread that joins a file system, and those of the OSTs of
//! an MDT, may be waiting for another server: `client::Interrupter` ends that, and they disconnect
//! within 6 s. Each start is a start as any other: the next instance for the management service, a
//! recovery of the clients that are on disk. All starts and stops are one after the other; what the
//! other targets do does not wait for them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_rpc::export::TargetId;
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::TargetState;
use fulmar_store::StoreError;
use thiserror::Error;
use tracing::{info, warn};

use crate::devices::UnservedDirectory;
use crate::open_target::OpenError;
use crate::roster::is_same;
use crate::serve::{Inner, ServeError, Serving, State, TargetResources};
use crate::storage::{self, StorageError};

/// Why a target is not started or stopped.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// The node stops, or has failed.
    #[error("the node serves nothing any more: it stops")]
    Ended,
    /// It is served already.
    #[error("{} is served already, as {}", directory.display(), names.join(", "))]
    Served {
        /// The directory.
        directory: PathBuf,
        /// Its targets.
        names: Vec<String>,
    },
    /// Directories cannot be used.
    #[error("{}{}", lines(failed), also(started))]
    Refused {
        /// Which, and why.
        failed: Vec<UnservedDirectory>,
        /// The error number of the first.
        errno: Errno,
        /// The targets beside them, which are served.
        started: Vec<String>,
    },
    /// The node has no such target.
    #[error("the node does not serve {what}. It serves {}", listed(known))]
    Unknown {
        /// What was asked for.
        what: String,
        /// What is served.
        known: Vec<String>,
    },
    /// It is not served any more, but its store could not be closed.
    #[error(
        "{name} is not served any more, but {} is not free yet: work on it does not end. Look at its disk",
        directory.display()
    )]
    Busy {
        /// The target.
        name: String,
        /// Its directory.
        directory: PathBuf,
    },
    /// The system refuses.
    #[error(transparent)]
    System(#[from] ServeError),
}

/// How long operations of a target may take that stops.
const OPERATIONS: Duration = Duration::from_secs(5);
/// How long its store may take to be closed: less than callers of the control socket wait.
const CLOSE: Duration = Duration::from_secs(40);
/// How often an end is looked for.
const PAUSE: Duration = Duration::from_millis(5);

impl ChangeError {
    /// Returns its number.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Ended => Errno::ESHUTDOWN,
            Self::Served { .. } => Errno::EALREADY,
            Self::Refused { errno, .. } => *errno,
            Self::Unknown { .. } => Errno::ENODEV,
            Self::Busy { .. } => Errno::EBUSY,
            Self::System(_) => Errno::EAGAIN,
        }
    }
}

impl Serving {
    /// Starts the targets in a directory, those of a directory with several as far as they are not served
    /// yet. Returns their names.
    ///
    /// # Errors
    /// Why one is not served.
    pub fn start_targets(&self, directory: &Path) -> Result<Vec<String>, ChangeError> {
        let inner = &self.0;
        let mut state = inner.state();
        let state = state.as_mut().ok_or(ChangeError::Ended)?;
        let served = inner.roster.served();
        let of = |part: &PathBuf| {
            let found = served.iter().find(|(_, one)| is_same(&one.device.directory, part));
            found.map(|(_, one)| one.device.name.clone())
        };
        let parts = storage::parts_of(directory);
        let names: Vec<String> = parts.iter().filter_map(of).collect();
        let wanted: Vec<PathBuf> = parts.into_iter().filter(|part| of(part).is_none()).collect();
        if wanted.is_empty() {
            return Err(ChangeError::Served { directory: directory.to_owned(), names });
        }
        let (opened, failed) = inner.open(&wanted);
        let started: Vec<String> = opened.iter().map(|one| one.label.to_string()).collect();
        inner.install(state, opened)?;
        let Some(errno) = failed.first().map(|(_, error)| errno_of(error)) else {
            return Ok(started);
        };
        let failed: Vec<UnservedDirectory> =
            failed.into_iter().map(|(one, _)| explained(one)).collect();
        failed.iter().for_each(|one| inner.roster.explain_unserved(one));
        Err(ChangeError::Refused { failed, errno, started })
    }

    /// Stops the targets that an administrator means: by a name or a UUID, or by the directory of one or of
    /// several. Their clients wait for them. Returns their names, or the directories that were to be
    /// served and are not.
    ///
    /// # Errors
    /// If there is none, or the store of one cannot be closed.
    pub fn stop_targets(&self, name: &str, directory: &Path) -> Result<Vec<String>, ChangeError> {
        let inner = &self.0;
        let mut state = inner.state();
        let state = state.as_mut().ok_or(ChangeError::Ended)?;
        let mut meant = inner.roster.meant(name, directory);
        // An MDT takes leave of OSTs, and all of the MGS.
        meant.sort_by_key(|(_, listed)| match listed.kind {
            TargetKind::Mdt => 0,
            TargetKind::Ost => 1,
            _ => 2,
        });
        let is_named = meant.iter().any(|(_, one)| one.device.is_named(name));
        let mut stopped: Vec<String> =
            if is_named { vec![] } else { inner.roster.forget_unserved(directory) };
        if meant.is_empty() && stopped.is_empty() {
            let served = inner.roster.served().into_iter();
            let known = served.map(|(_, listed)| listed.device.name).collect();
            return Err(ChangeError::Unknown { what: name.to_owned(), known });
        }
        let mut result = Ok(());
        for (target, listed) in meant {
            let (name, directory) = (listed.device.name, listed.device.directory);
            if inner.close(state, target, &name) {
                stopped.push(name)
            } else {
                result = Err(ChangeError::Busy { name, directory })
            }
        }
        result.map(|()| stopped)
    }
}

impl Inner {
    /// Stops a target. Returns whether its directory is free.
    fn close(&self, state: &mut State, target: TargetId, name: &str) -> bool {
        info!("{name} stops, and its clients wait for it");
        // A node that has failed serves nothing.
        let _ = self.running.call(|targets, now| {
            targets.with_server(now, |server| server.set_state(target, TargetState::Stopping));
        });
        let hosted = state.hosted.remove(&target).map(|mut hosted| {
            // It disconnects from other servers.
            drop(hosted.joining.take());
            hosted
        });
        let begun = Instant::now();
        while !self.running.call(|targets, _| targets.is_drained(target)).unwrap_or(true) {
            if begun.elapsed() > OPERATIONS {
                warn!("{name} stops before all of its operations have ended: clients repeat them");
                break;
            }
            sleep(PAUSE);
        }
        self.remove(target);
        let is_free = hosted.is_none_or(|hosted| hosted.close(name));
        if is_free {
            info!("{name} has stopped")
        } else {
            warn!("{name} is not served any more, but work on its disk does not end")
        }
        is_free
    }
}

impl TargetResources {
    /// Commits what is left, and closes the store. Returns whether that was possible in time; a disk that
    /// hangs keeps a thread, and not the caller.
    fn close(self, name: &str) -> bool {
        let (closed, closing) = mpsc::channel();
        let name = name.to_owned();
        let close = move || {
            let Self { store, committer, .. } = self;
            let open = store.upgrade();
            drop(committer);
            if let Some(why) = open.as_ref().and_then(|store| store.ended()) {
                warn!("{name} had failed: {why}");
            }
            drop(open);
            // Threads may still work for operations that have been given up.
            while store.strong_count() > 0 {
                sleep(PAUSE);
            }
            // The caller may have gone.
            let _ = closed.send(());
        };
        let thread = Builder::new().name("close".to_owned()).spawn(close);
        thread.is_ok() && closing.recv_timeout(CLOSE).is_ok()
    }
}

/// Says more of a directory whose lock this process has.
fn explained(unserved: UnservedDirectory) -> UnservedDirectory {
    let own = format!("in use by process {}.", std::process::id());
    let UnservedDirectory { directory, why } = unserved;
    let why = if why.contains(&own) {
        format!(
            "{} is not free yet: its target was stopped, and work on its disk does not end",
            directory.display()
        )
    } else {
        why
    };
    UnservedDirectory { directory, why }
}

fn errno_of(error: &OpenError) -> Errno {
    let OpenError::Storage(error) = error else {
        return match error {
            OpenError::Twice { .. } => Errno::EEXIST,
            _ => Errno::EIO,
        };
    };
    let StorageError::Store(error) = error else { return Errno::EINVAL };
    match error {
        StoreError::Locked { .. } => Errno::EBUSY,
        StoreError::ReadOnly { .. } => Errno::EROFS,
        StoreError::Full { .. } => Errno::ENOSPC,
        StoreError::NotAStore { .. } | StoreError::Version { .. } | StoreError::Label { .. } => {
            Errno::EINVAL
        }
        _ => Errno::EIO,
    }
}

fn lines(failed: &[UnservedDirectory]) -> String {
    failed.iter().map(UnservedDirectory::to_string).collect::<Vec<_>>().join("\n")
}

fn also(started: &[String]) -> impl fmt::Display {
    if started.is_empty() { String::new() } else { format!("\nstarted: {}", started.join(", ")) }
}

fn listed(known: &[String]) -> String {
    if known.is_empty() { "nothing".to_owned() } else { known.join(", ") }
}
