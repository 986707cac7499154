//! A laboratory on one machine: hosts with cables, switches and nodes between and in them.
//!
//! A host is a network namespace. Its interfaces are ends of veth pairs, which lead to another host
//! or to a port of a [`Switch`]; they can be slowed down to the rate of a real link, taken down, and
//! made to lose everything without anybody being told. Programs run in a host; [`Node`] is one of
//! them, with its control socket. A [`Resident`] is a node of this process that lives in a host.
//!
//! All of it needs root, and goes when its guards go. What a run that was killed has left behind is
//! swept up by the next.

mod host;
mod lst;
mod meter;
mod namespace;
mod node;
mod program;
mod resident;
mod switch;
mod traffic;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub use host::{Host, Rate};
pub use lst::{Lst, LstLine, LstReport, LstRunning};
pub use meter::{Carried, Meter, cpu_seconds, resident_mib};
pub use namespace::check_allowed;
pub use node::{Node, Settings};
pub use program::Program;
pub use resident::Resident;
pub use switch::Switch;
pub use traffic::{Flood, Load, Server, bytes_per_second};

/// A name that nobody else on this machine uses, and a directory.
#[derive(Debug)]
pub struct Lab {
    tag: String,
    directory: PathBuf,
    fulmar: PathBuf,
}

impl Lab {
    /// Prepares for hosts. `fulmar` is the binary that their nodes run.
    ///
    /// # Errors
    /// Why there can be no network namespaces here.
    pub fn new(fulmar: &Path) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        check_allowed()?;
        let place = std::env::temp_dir();
        namespace::sweep(&place);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let tag = format!("{}{}-{count}", namespace::PREFIX, std::process::id());
        let directory = place.join(&tag);
        std::fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
        Ok(Self { tag, directory, fulmar: fulmar.to_owned() })
    }

    /// As [`Lab::new`]; `None`, said loudly, where that is not allowed.
    pub fn or_not_run(fulmar: &Path) -> Option<Self> {
        Self::new(fulmar).map_err(|why| not_run(&why)).ok()
    }

    /// Makes a host without any cable.
    ///
    /// # Errors
    /// What the system refused.
    pub fn host(&self, name: &str) -> Result<Host, String> {
        Host::new(format!("{}-{name}", self.tag), name)
    }

    /// Makes a switch.
    ///
    /// # Errors
    /// What the system refused.
    pub fn switch(&self, name: &str) -> Result<Switch, String> {
        Switch::new(self.host(&format!("switch-{name}"))?)
    }

    /// Returns a place for a file of the laboratory; it goes with it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the binary that nodes run.
    pub fn fulmar(&self) -> &Path {
        &self.fulmar
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Says, where even a test that passes is heard, that it did not run.
pub fn not_run(why: &str) {
    let _ = writeln!(std::io::stderr(), "\nNOT RUN: {why}");
}
