//! Settings, counters and views of the socket LND.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar_base::{ConnId, Time};
use fulmar_lnet_wire::socklnd::{ACCEPT_PORT, ConnKind, Version};
use fulmar_lnet_wire::{Nid, ProcessId};

use crate::AcceptNid;

/// Which incoming connections the acceptor accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptMode {
    /// Only those from a privileged source port, 1023 or lower.
    Secure,
    /// From any port. A peer on an unprivileged port whose NID has another address than its source
    /// address gets a separate identity.
    All,
    /// None.
    None,
}

/// Settings of all network interfaces. Defaults are those of a 2.17 node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which incoming connections are accepted.
    pub accept: AcceptMode,
    /// NIDs that may connect from other addresses than their own.
    pub accept_nid: Vec<AcceptNid>,
    /// The TCP port of the local listener and of peers.
    pub accept_port: u16,
    /// Their port for connections that carry bulk, if it is another one.
    pub accept_port_bulk: Option<u16>,
    /// Timeout of the request of an incoming connection, and again of its hello.
    pub accept_timeout: Duration,
    /// Timeout of any other stall: an answer, or a partly read or written message.
    #[doc(alias = "sock_timeout")]
    pub timeout: Duration,
    /// The first delay before a failed peer is dialled again.
    #[doc(alias = "min_reconnectms")]
    pub reconnect_min: Duration,
    /// The longest such delay.
    #[doc(alias = "max_reconnectms")]
    pub reconnect_max: Duration,
    /// Send a keepalive after this silence; zero for never.
    pub keepalive: Duration,
    /// The smallest message, headers included, that prefers a bulk connection.
    pub min_bulk: u32,
    /// The least payload for which the peer is requested to acknowledge the message, which is
    /// `Sent` and returns its credits only then. A kernel does so from 16 KiB. `None`: never, so
    /// that credits are not held for a round trip. Spec: lnet-wire §6.3.
    pub zc_min_payload: Option<u32>,
    /// Send checksums on version 2 connections.
    pub enable_csum: bool,
    /// The version offered first over IPv4; tests and old peers need less than 3.
    pub version: Version,
    /// The largest number of incoming connections. If there are as many, idle ones give way.
    pub incoming_max: usize,
    /// The largest number of those that are in their handshake or whose peer has not sent a message
    /// yet, and at most half of all. They give way to more, those of an address with many first.
    pub handshakes_max: usize,
    /// The largest number of those from one address; the oldest give way to more.
    pub handshakes_per_address: usize,
}

impl Config {
    /// Returns the ports to listen at.
    pub fn accept_ports(&self) -> impl Iterator<Item = u16> + use<> {
        let bulk = self.accept_port_bulk.filter(|port| *port != self.accept_port);
        [Some(self.accept_port), bulk].into_iter().flatten()
    }

    /// Returns the port of peers for connections of a kind. Spec: lnet-wire §3.1.
    pub fn port_of(&self, kind: ConnKind) -> u16 {
        match kind {
            ConnKind::CONTROL => self.accept_port,
            _ => self.accept_port_bulk.unwrap_or(self.accept_port),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            accept: AcceptMode::Secure,
            accept_nid: Vec::new(),
            accept_port: ACCEPT_PORT,
            accept_port_bulk: None,
            accept_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(50),
            reconnect_min: Duration::from_secs(1),
            reconnect_max: Duration::from_secs(60),
            keepalive: Duration::from_secs(30),
            min_bulk: 1024,
            zc_min_payload: None,
            enable_csum: false,
            version: Version::V3,
            incoming_max: usize::MAX,
            handshakes_max: 4096,
            handshakes_per_address: 64,
        }
    }
}

/// Counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counters {
    pub accepted: u64,
    pub dialled: u64,
    pub dial_failures: u64,
    pub handshake_failures: u64,
    pub refused_unprivileged: u64,
    pub refused_handshakes: u64,
    pub gave_way: u64,
    pub refused_nid: u64,
    pub refused_identity: u64,
    pub refused_races: u64,
    pub malformed: u64,
    pub silent: u64,
    pub checksum_errors: u64,
    pub unknown_cookies: u64,
    pub late_cookies: u64,
    pub stalled: u64,
    pub retired: u64,
    pub keepalives_sent: u64,
    pub keepalives_received: u64,
    pub zc_acks_sent: u64,
    pub zc_acks_received: u64,
    pub messages_sent: u64,
    pub messages_received: u64,
    pub payload_sent: u64,
    pub payload_received: u64,
}

/// An open connection, for `lctl conn_list`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ConnInfo {
    pub conn: ConnId,
    pub ni: Nid,
    pub peer: ProcessId,
    pub kind: ConnKind,
    pub version: Version,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Bytes passed to the owner and not yet accepted by the socket.
    pub queued: u64,
    pub opened: Time,
}

/// A peer with connections, or with attempts to connect, for `lctl peer_list`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PeerInfo {
    pub ni: Nid,
    pub peer: ProcessId,
    /// Whether this node dials it, instead of only answering.
    pub dials: bool,
    pub remote: Option<SocketAddr>,
    pub conns: usize,
    pub queued_messages: usize,
}
