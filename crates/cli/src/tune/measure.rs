//! Measures the round trip to a host by opening connections to it.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::socklnd::ACCEPT_PORT;

const TRIES: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the shortest of several round trips to `host`. A refused connection takes one round trip
/// too.
pub(super) fn round_trip(host: &str) -> Result<Duration, String> {
    let addr = address(host)?;
    let mut best = None;
    for _ in 0..TRIES {
        let start = Instant::now();
        match TcpStream::connect_timeout(&addr, TIMEOUT) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => {
                return Err(format!(
                    "cannot measure the round trip to {addr}: {error}; give it with --rtt"
                ));
            }
        }
        let took = start.elapsed();
        best = Some(best.map_or(took, |best: Duration| best.min(took)));
    }
    best.ok_or_else(|| format!("cannot measure the round trip to {addr}; give it with --rtt"))
}

fn address(host: &str) -> Result<SocketAddr, String> {
    let ip = host.contains('@').then(|| host.parse::<Nid>().ok()?.ip()).flatten();
    if let Some(ip) = ip {
        return Ok(SocketAddr::new(ip, ACCEPT_PORT));
    }
    let found = match host.to_socket_addrs() {
        Ok(found) => Ok(found),
        Err(_) => (host, ACCEPT_PORT).to_socket_addrs(),
    };
    let found = found.map_err(|error| {
        format!("cannot resolve {host:?}: {error}; write HOST, HOST:PORT or a NID")
    })?;
    let mut found = found.collect::<Vec<_>>().into_iter();
    found.next().ok_or_else(|| format!("{host:?} has no address"))
}
