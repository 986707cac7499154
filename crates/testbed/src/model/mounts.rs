//! Mounts, each by a process `fulmar mount`, on servers of this process. A client is an agent on one of them; faults are
//! those of the servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::agents::Agents;
use super::check::{Executor, Failure, check};
use super::operation::{Operation, Step};
use super::order::Timed;
use super::outcome::{Expected, Outcome};
use super::servers::Servers;
use crate::kill::Net;

/// Servers, and mounts of their file system.
pub struct Mounts {
    servers: Option<Servers>,
    mountpoints: Vec<PathBuf>,
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
        fulmar_client::blocking::wait(first.unmount());
        node.stop();
        let mut this = Self { servers: Some(servers), mountpoints: Vec::new() };
        for client in 0..clients {
            let mountpoint = scratch.join(format!("mount{client}"));
            std::fs::create_dir(&mountpoint).map_err(|error| error.to_string())?;
            this.mount(fulmar, &mountpoint, net, client)?;
            this.mountpoints.push(mountpoint);
        }
        Ok(this)
    }

    fn mount(&self, fulmar: &Path, at: &Path, net: Net, client: u8) -> Result<(), String> {
        let Some(servers) = &self.servers else { return Ok(()) };
        let (port, interface) =
            (net.port.to_string(), Servers::address_of(net, client).to_string());
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

    /// Starts an agent on each mount, by the program `model`. Each is a process of its own: a process that has a file of a mount
    /// in its memory may not serve the file system, as it can wait for itself.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn agents(&self, model: &Path) -> Result<Agents, String> {
        let command = |at: &PathBuf| format!("'{}' --agent '{}'", model.display(), at.display());
        Agents::start(&self.mountpoints.iter().map(command).collect::<Vec<_>>(), false)
    }

    /// Executes operations by agents in a new directory, and examines it by each.
    ///
    /// # Errors
    /// The first outcome that the model does not admit.
    ///
    /// # Panics
    /// If an agent has ended, or the servers do not start again.
    pub fn check(&mut self, agents: &mut Agents, steps: &[Step]) -> Result<(), Box<Failure>> {
        agents.begin();
        check(steps, self.mountpoints.len() as u8, &mut Run { servers: &mut self.servers, agents })
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

/// Operations by agents, with faults of the servers.
struct Run<'a> {
    servers: &'a mut Option<Servers>,
    agents: &'a mut Agents,
}

impl Executor for Run<'_> {
    fn perform(&mut self, step: &Step) -> Outcome {
        match self.servers {
            Some(servers) if step.operation.is_fault() => {
                let done = servers.perform(step);
                // A broken connection is to break what comes next.
                if !matches!(step.operation, Operation::Disconnect { .. }) {
                    self.agents.use_servers(servers.least());
                }
                done
            }
            _ => self.agents.perform(step),
        }
    }

    fn perform_together(&mut self, steps: &[Step]) -> Vec<Timed> {
        self.agents.perform_together(steps)
    }

    fn admits(&self, operation: &Operation, expected: &Expected, found: &Outcome) -> bool {
        self.agents.admits(operation, expected, found)
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        self.unmount();
    }
}
