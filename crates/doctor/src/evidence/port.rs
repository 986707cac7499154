//! Whether somebody answers on a TCP port.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What came of knocking at a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSeen {
    /// Where.
    pub at: SocketAddr,
    /// What came.
    pub outcome: PortOutcome,
    /// How long it took, in microseconds.
    pub took_us: u64,
}

/// What came of knocking at a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortOutcome {
    /// Somebody listens.
    Open,
    /// The host says that nobody does, or a firewall says so for it.
    Refused,
    /// Nothing, for so many milliseconds.
    Silence(u64),
    /// The packets have no way, in the system's words.
    NoWay(String),
}

/// Opens a connection to a port and closes it at once.
pub fn knock(at: SocketAddr, patience: Duration) -> PortSeen {
    let begun = Instant::now();
    let outcome = match TcpStream::connect_timeout(&at, patience) {
        Ok(_) => PortOutcome::Open,
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => PortOutcome::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                PortOutcome::Silence(patience.as_millis() as u64)
            }
            _ => PortOutcome::NoWay(error.to_string()),
        },
    };
    PortSeen { at, outcome, took_us: begun.elapsed().as_micros() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_and_its_absence_are_told_apart() {
        // A port that is bound is nobody else's, and takes no connection before somebody listens.
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let at = socket.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(knock(at, Duration::from_secs(5)).outcome, PortOutcome::Refused);
        socket.listen(1).unwrap();
        assert_eq!(knock(at, Duration::from_secs(5)).outcome, PortOutcome::Open);
    }
}
