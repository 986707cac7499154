//! Operations by system calls on mounts, each by a process `fulmar mount`, on servers of this process. A client is a mount.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::calls::Directory;
use super::check::{Executor, Failure, check};
use super::library::now;
use super::operation::{Operation, Step};
use super::outcome::Outcome;
use super::servers::Servers;
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
        let (clients, begun) = (self.mountpoints.len() as u8, now());
        let of_mount = |at: &PathBuf| Directory::new(at.join(&name), begun);
        let directories = self.mountpoints.iter().map(of_mount).collect();
        check(steps, clients, &mut Run { servers: self.servers.as_mut(), directories })
    }

    /// Returns where the clients have mounted the file system.
    pub fn mountpoints(&self) -> &[PathBuf] {
        &self.mountpoints
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

/// The operations of a run, in a directory of their own: as each mount has it.
struct Run<'a> {
    servers: Option<&'a mut Servers>,
    directories: Vec<Directory>,
}

impl Executor for Run<'_> {
    fn perform(&mut self, step: &Step) -> Outcome {
        let (Operation::Restart {}, Some(servers)) = (&step.operation, &mut self.servers) else {
            return self.directories[usize::from(step.client)].perform(&step.operation);
        };
        let restarted = servers.restart();
        restarted.unwrap_or_else(|error| panic!("the servers do not start: {error}"));
        Outcome::Done
    }
}
