//! Why a node of LNet does not answer, found out with a plain TCP connection.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use fulmar_lnet_wire::Nid;

/// How long the connection may take.
const LIMIT: Duration = Duration::from_secs(3);

/// Returns what a plain TCP connection to the port of a node finds, and what to do.
pub(crate) fn port_report(remote: SocketAddr, nid: Nid, timeout: Duration) -> String {
    let (ip, port) = (remote.ip(), remote.port());
    match TcpStream::connect_timeout(&remote, timeout.min(LIMIT)) {
        Ok(_) => format!(
            "Port {port} of {ip} accepts TCP connections, but not those of LNet. Is {nid} one of \
             the node's own NIDs (`lctl list_nids` there)? It refuses source ports above 1023 \
             unless accept=all is set there: run as root, or with CAP_NET_BIND_SERVICE. Its kernel \
             log (`dmesg`) has its messages about this machine"
        ),
        Err(error) => format!(
            "TCP port {port} of {ip} cannot be reached: {error}. Is LNet up there (`lnetctl net \
             show`), and do firewalls on the path allow port {port} in both directions?"
        ),
    }
}
