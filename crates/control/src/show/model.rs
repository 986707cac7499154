//! What the control socket shows in addition to the views of LNet: configuration, results of queries,
//! and the socket LND.

use std::net::SocketAddr;

use fulmar_lnet::views;
use fulmar_lnet_wire::{Nid, ProcessId};
use serde::{Deserialize, Serialize};

use crate::config::GlobalKey;

/// A network of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Net {
    pub net: fulmar_lnet_wire::Net,
    pub nis: Vec<Ni>,
}

/// A network interface of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Ni {
    /// Its state in LNet.
    #[serde(flatten)]
    pub view: views::Ni,
    /// On a router, seconds since the last message from the network.
    pub alive: Option<u64>,
    /// Its name; `0@lo` has none.
    pub interface: Option<String>,
    /// The name alone does not select its address.
    #[serde(default)]
    pub is_secondary: bool,
    /// `0@lo` has none.
    pub lnd: Option<LndTunables>,
    /// The NUMA node of the device, −1 if unknown.
    pub dev_cpt: i32,
    pub cpts: Vec<u32>,
    pub refs: u32,
}

/// The settings of the socket LND for an NI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct LndTunables {
    pub conns_per_peer: u32,
    /// Seconds.
    pub timeout: u32,
    /// The time is its own, not that of the node.
    #[serde(default)]
    pub own_timeout: bool,
    pub tos: i32,
}

/// The global values, in order.
pub type Globals = Vec<(GlobalKey, u32)>;

/// Returns the global values, including computed ones.
pub fn globals(globals: &fulmar_lnet::Globals) -> Globals {
    GlobalKey::ALL.map(|key| (key, key.get(globals))).to_vec()
}

/// The answer of another node to a ping, or its state after a discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Reply {
    pub primary: Nid,
    pub multi_rail: bool,
    /// Without `0@lo`.
    pub nids: Vec<Nid>,
}

/// The result of the ping or discovery of one NID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The NID that was pinged.
    pub nid: Nid,
    /// The reply, or a positive error number.
    pub result: Result<Reply, i32>,
}

/// An open connection of the socket LND.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Connection {
    pub peer: ProcessId,
    /// `C` control, `I` bulk in, `O` bulk out, `A` any.
    pub kind: char,
    pub cpt: u32,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Bytes of the socket's buffers.
    pub send_buffer: u32,
    pub receive_buffer: u32,
    pub nagle: bool,
}

/// A peer of the socket LND.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SocklndPeer {
    pub peer: ProcessId,
    /// The local and the remote address, if this node dials the peer.
    pub dials: Option<(std::net::IpAddr, SocketAddr)>,
    pub connections: u32,
}

/// An interface that the socket LND uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SocklndInterface {
    pub ip: std::net::IpAddr,
    /// The length of the network prefix.
    pub prefix: u8,
    pub peers: u32,
    pub routes: u32,
}

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $key:ident),+ $(,)?) => {
        /// The counters of the socket LND.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct SocklndCounters { $( $(#[doc = $help])+ pub $key: u64, )+ }

        impl SocklndCounters {
            /// Returns the name, the description and the value of each counter.
            pub fn named(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$( (stringify!($key), concat!($($help),+), self.$key), )+]
            }
        }

        impl From<&fulmar_socklnd::Counters> for SocklndCounters {
            fn from(counters: &fulmar_socklnd::Counters) -> Self {
                Self { $( $key: counters.$key, )+ }
            }
        }
    };
}

counters! {
    /// Connections that peers opened.
    accepted,
    /// Connections that this node opened.
    dialled,
    /// Connections that could not be opened.
    dial_failures,
    /// Connections that ended in their handshake.
    handshake_failures,
    /// Connections refused because the source port is not privileged.
    refused_unprivileged,
    /// Connections closed because too many were in their handshake.
    refused_handshakes,
    /// Connections closed because others needed the place of an idle peer.
    gave_way,
    /// Connections refused because they claimed a NID with another address.
    refused_identity,
    /// Connections refused because they requested a NID of another node.
    refused_nid,
    /// Connections refused in favour of an outgoing one to the same peer.
    refused_races,
    /// Connections closed because received bytes violate the protocol.
    malformed,
    /// Connections closed because nothing was received in time.
    silent,
    /// Messages whose checksum was wrong.
    checksum_errors,
    /// Zero-copy acknowledgements of unknown messages.
    unknown_cookies,
    /// Zero-copy acknowledgements of messages that ended with an earlier connection.
    late_cookies,
    /// Connections closed because a message stalled.
    stalled,
    /// Connections retired because their link went down or nothing arrived.
    retired,
    /// Keepalives sent.
    keepalives_sent,
    /// Keepalives received.
    keepalives_received,
    /// Zero-copy acknowledgements sent.
    zc_acks_sent,
    /// Zero-copy acknowledgements received.
    zc_acks_received,
    /// LNet messages sent.
    messages_sent,
    /// LNet messages received.
    messages_received,
    /// Payload bytes sent.
    payload_sent,
    /// Payload bytes received.
    payload_received,
}

impl From<fulmar_lnet::PingReply> for Reply {
    fn from(reply: fulmar_lnet::PingReply) -> Self {
        Self { primary: reply.primary, multi_rail: reply.multi_rail, nids: reply.nids }
    }
}
