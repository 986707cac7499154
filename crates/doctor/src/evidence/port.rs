//! Probes a TCP port.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The result of probing a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortResult {
    /// The address and port.
    pub at: SocketAddr,
    /// The outcome.
    pub outcome: PortOutcome,
    /// Duration, in microseconds.
    pub took_us: u64,
}

/// The outcome of probing a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortOutcome {
    /// The connection was accepted.
    Open,
    /// The host or a firewall refused it.
    Refused,
    /// No answer within so many milliseconds.
    Timeout(u64),
    /// No route, or another local error, with the system's message.
    NoRoute(String),
}

/// Opens a connection to a port and closes it at once.
pub fn probe(at: SocketAddr, timeout: Duration) -> PortResult {
    let start = Instant::now();
    let outcome = match TcpStream::connect_timeout(&at, timeout) {
        Ok(_) => PortOutcome::Open,
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => PortOutcome::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                PortOutcome::Timeout(timeout.as_millis() as u64)
            }
            _ => PortOutcome::NoRoute(error.to_string()),
        },
    };
    PortResult { at, outcome, took_us: start.elapsed().as_micros() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_port_is_open_and_others_refuse() {
        // A bound socket reserves the port, and refuses connections until it listens.
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let at = socket.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(probe(at, Duration::from_secs(5)).outcome, PortOutcome::Refused);
        socket.listen(1).unwrap();
        assert_eq!(probe(at, Duration::from_secs(5)).outcome, PortOutcome::Open);
    }
}
