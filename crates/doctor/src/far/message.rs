//! What both ends say to each other.

use serde::{Deserialize, Serialize};

use super::{ECHO_MAX, LEARN_MAX, LOAD_MAX, PROBES_MAX, RATE_MAX, STREAMS_MAX};
use crate::evidence::Host;

/// The first frame on a connection to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Greeting {
    /// Begins an examination.
    Examine { version: u32, program: String },
    /// Adds a connection that will carry load.
    Attach { token: u64 },
}

/// What the examiner asks of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// What the host says of itself: [`Reply::Host`].
    Host,
    /// What time it is: [`Reply::Clock`].
    Clock,
    /// Datagrams of a size that may not be cut, to the examiner: [`Reply::Probed`].
    Probe { size: u32, count: u32 },
    /// What the kernel takes for the path's MTU after datagrams of a size that is too large, each of
    /// which the path has so long to refuse: [`Reply::Learned`].
    Learned { size: u32, millis: u64 },
    /// Datagrams will come: [`Reply::Ready`].
    FloodStart,
    /// No more will come: [`Reply::Seen`].
    FloodEnd,
    /// Datagrams to the examiner, at a rate on the wire of Ethernet: [`Reply::Flooded`], when they are
    /// sent.
    Flood { bits_per_second: u64, size: u32, millis: u64 },
    /// Data will come on attached connections: [`Reply::Ready`], then [`Reply::Streams`].
    Receive { streams: u32, millis: u64 },
    /// Data to the examiner on attached connections: the same replies.
    Send { streams: u32, millis: u64 },
    /// Messages are to be sent back on one attached connection: [`Reply::Ready`], then
    /// [`Reply::Ended`] when that connection has ended.
    Echo { millis: u64 },
}

impl Request {
    /// Returns what is wrong with a request: everything that an examiner chooses is bounded.
    pub(crate) fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: u64, max: u64| match value {
            1.. if value <= max => Ok(()),
            _ => Err(format!("{what} may be 1 to {max}, and not {value}")),
        };
        let long = LOAD_MAX.as_millis() as u64;
        let size = |size: u32| match size as usize {
            super::HEADER_LEN..=super::DATAGRAM_MAX => Ok(()),
            _ => Err(format!("a datagram has no {size} bytes")),
        };
        match *self {
            Self::Host | Self::Clock | Self::FloodStart | Self::FloodEnd => Ok(()),
            Self::Probe { size: len, count } => {
                size(len).and_then(|()| within("probes", count.into(), PROBES_MAX.into()))
            }
            Self::Learned { size: len, millis } => size(len)
                .and_then(|()| within("milliseconds", millis, LEARN_MAX.as_millis() as u64)),
            Self::Flood { bits_per_second, size: len, millis } => size(len)
                .and_then(|()| within("milliseconds", millis, long))
                .and_then(|()| within("bits per second", bits_per_second, RATE_MAX)),
            Self::Receive { streams, millis } | Self::Send { streams, millis } => {
                within("streams", streams.into(), STREAMS_MAX.into())
                    .and_then(|()| within("milliseconds", millis, long))
            }
            Self::Echo { millis } => within("milliseconds", millis, long),
        }
    }
}

/// Returns whether a message of so many bytes is sent back.
pub(crate) fn may_echo(len: u32) -> bool {
    (1..=ECHO_MAX).contains(&len)
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The examination begins.
    Welcome {
        version: u32,
        program: String,
        token: u64,
    },
    /// Another one is under way.
    Busy {
        with: String,
    },
    /// The request is not granted.
    Refused {
        why: String,
    },
    Host(Box<Host>),
    /// Nanoseconds since 1970.
    Clock {
        unix_ns: u64,
    },
    /// How many were sent, and whether the host's own interface refused the size.
    Probed {
        sent: u32,
        too_long_here: bool,
    },
    /// The path's MTU, in bytes of an IP packet, if the kernel could be asked.
    Learned {
        mtu: Option<u32>,
    },
    Ready,
    Seen(FloodSeen),
    Flooded {
        sent: u64,
        micros: u64,
    },
    Streams(StreamsSeen),
    Ended,
}

impl Reply {
    /// Returns its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Welcome { .. } => "a welcome",
            Self::Busy { .. } => "that it is busy",
            Self::Refused { .. } => "a refusal",
            Self::Host(_) => "with its host",
            Self::Clock { .. } => "with its clock",
            Self::Probed { .. } => "with probes",
            Self::Learned { .. } => "with an MTU",
            Self::Ready => "that it is ready",
            Self::Seen(_) => "what it has seen",
            Self::Flooded { .. } => "what it has sent",
            Self::Streams(_) => "with streams",
            Self::Ended => "that it has ended",
        }
    }
}

/// What was seen of datagrams at the end where they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FloodSeen {
    /// Datagrams that came.
    pub received: u64,
    /// Those that came after one that was sent later.
    pub reordered: u64,
    /// How much the time on the way varies from one to the next, in microseconds, smoothed as in
    /// RFC 3550.
    pub jitter_us: f64,
    /// From the first to the last, in microseconds.
    pub micros: u64,
    /// Datagrams that arrived, and for which the host had no room.
    pub overrun: u64,
}

/// What the sender's kernel counted on streams, all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamsSeen {
    /// Bytes that came, where they arrive.
    pub received: u64,
    /// How long that took, in microseconds.
    pub micros: u64,
    /// Bits per second in the second half of that time.
    pub settled: f64,
    /// Segments that were sent.
    pub segments: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// How long there was something to send, in microseconds.
    pub busy_us: u64,
    /// How much of that the receiver's window kept it back.
    pub receiver_limited_us: u64,
    /// How much of that the send buffer kept it back.
    pub buffer_limited_us: u64,
    /// The congestion windows at the end, in bytes.
    pub window: u64,
    /// The shortest round trip, in microseconds.
    pub round_trip_min_us: u64,
    /// Payload of a full segment.
    pub segment_size: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_an_examiner_chooses_has_a_bound() {
        let long = LOAD_MAX.as_millis() as u64;
        for good in [
            Request::Send { streams: STREAMS_MAX, millis: long },
            Request::Flood { bits_per_second: RATE_MAX, size: 1400, millis: 1 },
            Request::Probe { size: 9000, count: 1 },
        ] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        for bad in [
            Request::Send { streams: STREAMS_MAX + 1, millis: long },
            Request::Receive { streams: 0, millis: long },
            Request::Receive { streams: 1, millis: long + 1 },
            Request::Flood { bits_per_second: RATE_MAX + 1, size: 1400, millis: 1 },
            Request::Flood { bits_per_second: 1, size: 8, millis: 1 },
            Request::Probe { size: 70_000, count: 1 },
            Request::Probe { size: 1000, count: PROBES_MAX + 1 },
            Request::Learned { size: 9000, millis: 1001 },
            Request::Echo { millis: u64::MAX },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        assert!(may_echo(ECHO_MAX) && !may_echo(ECHO_MAX + 1) && !may_echo(0));
    }
}
