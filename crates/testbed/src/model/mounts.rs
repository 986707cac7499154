//! Mounts, each by a process `fulmar mount`, on servers of this process. A client is an agent on one of them; faults are
//! those of the servers and of these processes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::agents::Agents;
use super::check::{Executor, Failure, check};
use super::operation::{Operation, Step};
use super::order::TimedOutcome;
use super::outcome::{Expectation, Outcome};
use super::servers::Servers;
use crate::kill::Net;

/// Servers, and mounts of their file system.
pub struct Mounts {
    servers: Option<Servers>,
    fulmar: PathBuf,
    net: Net,
    mounts: Vec<Mount>,
}

/// A mount by a process.
struct Mount {
    at: PathBuf,
    process: Child,
}

impl Mounts {
    /// Starts servers over directories in `scratch`, and mounts them there as often as there are clients, by the program `fulmar`.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn start(fulmar: &Path, scratch: &Path, net: Net, clients: u8) -> Result<Self, String> {
        let servers = Servers::start(scratch, net)?;
        // When this one is mounted, all targets have registered.
        let (first, node) = servers.mount(0)?;
        fulmar_client::blocking::wait(first.unmount());
        node.stop();
        let (servers, fulmar) = (Some(servers), fulmar.to_owned());
        let mut this = Self { servers, fulmar, net, mounts: Vec::new() };
        for client in 0..clients {
            let at = scratch.join(format!("mount{client}"));
            std::fs::create_dir(&at).map_err(|error| error.to_string())?;
            let process = this.mount(&at, client)?;
            this.mounts.push(Mount { at, process });
        }
        Ok(this)
    }

    /// Starts the process of a mount, and waits until it has mounted.
    fn mount(&self, at: &Path, client: u8) -> Result<Child, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", self.fulmar.display());
        let address = self.servers.as_ref().map(|servers| servers.address().to_string());
        let interface = Servers::address_of(self.net, client).to_string();
        let log = at.with_extension("log");
        let file = File::create(&log).map_err(|error| failed(&error))?;
        let mounting = Command::new(&self.fulmar)
            .args(["mount", "--foreground", "--tell", &address.unwrap_or_default()])
            .arg(at)
            .args(["--port", &self.net.port.to_string(), "--interface", &interface])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn();
        let mut process = mounting.map_err(|error| failed(&error))?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| failed(&error))?;
        }
        if line.is_empty() {
            let _ = process.wait();
            let why = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("cannot mount on {}: {why}", at.display()));
        }
        Ok(process)
    }

    /// Kills the process of a mount, and mounts again.
    fn kill(&mut self, client: u8) -> Result<(), String> {
        self.servers.as_mut().map_or(Ok(()), Servers::wait_for_recovery)?;
        let mount = &mut self.mounts[usize::from(client)];
        mount
            .process
            .kill()
            .and_then(|()| mount.process.wait())
            .map_err(|error| error.to_string())?;
        unmount(&mount.at, &["-l"]);
        self.servers.as_ref().map_or(Ok(()), |servers| servers.evict(client))?;
        let at = mount.at.clone();
        self.mounts[usize::from(client)].process = self.mount(&at, client)?;
        Ok(())
    }

    /// Starts an agent on each mount, by the program `model`. Each is a process of its own: a process that has a file of a mount
    /// in its memory may not serve the file system, as it can wait for itself.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn agents(&self, model: &Path) -> Result<Agents, String> {
        let command =
            |mount: &Mount| format!("'{}' --agent '{}'", model.display(), mount.at.display());
        Agents::start(&self.mounts.iter().map(command).collect::<Vec<_>>(), false)
    }

    /// Executes operations by agents in a new directory, and examines it by each.
    ///
    /// # Errors
    /// The first outcome that the model does not admit.
    ///
    /// # Panics
    /// If an agent has ended, or the servers do not start again.
    pub fn check(&mut self, agents: &mut Agents, steps: &[Step]) -> Result<(), Box<Failure>> {
        self.servers.as_mut().into_iter().for_each(Servers::drain_all);
        agents.begin();
        check(steps, self.mounts.len() as u8, &mut Run { mounts: self, agents })
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
        for mut mount in self.mounts.drain(..) {
            // What is still open keeps it otherwise.
            let _ = unmount(&mount.at, &[]) || unmount(&mount.at, &["-l"]);
            let _ = mount.process.wait();
        }
    }
}

fn unmount(at: &Path, options: &[&str]) -> bool {
    let done = Command::new("umount").args(options).arg(at).status();
    done.is_ok_and(|status| status.success())
}

/// Operations by agents, with faults.
struct Run<'a> {
    mounts: &'a mut Mounts,
    agents: &'a mut Agents,
}

impl Executor for Run<'_> {
    fn perform(&mut self, step: &Step) -> Outcome {
        if step.operation == (Operation::Kill {}) {
            let again = self.mounts.kill(step.client);
            again.unwrap_or_else(|error| panic!("cannot mount again: {error}"));
            self.agents.restart(step.client);
            return Outcome::Done;
        }
        match &mut self.mounts.servers {
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

    fn perform_together(&mut self, steps: &[Step]) -> Vec<TimedOutcome> {
        self.agents.perform_together(steps)
    }

    fn admits(&self, operation: &Operation, expected: &Expectation, found: &Outcome) -> bool {
        self.agents.admits(operation, expected, found)
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        self.unmount();
    }
}
