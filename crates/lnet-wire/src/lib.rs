//! Every LNet structure on TCP, as a value that encodes to the same bytes.
//!
//! Pure: the only place with the byte offsets of [NIDs](nid), the [acceptor's request](acceptor),
//! the [socklnd hello](socklnd::Hello) and [frames](socklnd::FrameHeader), the [LNet
//! header](header), the [ping info](ping) and the [selftest messages](selftest). It also parses the
//! [text](NidList) of NIDs and of sets of them.
//!
//! ```text
//! acceptor    the request with which a connection begins, to port 988             lnet-wire §3
//! socklnd     the hello of each side, then frames: a type, a checksum, two cookies  lnet-wire §4, §6
//! header      the LNet header of ACK, PUT, GET and REPLY                          lnet-wire §7
//! ping        the ping info: the NIDs of a node with their states                 lnet-wire §9
//! selftest    the messages of LNet selftest                                       lnet-selftest
//! ```
//!
//! Older nodes know NIDs with 4 bytes of address only, later ones also IPv6. Both forms are one
//! type, [`Nid`]; a header has the form that its connection has agreed on. In JSON a NID is its
//! text.
#![forbid(unsafe_code)]

pub mod acceptor;
pub mod header;
mod json;
pub mod nid;
mod nid_range;
mod nid_text;
mod number_list;
pub mod ping;
mod range;
pub mod selftest;
pub mod socklnd;

pub use header::{Body, Handle, Header, MessageType};
pub use nid::{Net, NetType, Nid, Pid, ProcessId};
pub use nid_range::{ExpandError, NetRange, NidList, NidRange};
pub use nid_text::NidError;
pub use number_list::{Mistake, NumberList, RangeError};
pub use range::{NidMatch, Selector};

/// The largest payload of one PUT or REPLY, in bytes.
#[doc(alias = "LNET_MTU")]
pub const MTU: u32 = 1 << 20;
/// How many portals a node has; valid indices are below this.
#[doc(alias = "MAX_PORTALS")]
pub const PORTALS: u32 = 64;
/// The portal of pings and pushes.
#[doc(alias = "LNET_RESERVED_PORTAL")]
pub const RESERVED_PORTAL: u32 = 0;
/// The match bits of pings and pushes.
#[doc(alias = "LNET_PROTO_PING_MATCHBITS")]
pub const PING_MATCH_BITS: u64 = 1 << 63;
