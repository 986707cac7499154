//! Two hosts with a cable between them, and programs that run there.

use std::path::Path;
use std::process::Command;

use fulmar_testbed::lab::{Host, Lab};
pub(crate) use fulmar_testbed::lab::{Program, not_run};

/// The addresses of the two hosts, the first and the second.
pub(crate) const IPV4: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
pub(crate) const IPV6: [&str; 2] = ["fd00:77::1", "fd00:77::2"];
/// The end of the cable in either host.
pub(crate) const INTERFACE: &str = "eth0";

/// Two hosts that are connected by a cable.
pub(crate) struct Cable {
    hosts: [Host; 2],
    _lab: Lab,
}

impl Cable {
    /// Creates the hosts. Without permission returns `None` and prints a notice.
    pub(crate) fn new() -> Option<Self> {
        let lab = Lab::hosts_or_not_run()?;
        match Self::lay(&lab) {
            Ok(hosts) => Some(Self { hosts, _lab: lab }),
            Err(why) => {
                not_run(&format!("no network namespaces here: {why}"));
                None
            }
        }
    }

    fn lay(lab: &Lab) -> Result<[Host; 2], String> {
        let hosts = [lab.host("a")?, lab.host("b")?];
        hosts[0].cable(INTERFACE, (&hosts[1], INTERFACE))?;
        for (side, host) in hosts.iter().enumerate() {
            host.address(INTERFACE, &format!("{}/24", IPV4[side]))?;
            host.address(INTERFACE, &format!("{}/64", IPV6[side]))?;
        }
        Ok(hosts)
    }

    /// Returns a command that runs a program on a host.
    pub(crate) fn command(&self, side: usize, program: &str) -> Command {
        self.hosts[side].command(Path::new(program))
    }

    /// Starts a node that offers memory, and waits until it does.
    pub(crate) fn serve(&self, side: usize, address: &str) -> Program {
        let mut command = self.command(side, PEER);
        let mut program = Program::start(command.args(["serve", address])).unwrap();
        program.wait_for("ready").unwrap();
        program
    }

    /// Runs a program of the peer to its end and returns its output.
    pub(crate) fn run(&self, side: usize, args: &[&str]) -> String {
        let output = self.command(side, PEER).args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?} printed {text}{errors}");
        text
    }
}

const PEER: &str = env!("CARGO_BIN_EXE_fulmar-peer");
