//! Network interfaces (NIs) and their tunables.

use fulmar_lnet_wire::Nid;

/// One network interface of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiConfig {
    /// Its NID. The type of its network says which LND serves it.
    pub nid: Nid,
    /// Its credits.
    pub tunables: NiTunables,
    /// Constant for the life of the interface and never used again: nanoseconds of wall clock.
    pub incarnation: u64,
    /// How many connections of each bulk kind the socket LND opens to a peer; at least 1.
    pub conns_per_peer: u32,
    /// How many it opens at most for bulk that it sends, where TCP windows limit the throughput; no
    /// more than `conns_per_peer` if it is not more.
    pub conns_max: u32,
}

/// The credits of a network interface. Defaults are those of socklnd. Spec: lnet-behaviour §6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiTunables {
    /// Seconds; above 0 a router watches its peers.
    pub peer_timeout: i32,
    /// Messages that may be on their way to one peer NI.
    pub peer_credits: u32,
    /// Messages that may be forwarded from one peer NI at once; 0 for `peer_credits`.
    pub peer_buffer_credits: u32,
    /// Messages that may be on their way through the interface.
    pub credits: u32,
}

impl Default for NiTunables {
    fn default() -> Self {
        Self { peer_timeout: 180, peer_credits: 8, peer_buffer_credits: 0, credits: 256 }
    }
}
