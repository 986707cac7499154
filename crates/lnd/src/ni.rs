//! Network interfaces (NIs) and their tunables.

use std::time::Duration;

use fulmar_lnet_wire::Nid;
use serde::{Deserialize, Serialize};

/// One network interface of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiConfig {
    /// Its NID. The type of its network decides which LND serves it.
    pub nid: Nid,
    /// Its credits.
    pub tunables: NiTunables,
    /// Nanoseconds of wall-clock time at its start; constant while it exists, and never reused.
    pub incarnation: u64,
    /// Connections of each bulk type that the socket LND opens to a peer; at least 1.
    pub conns_per_peer: u32,
    /// The most connections that it opens for outgoing bulk where TCP windows limit the throughput.
    /// No effect unless it is larger than `conns_per_peer`.
    pub conns_max: u32,
    /// How long its LND waits at most for a peer; the time of the LND itself if `None`.
    pub timeout: Option<Duration>,
}

/// The credits of a network interface. Defaults are those of socklnd. Spec: lnet-behaviour §6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NiTunables {
    /// Seconds; above 0 a router monitors its peers.
    pub peer_timeout: i32,
    /// Messages that may be in flight to one peer NI.
    pub peer_credits: u32,
    /// Messages that may be forwarded from one peer NI at the same time; 0 for `peer_credits`.
    pub peer_buffer_credits: u32,
    /// Messages that may be in flight on the interface.
    pub credits: u32,
}

impl Default for NiTunables {
    fn default() -> Self {
        Self { peer_timeout: 180, peer_credits: 8, peer_buffer_credits: 0, credits: 256 }
    }
}
