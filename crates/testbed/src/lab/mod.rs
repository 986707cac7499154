//! A laboratory on one machine: hosts, cables and switches, with nodes in the hosts.
//!
//! A host is a network namespace. Its interfaces are ends of virtual cables, which lead to another
//! host or to a port of a [`Switch`]. An interface can be limited to the rate of a real link, taken
//! down, or made to lose all packets silently. Programs run in a host; [`Node`] is one of them,
//! with its control socket. A [`Resident`] is a node of this process whose sockets are in a host.
//!
//! Everything needs root, and is removed on drop. The next run removes what a killed run left.

mod host;
mod meter;
mod resident;
mod switch;
mod traffic;

use std::io::Write;
use std::path::{Path, PathBuf};

use fulmar::demo::ocean::Runner;

pub use fulmar::demo::ocean::{Lst, LstLine, LstLoad, LstReport, Node, Settings};
pub use fulmar_link::{Program, Rate, check_allowed};

pub use host::Host;
pub use meter::{
    InterfaceBytes, Meter, children_cpu_seconds, cpu_seconds, resident_mib, tree_cpu_seconds,
};
pub use resident::Resident;
pub use switch::Switch;
pub use traffic::{Flood, Load, Server, bytes_per_second};

/// Names for hosts, a directory for their files, and the binaries that run in them.
#[derive(Debug)]
pub struct Lab {
    runner: Runner,
    binaries: PathBuf,
}

impl Lab {
    /// Creates a laboratory. The binaries `fulmar` and `fulmar-traffic` are in the directory
    /// `binaries`; see [`binaries`].
    ///
    /// # Errors
    /// Why network namespaces are not available.
    pub fn new(binaries: &Path) -> Result<Self, String> {
        let runner = Runner::new(&binaries.join(FULMAR))?;
        Ok(Self { runner, binaries: binaries.to_owned() })
    }

    /// Returns a laboratory for a test, with the binaries of this build. Without permission returns
    /// `None` and prints a line that begins with `NOT RUN`.
    ///
    /// # Panics
    /// If the binaries have not been built.
    pub fn or_not_run() -> Option<Self> {
        let binaries = binaries().unwrap_or_else(|why| panic!("{why}"));
        Self::new(&binaries).map_err(|why| not_run(&why)).ok()
    }

    /// Returns the same for a test that runs neither of the two binaries.
    pub fn hosts_or_not_run() -> Option<Self> {
        Self::new(Path::new("")).map_err(|why| not_run(&why)).ok()
    }

    /// Creates a host without cables.
    ///
    /// # Errors
    /// The error of the system.
    pub fn host(&self, name: &str) -> Result<Host, String> {
        Host::new(self.runner.namespace(name)?, name)
    }

    /// Creates a switch.
    ///
    /// # Errors
    /// The error of the system.
    pub fn switch(&self, name: &str) -> Result<Switch, String> {
        Switch::new(self.host(&format!("switch-{name}"))?)
    }

    /// Starts a node on a host, and waits until it is ready.
    ///
    /// # Errors
    /// Why the node does not start.
    pub fn node(&self, host: &Host, settings: &Settings) -> Result<Node, String> {
        Node::start(&self.runner, host.shared(), settings)
    }

    /// Returns the path of a temporary file, which is removed with the laboratory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.runner.path(name)
    }

    /// Returns the binary that nodes run.
    pub fn fulmar(&self) -> &Path {
        self.runner.fulmar()
    }

    /// Returns the binary of test traffic.
    fn traffic(&self) -> PathBuf {
        self.binaries.join(TRAFFIC)
    }

    /// Returns the binary of attackers.
    pub(crate) fn attacker(&self) -> PathBuf {
        self.binaries.join(HOSTILE)
    }

    /// Returns the binary of targets.
    pub(crate) fn targets(&self) -> PathBuf {
        self.binaries.join(TARGETS)
    }
}

const FULMAR: &str = "fulmar";
const TRAFFIC: &str = "fulmar-traffic";
const HOSTILE: &str = "fulmar-hostile";
const TARGETS: &str = "fulmar-targets";

/// Returns the directory of the build that this program is part of, where cargo puts binaries.
///
/// # Errors
/// The command that builds a missing binary.
pub fn binaries() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("no path: {error}"))?;
    let directory = program.parent().unwrap_or(Path::new("."));
    // Test programs are one level below the binaries.
    let directory = if directory.ends_with("deps") {
        directory.parent().unwrap_or(directory)
    } else {
        directory
    };
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => String::new(),
        Some(name) => format!(" --profile {name}"),
    };
    let ours = [TRAFFIC, HOSTILE, TARGETS].map(|binary| (binary, "fulmar-testbed"));
    for (binary, package) in [(FULMAR, FULMAR)].into_iter().chain(ours) {
        let path = directory.join(binary);
        if !path.exists() {
            let path = path.display();
            return Err(format!("{path} is missing: run cargo build{profile} -p {package}"));
        }
    }
    Ok(directory.to_owned())
}

/// Prints why a test did not run, directly to standard error: cargo shows that of passing tests
/// too.
pub fn not_run(why: &str) {
    let _ = writeln!(std::io::stderr(), "\nNOT RUN: {why}");
}
