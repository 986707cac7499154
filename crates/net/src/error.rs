//! Why a node or an interface could not be started, for people.

use std::io;
use std::net::IpAddr;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;

/// Why a node or an interface could not be started. Each message includes a remedy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address of an interface is not one of this machine.
    #[error(
        "{address} is not an address of this machine: use one that `ip address` shows{}",
        list(" (", known, ")")
    )]
    AddressNotHere {
        /// The requested address.
        address: IpAddr,
        /// The existing ones.
        known: Vec<IpAddr>,
    },
    /// Another program listens there.
    #[error(
        "TCP port {port} of {address} is in use: stop the program that `ss -tlnp 'sport = :{port}'` \
         shows (the kernel's LNet shows none: `lustre_rmmod`), or set another accept_port on every \
         node"
    )]
    PortInUse {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
    },
    /// The port is for privileged programs.
    #[error(
        "TCP port {port} needs a privilege: run as root, or give the program CAP_NET_BIND_SERVICE \
         (`setcap cap_net_bind_service+ep`), or lower the limit (`sysctl \
         net.ipv4.ip_unprivileged_port_start={port}`)"
    )]
    Privilege {
        /// The port.
        port: u16,
    },
    /// There is no such network interface.
    #[error("there is no network interface {name:?}: use one of{}", list(" ", known, ""))]
    NoInterface {
        /// The requested name.
        name: String,
        /// The existing ones.
        known: Vec<String>,
    },
    /// The network interface has no address for LNet.
    #[error("network interface {name} has no IP address: give it one (`ip address add`)")]
    NoAddress {
        /// The interface.
        name: String,
    },
    /// An interface is bound to a CPT that does not exist.
    #[error(
        "{nid} is bound to CPT {cpt}, and there {}: change its list of CPTs, or cpu_npartitions or \
         cpu_pattern",
        count(*cpts)
    )]
    NoCpt {
        /// The interface.
        nid: Nid,
        /// The CPT.
        cpt: usize,
        /// The number of CPTs.
        cpts: usize,
    },
    /// The machine refuses the NID.
    #[error("{nid} cannot be added: {errno}")]
    Refused {
        /// The NID.
        nid: Nid,
        /// Why.
        errno: Errno,
    },
    /// The operating system refuses something.
    #[error("cannot {what}: {source}")]
    System {
        /// The attempted operation.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl StartError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }

    /// Returns the nearest error number.
    pub fn errno(&self) -> Errno {
        match self {
            Self::AddressNotHere { .. } => Errno::EADDRNOTAVAIL,
            Self::PortInUse { .. } => Errno::EADDRINUSE,
            Self::Privilege { .. } => Errno::EACCES,
            Self::NoInterface { .. } => Errno::ENODEV,
            Self::NoAddress { .. } => Errno::EADDRNOTAVAIL,
            Self::NoCpt { .. } => Errno::EINVAL,
            Self::Refused { errno, .. } => *errno,
            Self::System { source, .. } => crate::errno_of(source),
        }
    }
}

fn count(cpts: usize) -> String {
    if cpts == 1 { "is only CPT 0".into() } else { format!("are CPTs 0 to {}", cpts - 1) }
}

fn list<T: ToString>(before: &str, items: &[T], after: &str) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    if items.is_empty() { String::new() } else { format!("{before}{}{after}", items.join(", ")) }
}
