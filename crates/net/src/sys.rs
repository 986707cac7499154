//! Reading and writing sockets by raw addresses, which no safe wrapper offers.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::buffer::Piece;

/// A place in memory for the kernel to read or write, while what it was made of is borrowed.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Slice<'a>(libc::iovec, PhantomData<&'a mut [u8]>);

impl<'a> Slice<'a> {
    /// Bytes to be written.
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Source<'a> {
        let slice = Self(raw(bytes.as_ptr().cast_mut(), bytes.len()), PhantomData);
        Source(slice)
    }

    /// Bytes to be received.
    pub(crate) fn of_bytes_mut(bytes: &'a mut [u8]) -> Self {
        Self(raw(bytes.as_mut_ptr(), bytes.len()), PhantomData)
    }

    /// Part of a buffer, for either.
    pub(crate) fn of_piece(piece: &'a Piece) -> Self {
        Self(raw(piece.pointer(), piece.len), PhantomData)
    }
}

/// A [`Slice`] that may only be written to a socket.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Source<'a>(Slice<'a>);

impl<'a> Source<'a> {
    /// Part of a buffer.
    pub(crate) fn of_piece(piece: &'a Piece) -> Self {
        Self(Slice::of_piece(piece))
    }

    /// Returns how many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.0.iov_len
    }

    /// Leaves out the first `count` bytes.
    pub(crate) fn skip(self, count: usize) -> Self {
        assert!(count <= self.len(), "{count} bytes are skipped of {}", self.len());
        let start = self.0.0.iov_base.cast::<u8>().wrapping_add(count);
        Self(Slice(raw(start, self.len() - count), PhantomData))
    }
}

fn raw(start: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: len }
}

/// Receives what is there into `slices`, in order, without waiting. Returns 0 at the end of the
/// stream.
pub(crate) fn receive(socket: BorrowedFd<'_>, slices: &mut [Slice<'_>]) -> io::Result<usize> {
    if let [Slice(slice, _)] = slices {
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: the slice names memory that may be written (see below). This is the cheaper call.
        return check(|| unsafe { libc::recv(fd, slice.iov_base, slice.iov_len, flags) });
    }
    let mut message = header(slices.as_mut_ptr().cast(), slices.len());
    // SAFETY: the header names `slices`, which have the layout of iovecs, and each of them memory
    // that may be written: bytes borrowed exclusively, or part of a buffer that is held (see there).
    check(|| unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })
}

/// Sends as much of `sources`, in order, as the socket takes without waiting.
pub(crate) fn send(socket: BorrowedFd<'_>, sources: &[Source<'_>]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    if let [Source(Slice(slice, _))] = sources {
        let fd = socket.as_raw_fd();
        // SAFETY: the slice names memory that may be read (see below). This is the cheaper call.
        return check(|| unsafe { libc::send(fd, slice.iov_base, slice.iov_len, flags) });
    }
    let message = header(sources.as_ptr().cast_mut().cast(), sources.len());
    // SAFETY: the header names `sources`, which have the layout of iovecs and are only read, and
    // each of them memory that is borrowed or part of a buffer that is held.
    check(|| unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })
}

fn header(slices: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: a msghdr is numbers and pointers, for all of which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices;
    message.msg_iovlen = count as _;
    message
}

/// What the kernel knows of a TCP connection.
pub(crate) struct TcpInfo {
    /// Segments that were sent again since the connection was opened.
    pub(crate) retransmits: u32,
    /// The congestion window in bytes.
    pub(crate) window: u32,
    /// Segments on their way that the peer has not acknowledged.
    pub(crate) unacked: u32,
    /// How often the same segment was sent again in vain.
    pub(crate) vain: u32,
    /// When the peer was last heard.
    pub(crate) silence: Duration,
}

/// Asks the kernel about a TCP connection; `None` if it has none there.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    let info = raw_tcp_info(socket).ok()?;
    Some(TcpInfo {
        retransmits: info.total_retrans,
        window: info.snd_cwnd.saturating_mul(info.snd_mss),
        unacked: info.unacked,
        vain: info.retransmits.into(),
        silence: Duration::from_millis(info.last_ack_recv.into()),
    })
}

/// The beginning of `struct tcp_info` of linux/tcp.h, of which C libraries know less than kernels.
/// What a kernel does not know is 0.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawTcpInfo {
    states: [u8; 2],
    pub(crate) retransmits: u8,
    options: [u8; 5],
    timeouts: [u32; 2],
    pub(crate) snd_mss: u32,
    rcv_mss: u32,
    pub(crate) unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last: [u32; 3],
    pub(crate) last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    pub(crate) snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    pub(crate) total_retrans: u32,
    pacing_rates: [u64; 2],
    bytes: [u64; 2],
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    pub(crate) min_rtt: u32,
    data_segs_in: u32,
    pub(crate) data_segs_out: u32,
    delivery_rate: u64,
    pub(crate) busy_time: u64,
    pub(crate) rwnd_limited: u64,
    pub(crate) sndbuf_limited: u64,
}

/// Asks the kernel about a TCP connection.
pub(crate) fn raw_tcp_info(socket: BorrowedFd<'_>) -> io::Result<RawTcpInfo> {
    let mut info = RawTcpInfo::default();
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is numbers, and how many to
    // `len`.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if failed == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

/// Has TCP send again what is not acknowledged at least so often. Kernels before Linux 6.15 cannot,
/// and wait twice as long each time, up to two minutes.
pub(crate) fn try_again_often(socket: BorrowedFd<'_>, apart: Duration) {
    /// `TCP_RTO_MAX_MS` of Linux.
    const RTO_MAX_MS: libc::c_int = 44;
    let ms = libc::c_int::try_from(apart.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads `size_of_val(&ms)` bytes of `ms`. That it may refuse is said above.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            RTO_MAX_MS,
            (&raw const ms).cast(),
            size_of_val(&ms) as libc::socklen_t,
        );
    }
}

/// Returns how many bytes of a TCP connection the peer has not acknowledged, sent or not.
pub(crate) fn outstanding(socket: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer to `bytes`.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if failed == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Returns how many nanoseconds this process has kept processors busy.
pub(crate) fn processor_time() -> u64 {
    // SAFETY: a rusage is numbers, for all of which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage to `usage`.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let nanoseconds = |time: libc::timeval| {
        let (seconds, micros) = (time.tv_sec as u64, time.tv_usec as u64);
        seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000)
    };
    match failed {
        0 => nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
        _ => 0,
    }
}

/// Repeats a call that a signal interrupted.
fn check(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Table;
    use std::mem::offset_of;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    #[test]
    fn slices_are_sent_and_received_in_order() {
        let (a, b) = UnixStream::pair().unwrap();
        let table = Arc::new(Table::default());
        let (from, to) = (table.allocate(8), table.allocate(8));
        from.write_at(0, b"01234567");
        let piece =
            |buffer: &crate::Buffer, offset, len| Piece { region: buffer.0.clone(), offset, len };
        let payload = piece(&from, 2, 4);
        let sources = [Slice::of_bytes(b"head").skip(1), Source::of_piece(&payload)];
        assert_eq!(send(a.as_fd(), &sources).unwrap(), 7);
        let mut head = [0; 3];
        let target = piece(&to, 1, 7);
        let mut slices = [Slice::of_bytes_mut(&mut head), Slice::of_piece(&target)];
        assert_eq!(receive(b.as_fd(), &mut slices).unwrap(), 7);
        assert_eq!((&head, to.to_vec(0, 8).as_slice()), (b"ead", b"\x002345\0\0\0".as_slice()));
        let error = receive(b.as_fd(), &mut [Slice::of_piece(&target)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(a);
        assert_eq!(receive(b.as_fd(), &mut [Slice::of_piece(&target)]).unwrap(), 0);
    }

    #[test]
    fn the_layout_is_the_kernels() {
        // The C library knows the beginning, linux/tcp.h the rest.
        assert_eq!(align_of::<RawTcpInfo>(), 8);
        assert_eq!(
            offset_of!(RawTcpInfo, retransmits),
            offset_of!(libc::tcp_info, tcpi_retransmits)
        );
        assert_eq!(offset_of!(RawTcpInfo, snd_mss), offset_of!(libc::tcp_info, tcpi_snd_mss));
        assert_eq!(offset_of!(RawTcpInfo, unacked), offset_of!(libc::tcp_info, tcpi_unacked));
        let heard = offset_of!(libc::tcp_info, tcpi_last_ack_recv);
        assert_eq!(offset_of!(RawTcpInfo, last_ack_recv), heard);
        assert_eq!(offset_of!(RawTcpInfo, snd_cwnd), offset_of!(libc::tcp_info, tcpi_snd_cwnd));
        assert_eq!(offset_of!(RawTcpInfo, total_retrans), 100);
        assert_eq!(offset_of!(RawTcpInfo, min_rtt), 148);
        assert_eq!(offset_of!(RawTcpInfo, data_segs_out), 156);
        assert_eq!(offset_of!(RawTcpInfo, sndbuf_limited), 184);
    }
}
