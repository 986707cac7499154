//! Reading the handshake: the request to the acceptor and the hello.
//!
//! ```text
//! called    Request -- NID may be local --> Hello --> decided by the connections of the peer
//! calling                                   Hello --> decided by the connections of the peer
//! ```

use fulmar_lnd::NiConfig;
use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::socklnd::{ConnKind, Hello, Version};
use fulmar_lnet_wire::{Nid, Pid, ProcessId};
use fulmar_wire::{DecodeError, Order};

/// The byte order of all writes, so that traces are comparable.
pub(crate) const OUR_ORDER: Order = Order::Little;

/// Collects the request (on incoming connections) and the hello from any pieces of the stream.
#[derive(Debug)]
pub(crate) struct Handshake {
    stage: Stage,
    /// The partial message of the current stage; empty and without memory before its first byte.
    received: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Request,
    Hello,
}

/// The result of handling bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More bytes are needed.
    More,
    /// A request for this NID; its hello follows.
    Asked(Nid),
    /// A complete hello.
    Greeted(Hello, Order),
    /// A request of an unknown protocol or version.
    BadRequest(DecodeError),
    /// An invalid hello.
    BadHello(DecodeError),
}

impl Handshake {
    /// Starts the reader of an incoming connection.
    pub(crate) fn called() -> Self {
        Self { stage: Stage::Request, received: Vec::new() }
    }

    /// Starts the reader of a dialled connection.
    pub(crate) fn calling() -> Self {
        Self { stage: Stage::Hello, received: Vec::new() }
    }

    /// Returns how many bytes may be useful; fewer are accepted too.
    pub(crate) fn wanted(&self) -> usize {
        self.stage.len_max() - self.received.len()
    }

    /// Consumes bytes of one stage and returns how many. The rest belong to the next.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> (usize, Step) {
        let before = self.received.len();
        let taken = bytes.len().min(self.wanted());
        self.received.extend_from_slice(&bytes[..taken]);
        let (used, step) = match self.stage {
            Stage::Request => match ConnRequest::decode(&self.received) {
                Ok(None) => return (taken, Step::More),
                Ok(Some((request, used))) => {
                    self.stage = Stage::Hello;
                    (used, Step::Asked(request.target))
                }
                Err(error) => (self.received.len(), Step::BadRequest(error)),
            },
            Stage::Hello => match Hello::decode(&self.received) {
                Ok(None) => return (taken, Step::More),
                Ok(Some((hello, order, used))) => (used, Step::Greeted(hello, order)),
                Err(error) => (self.received.len(), Step::BadHello(error)),
            },
        };
        self.received = Vec::new();
        (used - before, step)
    }
}

impl Stage {
    fn len_max(self) -> usize {
        match self {
            Self::Request => ConnRequest::LEN_MAX,
            Self::Hello => Hello::LEN_MAX,
        }
    }
}

/// Returns the first bytes of a dialled connection.
pub(crate) fn call(ni: &NiConfig, peer: Nid, version: Version, kind: ConnKind) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ConnRequest::LEN_MAX + HELLO_LEN_MAX);
    ConnRequest { target: peer }.encode(&mut bytes);
    hello(ni, peer, version, kind).encode(OUR_ORDER, &mut bytes);
    bytes
}

/// Returns the answer to an incoming connection. [`ConnKind::NONE`] refuses it.
pub(crate) fn answer(ni: &NiConfig, peer: Nid, version: Version, kind: ConnKind) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HELLO_LEN_MAX);
    hello(ni, peer, version, kind).encode(OUR_ORDER, &mut bytes);
    bytes
}

/// Returns the answer to an unknown acceptor version.
pub(crate) fn refusal() -> Vec<u8> {
    let mut bytes = Vec::new();
    ConnRequest::encode_refusal(&mut bytes);
    bytes
}

/// Returns the default version for a NID.
pub(crate) fn default_version(nid: Nid, over_ipv4: Version) -> Version {
    if nid.is_large() { Version::V4 } else { over_ipv4 }
}

/// Length of the longest hello that is written, in bytes.
const HELLO_LEN_MAX: usize = 80;

fn hello(ni: &NiConfig, peer: Nid, version: Version, kind: ConnKind) -> Hello {
    Hello {
        version,
        source: ProcessId::lustre(ni.nid),
        // The receiver ignores the target PID and incarnation; kernels write zeros.
        target: ProcessId { nid: peer, pid: Pid(0) },
        source_incarnation: ni.incarnation,
        target_incarnation: 0,
        kind,
        ips: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ni() -> NiConfig {
        NiConfig {
            nid: Nid::small(fulmar_lnet_wire::Net::TCP, 0x0a00_0001),
            tunables: Default::default(),
            incarnation: 1_787_000_000_123_456_789,
            conns_per_peer: 1,
            conns_max: 1,
            timeout: None,
        }
    }
    const PEER: Nid = Nid::small(fulmar_lnet_wire::Net::TCP, 0x0a00_0002);

    #[test]
    fn a_request_is_read_in_any_pieces_and_the_rest_is_left() {
        let mut bytes = call(&ni(), PEER, Version::V3, ConnKind::BULK_IN);
        assert_eq!(bytes.len(), 16 + 56);
        bytes.extend([0xc1; 24]);
        for chunk in 1..bytes.len() {
            let mut handshake = Handshake::called();
            let (mut at, mut steps) = (0, Vec::new());
            while steps.len() < 2 {
                let end = bytes.len().min(at + chunk);
                let (used, step) = handshake.take(&bytes[at..end]);
                at += used;
                if step != Step::More {
                    steps.push(step);
                }
            }
            assert_eq!(at, 72);
            assert_eq!(steps[0], Step::Asked(PEER));
            let hello = hello(&ni(), PEER, Version::V3, ConnKind::BULK_IN);
            assert_eq!(steps[1], Step::Greeted(hello, Order::Little));
        }
    }

    #[test]
    fn a_refusal_is_not_a_hello() {
        let (used, step) = Handshake::calling().take(&refusal());
        assert_eq!((used, step), (16, Step::BadHello(DecodeError::Magic { got: 0xacce_7100 })));
    }
}
