//! What `mount` does first: the management service is found, and asked for the targets.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fulmar_client::{
    Address, ClientNode, Configuration, Error, MountOptions, Session, SessionOptions, blocking,
    networks_of,
};
use fulmar_daemon::ClientSide;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::socklnd::ACCEPT_PORT;
use fulmar_net::StartError;
use fulmar_rpc::client::ImportId;

use crate::context::Status;
use crate::interop::interface;
use crate::mount::configured;
use crate::reach::port_report;

/// A file system that is not mounted, and how its servers are reached.
#[derive(Clone, Debug)]
pub(crate) struct MountArgs {
    address: Address,
    reach: ReachArgs,
}

/// How servers are reached.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReachArgs {
    /// Local interface, by name or address; by default the one with the route to the MGS
    #[arg(long, value_name = "IF|ADDR")]
    interface: Option<String>,
    /// How long to wait for servers, all together
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_MAX))]
    timeout: u64,
    /// TCP port of all nodes
    #[arg(long, default_value_t = ACCEPT_PORT,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

impl ReachArgs {
    pub(crate) fn options(&self) -> SessionOptions {
        SessionOptions {
            interface: self.interface.as_deref().map(interface),
            port: self.port,
            timeout: Duration::from_secs(self.timeout),
        }
    }

    /// Mounts a file system, or reports why that failed, for `command`.
    pub(crate) fn mount(
        &self,
        command: &str,
        address: &Address,
    ) -> Result<blocking::FileSystem, Status> {
        blocking::FileSystem::mount(address, self.options()).map_err(|error| {
            super::fail(command, &format!("{error}{}", self.remedy(address, &error)))
        })
    }

    /// Mounts some file systems by one node, or reports why that failed, for `command`.
    pub(crate) fn mounts(
        &self,
        command: &str,
        addresses: &[Option<&Address>],
        config: Option<&Path>,
    ) -> Result<Mounts, Status> {
        let known = addresses.iter().flatten();
        let nids: Vec<Nid> = known.flat_map(|address| address.mgs.clone()).collect();
        let Some(first) = addresses.iter().flatten().next() else {
            return Ok(Mounts { each: vec![None; addresses.len()], _configured: None });
        };
        let failed = |address: &Address, error: Error| {
            super::fail(command, &format!("{error}{}", self.remedy(address, &error)))
        };
        let (node, _configured) = match config {
            Some(file) => {
                let timeout = Duration::from_secs(self.timeout);
                let (node, side) =
                    configured(file, timeout).map_err(|why| super::fail(command, &why))?;
                (node, Some(side))
            }
            None => {
                let started = ClientNode::start(&nids, self.options());
                (started.map_err(|error| failed(first, error))?, None)
            }
        };
        let mount = |address: &&Address| {
            let mounted = blocking::wait(node.mount(address, MountOptions::default()));
            mounted.map(blocking::FileSystem::of).map_err(|error| failed(address, error))
        };
        let each = addresses.iter().map(|address| address.as_ref().map(mount).transpose());
        Ok(Mounts { each: each.collect::<Result<_, _>>()?, _configured })
    }

    /// Says what to do about an error.
    fn remedy(&self, address: &Address, error: &Error) -> String {
        match error {
            Error::Unreachable { lnet: Some(nid), .. } => {
                format!(". LNet of {nid} answers: is the management target (MGT) mounted there?")
            }
            Error::Unreachable { lnet: None, .. } => self.hint(address),
            Error::Start(StartError::PortInUse { .. }) => IN_USE.to_owned(),
            _ => String::new(),
        }
    }

    /// Says what a plain TCP connection to the management service finds.
    fn hint(&self, address: &Address) -> String {
        let first = networks_of(&address.mgs).into_iter().next();
        let remote = first.and_then(|(_, nid)| Some((nid, SocketAddr::new(nid.ip()?, self.port))));
        remote.map_or_else(String::new, |(nid, remote)| {
            format!(". {}", port_report(remote, nid, Duration::from_secs(self.timeout)))
        })
    }
}

/// Mounts by one node, in the order of their addresses.
pub(crate) struct Mounts {
    pub(crate) each: Vec<Option<blocking::FileSystem>>,
    /// Keeps the networks of a configured node.
    _configured: Option<ClientSide>,
}

/// What to do if another node has the address of this one.
const IN_USE: &str = ". This command is an LNet node too, and no two nodes of a machine have the \
                      same address: on a client of the file system use Lustre's own tools, or \
                      select another address with --interface";
/// The longest timeout, in seconds.
const TIMEOUT_MAX: u64 = 3600;

/// A file system whose management service is connected.
pub(crate) struct Mount {
    pub(crate) session: Session,
    pub(crate) mgs: ImportId,
    pub(crate) file_system: Configuration,
}

impl MountArgs {
    /// Returns those of a file system at this address.
    pub(crate) fn new(address: &Address, reach: &ReachArgs) -> Self {
        Self { address: address.clone(), reach: reach.clone() }
    }

    /// Connects to the management service, and reads what the file system consists of; or reports
    /// why that failed, for `command`.
    pub(crate) fn mount(&self, command: &str) -> Result<Mount, Status> {
        self.connect().map_err(|error| {
            super::fail(command, &format!("{error}{}", self.reach.remedy(&self.address, &error)))
        })
    }

    fn connect(&self) -> Result<Mount, Error> {
        let mut session = Session::start(&self.address.mgs, self.reach.options())?;
        let mgs = session.connect_mgs(&self.address)?;
        let file_system = session.file_system(mgs, &self.address)?;
        Ok(Mount { session, mgs, file_system })
    }

    /// Returns the name of the device for the management service.
    pub(crate) fn mgs_device(&self) -> String {
        format!("MGC{}", self.address.mgs[0])
    }
}
