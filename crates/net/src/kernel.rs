//! What the kernel tells of sockets and of its clock, for those who examine a path.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// How a TCP connection fares, as the kernel counts it since the connection was opened. What an old
/// kernel does not count is 0. See tcp(7).
#[doc(alias = "tcp_info")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Segments with data that were sent.
    pub segments: u32,
    /// Payload of a full segment, in bytes.
    pub segment_size: u32,
    /// The path's MTU as TCP has it, in bytes.
    pub path_mtu: u32,
    /// The congestion window, in bytes.
    pub window: u64,
    /// The smoothed round trip.
    pub round_trip: Duration,
    /// The shortest round trip.
    pub round_trip_min: Duration,
    /// How long there was something to send.
    pub busy: Duration,
    /// How much of that it was the receiver's window that kept it back.
    pub receiver_limited: Duration,
    /// How much of that it was the send buffer that kept it back.
    pub buffer_limited: Duration,
}

/// Asks the kernel about a TCP connection.
///
/// # Errors
/// If the socket is none.
pub fn tcp_state(socket: impl AsFd) -> io::Result<TcpState> {
    let mut info = RawTcpInfo::default();
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is numbers, and how many to
    // `len`.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // No sample has been taken where all bits are set.
    let shortest = if info.min_rtt == u32::MAX { 0 } else { info.min_rtt };
    Ok(TcpState {
        retransmits: info.total_retrans,
        segments: info.data_segs_out,
        segment_size: info.snd_mss,
        path_mtu: info.pmtu,
        window: u64::from(info.snd_cwnd) * u64::from(info.snd_mss),
        round_trip: micros(info.rtt),
        round_trip_min: micros(shortest),
        busy: Duration::from_micros(info.busy_time),
        receiver_limited: Duration::from_micros(info.rwnd_limited),
        buffer_limited: Duration::from_micros(info.sndbuf_limited),
    })
}

fn micros(micros: u32) -> Duration {
    Duration::from_micros(micros.into())
}

/// The beginning of `struct tcp_info` of linux/tcp.h, of which C libraries know less than kernels.
#[repr(C)]
#[derive(Default)]
struct RawTcpInfo {
    bytes: [u8; 8],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    since: [u32; 4],
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
}

/// How the kernel's clock is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Whether something keeps it right, such as chrony.
    pub synchronised: bool,
    /// How wrong it may be at most, by its keeper's word.
    pub error_max: Duration,
}

/// Asks the kernel how its clock is kept; nothing is changed.
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
    use std::mem::offset_of;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_that_carried_something_tells_of_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        here.write_all(&[7; 1000]).unwrap();
        there.read_exact(&mut [0; 1000]).unwrap();
        let state = tcp_state(&here).unwrap();
        assert!(state.segments >= 1 && state.segment_size > 500, "{state:?}");
        assert!(state.window > 0 && state.path_mtu > 0 && state.round_trip > Duration::ZERO);
        assert!(state.receiver_limited <= state.busy, "{state:?}");
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_state(&udp).is_err(), "no TCP");
    }

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(offset_of!(RawTcpInfo, total_retrans), 100);
        assert_eq!(offset_of!(RawTcpInfo, min_rtt), 148);
        assert_eq!(offset_of!(RawTcpInfo, sndbuf_limited), 184);
    }

    #[test]
    fn the_clock_says_how_it_is_kept() {
        let state = clock_state().unwrap();
        assert!(state.synchronised || state.error_max > Duration::ZERO, "{state:?}");
    }
}
