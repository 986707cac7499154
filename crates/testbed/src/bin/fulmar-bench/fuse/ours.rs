//! Fulmar's servers and its mount.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fulmar_client::Address;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, TargetLabel};
use fulmar_testbed::lab::{Program, binaries};

use super::file_system::System;
use crate::rpc::client::OURS;
use crate::rpc::server::ADDRESS;
use crate::{Failure, iperf3};

/// How long the servers may need to start.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An MGS with an MDT, and two OSTs, in one process.
pub(super) struct Ours {
    fulmar: PathBuf,
    address: Address,
    port: u16,
    server: Program,
}

impl Ours {
    /// Starts the servers in a directory.
    pub(super) fn start(directory: &Path) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure(error.to_string());
        let fulmar = binaries().map_err(Failure)?.join("fulmar");
        let port = iperf3::free_port()?;
        let address: Address = format!("{ADDRESS}@tcp:/bench").parse().expect("it is an address");
        let label = |kind, index| TargetLabel { kind, index, address: address.clone() };
        let mdt = directory.join("mdt");
        fulmar_server::format_both(&mdt, &label(TargetKind::Mdt, 0)).map_err(|e| failed(&e))?;
        let mut targets = vec![mdt];
        for index in 0..2 {
            let ost = directory.join(format!("ost{index}"));
            let label = Label::Target(label(TargetKind::Ost, index));
            fulmar_server::format(&ost, &label).map_err(|error| failed(&error))?;
            targets.push(ost);
        }
        let notify = directory.join("notify");
        let ready = UnixDatagram::bind(&notify).map_err(Failure::io("make a socket"))?;
        ready.set_read_timeout(Some(TIMEOUT)).map_err(Failure::io("set a timeout"))?;
        let mut command = Command::new(&fulmar);
        command
            .args(["node", "--accept", "all", "--accept-port", &port.to_string()])
            .args(["--networks", &format!("tcp({ADDRESS})")])
            .env("FULMAR_CONTROL", directory.join("control"))
            .env("NOTIFY_SOCKET", &notify);
        for target in &targets {
            command.arg("--target").arg(target);
        }
        let mut server = Program::start(&mut command).map_err(Failure)?;
        match ready.recv(&mut [0; 64]) {
            Ok(_) => Ok(Self { fulmar, address, port, server }),
            Err(_) => Err(Failure(format!("not ready: {}", server.new_lines().join("; ")))),
        }
    }
}

impl System for Ours {
    fn name(&self) -> &'static str {
        "fulmar"
    }

    fn servers(&self) -> Vec<u32> {
        vec![self.server.id()]
    }

    fn mount(&self, at: &Path) -> Command {
        let mut command = Command::new(&self.fulmar);
        command
            .args(["mount", "--foreground", "--interface", &OURS.to_string()])
            .args(["--port", &self.port.to_string()])
            .arg(self.address.to_string())
            .arg(at);
        command
    }
}
