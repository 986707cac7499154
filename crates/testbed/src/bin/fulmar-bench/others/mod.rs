//! Other file systems for networks, as users install them, with their default settings.
//!
//! Their daemons have namespaces for the network, mounts and processes: what they write below `/var` and `/run` is gone
//! with them, and they find their usual ports free.

pub(crate) mod ganesha;
pub(crate) mod glusterfs;
pub(crate) mod juicefs;

use std::path::Path;
use std::process::Command;

use fulmar_link::{Namespace, Program, Scratch};

/// The address of servers and clients on one host. Some do not accept one of 127.0.0.0/8.
pub(crate) const ADDRESS: &str = "10.9.0.1";

/// A host without a network.
pub(crate) struct Host {
    namespace: Namespace,
    _scratch: Scratch,
}

impl Host {
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let namespace = scratch.namespace(name).map_err(|error| error.to_string())?;
        let added = namespace.add_address("lo", &format!("{ADDRESS}/32"));
        added.map_err(|error| error.to_string())?;
        Ok(Self { namespace, _scratch: scratch })
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

/// Daemons of a host. They end when this is dropped, and with them all that they have started.
pub(crate) struct Daemons(Program);

impl Daemons {
    /// Runs a script that starts daemons, prints `served` when they are ready, and waits.
    fn start(namespace: &Namespace, script: &str) -> Result<Self, String> {
        let mut command = namespace.command_here("unshare".as_ref());
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-e", "-c", script]);
        let mut program = Program::start(&mut command)?;
        program.wait_for("served")?;
        Ok(Self(program))
    }

    /// Returns the process from which all of them descend.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

/// Checks that a program is installed.
fn installed(program: &str, how: &str) -> Result<(), String> {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output();
    if found.is_ok_and(|output| output.status.success()) {
        Ok(())
    } else {
        Err(format!("there is no {program}: {how}"))
    }
}

fn create(directory: &Path) -> Result<(), String> {
    let failed = |error| format!("cannot create {}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)
}
