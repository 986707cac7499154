//! The state of sockets and of the clock in the kernel, for the examination of a path.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys;

/// The counters of a TCP connection in the kernel, since the connection was opened. Counters that
/// an old kernel does not have are 0. See tcp(7).
#[doc(alias = "tcp_info")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Segments that were retransmitted.
    pub retransmits: u32,
    /// Segments with data that were sent.
    pub segments: u32,
    /// Payload of a full segment, in bytes.
    pub segment_size: u32,
    /// The congestion window, in bytes.
    pub window: u64,
    /// The shortest round trip.
    pub round_trip_min: Duration,
    /// How long there was something to send.
    pub busy: Duration,
    /// How much of that the receiver's window limited it.
    pub receiver_limited: Duration,
    /// How much of that the send buffer limited it.
    pub buffer_limited: Duration,
}

/// Queries the kernel about a TCP connection.
///
/// # Errors
/// If the socket is not one.
pub fn tcp_state(socket: impl AsFd) -> io::Result<TcpState> {
    let info = sys::raw_tcp_info(socket.as_fd())?;
    // No sample has been taken where all bits are set.
    let shortest = if info.min_rtt == u32::MAX { 0 } else { info.min_rtt };
    Ok(TcpState {
        retransmits: info.total_retrans,
        segments: info.data_segs_out,
        segment_size: info.snd_mss,
        window: u64::from(info.snd_cwnd) * u64::from(info.snd_mss),
        round_trip_min: Duration::from_micros(shortest.into()),
        busy: Duration::from_micros(info.busy_time),
        receiver_limited: Duration::from_micros(info.rwnd_limited),
        buffer_limited: Duration::from_micros(info.sndbuf_limited),
    })
}

/// Returns the processor time of this process.
pub fn processor_time() -> Duration {
    Duration::from_nanos(sys::processor_time())
}

/// The synchronisation of the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Whether it is synchronised, for example by chrony.
    pub synchronised: bool,
    /// The maximum error that the synchronising program reports.
    pub error_max: Duration,
}

/// Queries the synchronisation of the kernel's clock; nothing is changed.
///
/// # Errors
/// What the system refused.
pub fn clock_state() -> io::Result<ClockState> {
    // SAFETY: a timex is numbers, for all of which zero is a value; no modes ask for a reading.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one timex.
    if unsafe { libc::adjtimex(&raw mut timex) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let error = u64::try_from(timex.maxerror).unwrap_or(0);
    Ok(ClockState {
        synchronised: timex.status & libc::STA_UNSYNC == 0,
        error_max: Duration::from_micros(error),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn counters_of_a_used_connection_are_not_zero() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        here.write_all(&[7; 1000]).unwrap();
        there.read_exact(&mut [0; 1000]).unwrap();
        let state = tcp_state(&here).unwrap();
        assert!(state.segments >= 1 && state.segment_size > 500, "{state:?}");
        assert!(state.window > 0 && state.round_trip_min > Duration::ZERO, "{state:?}");
        assert!(state.receiver_limited <= state.busy, "{state:?}");
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_state(&udp).is_err(), "no TCP");
    }

    #[test]
    fn the_state_of_the_clock_is_readable() {
        let state = clock_state().unwrap();
        assert!(state.synchronised || state.error_max > Duration::ZERO, "{state:?}");
    }
}
