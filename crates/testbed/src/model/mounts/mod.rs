//! Operations by system calls on mounts, each by a process `fulmar mount`, on servers of this process.
//!
//! A client is a mount. Its process locks are those of this process on the files of that mount.

mod files;
mod map;
mod names;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_base::Errno;

use super::check::{Executor, Failure, check};
use super::library::now;
use super::operation::{Operation, Step};
use super::outcome::{Kind, Outcome, Stat, Time};
use super::servers::Servers;
use super::words::Slot;
use crate::kill::Net;

/// Servers, and mounts of their file system.
pub struct Mounts {
    servers: Option<Servers>,
    mountpoints: Vec<PathBuf>,
    runs: u32,
}

impl Mounts {
    /// Starts servers over directories in `scratch`, and mounts them there as often as there are clients, by the program `fulmar`.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn start(fulmar: &Path, scratch: &Path, net: Net, clients: u8) -> Result<Self, String> {
        let mut servers = Servers::start(scratch, net)?;
        // When this one is mounted, all targets have registered.
        let (first, node) = servers.mount()?;
        let mut this = Self { servers: Some(servers), mountpoints: Vec::new(), runs: 0 };
        for client in 0..clients {
            let mountpoint = scratch.join(format!("mount{client}"));
            std::fs::create_dir(&mountpoint).map_err(|error| error.to_string())?;
            this.mount(fulmar, &mountpoint, net, client)?;
            this.mountpoints.push(mountpoint);
        }
        fulmar_client::blocking::wait(first.unmount());
        node.stop();
        Ok(this)
    }

    fn mount(&self, fulmar: &Path, at: &Path, net: Net, client: u8) -> Result<(), String> {
        let Some(servers) = &self.servers else { return Ok(()) };
        let (port, interface) =
            (net.port.to_string(), format!("127.0.{}.{}", net.third, 100 + client));
        let mounting = Command::new(fulmar)
            .args(["mount", &servers.address().to_string()])
            .arg(at)
            .args(["--port", &port, "--interface", &interface])
            .output();
        let done = mounting.map_err(|error| format!("{}: {error}", fulmar.display()))?;
        if done.status.success() {
            return Ok(());
        }
        Err(format!("cannot mount on {}: {}", at.display(), String::from_utf8_lossy(&done.stderr)))
    }

    /// Executes operations in a new directory, and examines it by each mount.
    ///
    /// # Errors
    /// The first outcome that the model does not admit.
    ///
    /// # Panics
    /// If no directory can be made.
    pub fn check(&mut self, steps: &[Step]) -> Result<(), Box<Failure>> {
        self.runs += 1;
        let name = format!("run{}", self.runs);
        let directory = self.mountpoints[0].join(&name);
        std::fs::create_dir(&directory)
            .unwrap_or_else(|error| panic!("{} cannot be made: {error}", directory.display()));
        let clients = self.mountpoints.len() as u8;
        let mut run = Run { mounts: self, root: name, slots: BTreeMap::new(), begun: now() };
        check(steps, clients, &mut run)
    }

    /// Ends the mounts and the servers.
    ///
    /// # Errors
    /// The damage of what the servers have stored.
    pub fn stop(mut self) -> Result<(), String> {
        self.unmount();
        let damage = self.servers.take().map(Servers::stop).unwrap_or_default();
        if damage.is_empty() { Ok(()) } else { Err(damage.join("\n")) }
    }

    fn unmount(&mut self) {
        for mountpoint in self.mountpoints.drain(..) {
            let unmount = |options: &[&str]| {
                let done = Command::new("umount").args(options).arg(&mountpoint).status();
                done.is_ok_and(|status| status.success())
            };
            // What is still open keeps it otherwise.
            let _ = unmount(&[]) || unmount(&["-l"]);
        }
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// The result of an operation.
type Performed = Result<Outcome, Errno>;

/// The operations of a run, in a directory of their own.
struct Run<'a> {
    mounts: &'a mut Mounts,
    root: String,
    slots: BTreeMap<(u8, Slot), Open>,
    begun: i64,
}

/// An open file.
struct Open {
    file: File,
    appends: bool,
}

impl Executor for Run<'_> {
    fn perform(&mut self, step: &Step) -> Outcome {
        let performed = match &step.operation {
            Operation::Restart {} => {
                if let Some(servers) = &mut self.mounts.servers {
                    let restarted = servers.restart();
                    restarted.unwrap_or_else(|error| panic!("the servers do not start: {error}"));
                }
                Ok(Outcome::Done)
            }
            operation if operation.slot().is_some() => self.on_open(step),
            operation => self.on_names(step.client, operation),
        };
        performed.unwrap_or_else(Outcome::Failed)
    }
}

impl Run<'_> {
    fn path(&self, client: u8, path: &str) -> PathBuf {
        let run = self.mounts.mountpoints[usize::from(client)].join(&self.root);
        run.join(path.trim_start_matches('/'))
    }

    fn stat(&self, found: &std::fs::Metadata) -> Outcome {
        use std::os::unix::fs::MetadataExt;
        let Some(kind) = Kind::of_mode(found.mode()) else { return Outcome::Failed(Errno::EIO) };
        let time = |seconds| Time::of(seconds, self.begun);
        Outcome::Stat(Stat {
            kind,
            mode: found.mode() & 0o7777,
            uid: found.uid(),
            gid: found.gid(),
            links: found.nlink() as u32,
            size: Some(found.len()),
            blocks: found.blocks()..=found.blocks(),
            atime: Some(time(found.atime())),
            mtime: Some(time(found.mtime())),
            ctime: time(found.ctime()),
        })
    }
}

/// Returns the number of an error.
fn errno(error: io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))
}

/// The same of a system call.
fn call_errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}
