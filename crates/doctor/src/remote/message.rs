//! The messages of the protocol.

use serde::{Deserialize, Serialize};

use super::{ECHO_MAX, LEARN_MAX, LOAD_MAX, PROBES_MAX, RATE_MAX, STREAMS_MAX};
use crate::evidence::Host;

/// The first frame on a connection to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Greeting {
    /// Starts an examination.
    Examine { version: u32, program: String },
    /// Adds a connection for a load.
    Attach { token: u64 },
}

/// A request of the examiner to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Requests the evidence of the host: [`Reply::Host`].
    Host,
    /// Requests the time: [`Reply::Clock`].
    Clock,
    /// Requests datagrams of a size that may not be fragmented: [`Reply::Probed`].
    Probe { size: u32, count: u32 },
    /// Requests the path MTU that the kernel assumes after datagrams of a size that is too large,
    /// with so long to wait for an ICMP error after each: [`Reply::Learned`].
    Learned { size: u32, millis: u64 },
    /// Announces datagrams: [`Reply::Ready`].
    FloodStart,
    /// Ends the datagrams: [`Reply::Seen`].
    FloodEnd,
    /// Requests datagrams at a rate on Ethernet: [`Reply::Flooded`] after the last one.
    Flood { bits_per_second: u64, size: u32, millis: u64 },
    /// Announces data on attached connections: [`Reply::Ready`], then [`Reply::Streams`].
    Receive { streams: u32, millis: u64 },
    /// Requests data on attached connections: the same replies.
    Send { streams: u32, millis: u64 },
    /// Requests that messages on one attached connection are sent back: [`Reply::Ready`], then
    /// [`Reply::Ended`] when that connection is closed.
    Echo { millis: u64 },
}

impl Request {
    /// Checks the values of a request against their limits. Returns the reason of a refusal.
    pub(crate) fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: u64, max: u64| match value {
            1.. if value <= max => Ok(()),
            _ => Err(format!("{value} {what}: the limit is 1 to {max}")),
        };
        let long = LOAD_MAX.as_millis() as u64;
        let size = |size: u32| match size as usize {
            super::HEADER_LEN..=super::DATAGRAM_MAX => Ok(()),
            _ => Err(format!("{size} is not a valid size of a datagram")),
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

/// Returns whether a message of so many bytes may be sent back.
pub(crate) fn may_echo(len: u32) -> bool {
    (1..=ECHO_MAX).contains(&len)
}

/// A reply of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The examination has started.
    Welcome {
        version: u32,
        program: String,
        token: u64,
    },
    /// Another examination is running.
    Busy {
        with: String,
    },
    /// The request is refused.
    Refused {
        why: String,
    },
    Host(Box<Host>),
    /// Nanoseconds since 1970.
    Clock {
        unix_ns: u64,
    },
    /// The number of sent probes, and whether the host's own interface refused the size.
    Probed {
        sent: u32,
        too_long_here: bool,
    },
    /// The path MTU in bytes of an IP packet, if known.
    Learned {
        mtu: Option<u32>,
    },
    Ready,
    Seen(FloodStats),
    Flooded {
        sent: u64,
        micros: u64,
    },
    Streams(StreamStats),
    Ended,
}

impl Reply {
    /// Returns its name for error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Welcome { .. } => "a welcome",
            Self::Busy { .. } => "a busy notice",
            Self::Refused { .. } => "a refusal",
            Self::Host(_) => "host evidence",
            Self::Clock { .. } => "a clock reading",
            Self::Probed { .. } => "a probe result",
            Self::Learned { .. } => "a path MTU",
            Self::Ready => "a ready notice",
            Self::Seen(_) => "datagram statistics",
            Self::Flooded { .. } => "a count of sent datagrams",
            Self::Streams(_) => "stream statistics",
            Self::Ended => "an end notice",
        }
    }
}

/// Statistics of received datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FloodStats {
    /// Received datagrams.
    pub received: u64,
    /// Those that arrived after one that was sent later.
    pub reordered: u64,
    /// Variation of the transit time between datagrams, smoothed as in RFC 3550, in microseconds.
    pub jitter_us: f64,
    /// Time from the first to the last, in microseconds.
    pub micros: u64,
    /// Datagrams that the host dropped because a receive buffer was full.
    pub overrun: u64,
}

/// Statistics of all streams of a load together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamStats {
    /// Received bytes; only from the receiver.
    pub received: u64,
    /// Duration of receiving, in microseconds.
    pub micros: u64,
    /// Rate of the second half of that time, in bits per second.
    pub settled: f64,
    /// Sent segments; this and the following are only from the sender.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Time with data to send, in microseconds.
    pub busy_us: u64,
    /// Part of that in which the receiver's window was the limit.
    pub receiver_limited_us: u64,
    /// Part of that in which the send buffer was the limit.
    pub buffer_limited_us: u64,
    /// Sum of the congestion windows at the end, in bytes.
    pub window: u64,
    /// The shortest round trip, in microseconds.
    pub round_trip_min_us: u64,
    /// Payload of a full segment, in bytes.
    pub segment_size: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_of_requests_are_limited() {
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
