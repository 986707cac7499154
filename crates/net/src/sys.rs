//! System calls that take raw addresses, which no safe wrapper offers.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::time::Duration;

use smallvec::SmallVec;

use crate::memory::{Memory, Piece};

/// Parts of memory for the kernel to read or write in order, whose owners are borrowed.
struct Ranges<'a> {
    list: SmallVec<[libc::iovec; INLINE]>,
    len: usize,
    _borrowed: PhantomData<&'a ()>,
}

impl Ranges<'_> {
    fn new() -> Self {
        Self { list: SmallVec::new(), len: 0, _borrowed: PhantomData }
    }

    /// Appends a part; returns whether there is room for another.
    fn push(&mut self, start: *mut u8, len: usize) -> bool {
        if len > 0 && !self.is_full() {
            self.list.push(libc::iovec { iov_base: start.cast(), iov_len: len });
            self.len += len;
        }
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.list.len() == RANGES_MAX
    }
}

/// Memory for the kernel to read.
pub(crate) struct Sources<'a>(Ranges<'a>);

impl<'a> Sources<'a> {
    pub(crate) fn new() -> Self {
        Self(Ranges::new())
    }

    pub(crate) fn push_bytes(&mut self, bytes: &'a [u8]) {
        self.0.push(bytes.as_ptr().cast_mut(), bytes.len());
    }

    /// Appends the rest of a piece after `skip` bytes, as far as there is room.
    pub(crate) fn push_piece(&mut self, piece: &'a Piece, skip: usize) {
        piece.for_each_range(skip, |start, len| self.0.push(start, len));
    }

    /// Appends the rest of a memory after `skip` bytes, as far as there is room.
    pub(crate) fn push_memory(&mut self, memory: &'a Memory, skip: usize) {
        memory.for_each_range(skip, |start, len| self.0.push(start, len));
    }

    /// Returns how many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether nothing more can be appended.
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }
}

/// Memory for the kernel to write.
pub(crate) struct Sinks<'a>(Ranges<'a>);

impl<'a> Sinks<'a> {
    pub(crate) fn new() -> Self {
        Self(Ranges::new())
    }

    pub(crate) fn push_bytes(&mut self, bytes: &'a mut [u8]) {
        self.0.push(bytes.as_mut_ptr(), bytes.len());
    }

    /// Appends the rest of a piece after `skip` bytes, as far as there is room. Returns whether
    /// all of it is there.
    pub(crate) fn push_piece(&mut self, piece: &'a Piece, skip: usize) -> bool {
        let before = self.0.len;
        piece.for_each_range(skip, |start, len| self.0.push(start, len));
        self.0.len - before == piece.len() - skip
    }

    /// Appends the rest of a memory after `skip` bytes, as far as there is room.
    pub(crate) fn push_memory(&mut self, memory: &'a Memory, skip: usize) {
        memory.for_each_range(skip, |start, len| self.0.push(start, len));
    }

    /// Returns how many bytes there is room for.
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }
}

/// The number of parts that need no allocation: some small messages, each with its header.
const INLINE: usize = 128;
/// The most parts of one system call: `UIO_MAXIOV` of Linux.
const RANGES_MAX: usize = 1024;

/// Receives available bytes into `sinks`, in order, without waiting. Returns 0 at the end of the
/// stream.
pub(crate) fn receive(socket: BorrowedFd<'_>, sinks: &Sinks<'_>) -> io::Result<usize> {
    let fd = socket.as_raw_fd();
    if let [sink] = sinks.0.list[..] {
        // SAFETY: the sink names memory that may be written (see below). This is the cheaper call.
        return check(|| unsafe {
            libc::recv(fd, sink.iov_base, sink.iov_len, libc::MSG_DONTWAIT)
        });
    }
    let mut message = header(&sinks.0);
    // SAFETY: the header names the list of sinks, and each of them memory that may be written: bytes
    // borrowed exclusively, or part of a memory that is held (see there).
    check(|| unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) })
}

/// Sends as much of `sources`, in order, as the socket accepts without waiting.
pub(crate) fn send(socket: BorrowedFd<'_>, sources: &Sources<'_>) -> io::Result<usize> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    if let [source] = sources.0.list[..] {
        // SAFETY: the source names memory that may be read (see below). This is the cheaper call.
        return check(|| unsafe { libc::send(fd, source.iov_base, source.iov_len, flags) });
    }
    let message = header(&sources.0);
    // SAFETY: the header names the list of sources, which is only read, and each of them memory that
    // is borrowed or part of a memory that is held.
    check(|| unsafe { libc::sendmsg(fd, &raw const message, flags) })
}

fn header(ranges: &Ranges<'_>) -> libc::msghdr {
    // SAFETY: a msghdr is numbers and pointers, for all of which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // The kernel only reads the list.
    message.msg_iov = ranges.list.as_ptr().cast_mut();
    message.msg_iovlen = ranges.list.len() as _;
    message
}

/// Reads a range of a file into `sinks`, in order. Returns 0 at its end.
pub(crate) fn read_file(file: BorrowedFd<'_>, sinks: &Sinks<'_>, offset: u64) -> io::Result<usize> {
    let (fd, list) = (file.as_raw_fd(), &sinks.0.list);
    let (count, offset) = (list.len() as libc::c_int, file_offset(offset)?);
    // SAFETY: as in `receive`.
    check(|| unsafe { libc::preadv(fd, list.as_ptr(), count, offset) })
}

/// Writes `sources`, in order, to a range of a file.
pub(crate) fn write_file(
    file: BorrowedFd<'_>,
    sources: &Sources<'_>,
    offset: u64,
) -> io::Result<usize> {
    let (fd, list) = (file.as_raw_fd(), &sources.0.list);
    let (count, offset) = (list.len() as libc::c_int, file_offset(offset)?);
    // SAFETY: as in `send`.
    check(|| unsafe { libc::pwritev(fd, list.as_ptr(), count, offset) })
}

fn file_offset(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Maps pages of zeros, which the kernel provides when they are first touched.
pub(crate) fn map_pages(len: usize) -> io::Result<NonNull<u8>> {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of its own touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => Ok(start),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the pages of [`map_pages`].
///
/// # Safety
/// They were mapped with this length, and are no longer accessed.
pub(crate) unsafe fn unmap_pages(start: NonNull<u8>, len: usize) {
    // SAFETY: by the contract of this function.
    unsafe { libc::munmap(start.as_ptr().cast(), len) };
}

/// The state of a TCP connection in the kernel.
pub(crate) struct TcpInfo {
    /// Segments in flight that the peer has not acknowledged.
    pub(crate) unacked: u32,
    /// Consecutive retransmissions without an answer.
    pub(crate) unanswered: u32,
    /// Time since anything was received from the peer.
    pub(crate) silence: Duration,
    pub(crate) limits: Limits,
}

/// How long TCP has been sending on a connection, what limited it meanwhile, and its round trips.
/// See tcp(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) busy: Duration,
    /// The window of the receiver was full.
    pub(crate) receiver: Duration,
    /// The send buffer was full.
    pub(crate) buffer: Duration,
    /// The smoothed round trip, and the shortest one.
    pub(crate) round_trip: Duration,
    pub(crate) round_trip_min: Duration,
}

/// Queries the kernel about a TCP connection; `None` if the socket is not one.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    let info = raw_tcp_info(socket).ok()?;
    Some(TcpInfo {
        unacked: info.unacked,
        unanswered: info.retransmits.into(),
        silence: Duration::from_millis(info.last_ack_recv.into()),
        limits: Limits {
            busy: Duration::from_micros(info.busy_time),
            receiver: Duration::from_micros(info.rwnd_limited),
            buffer: Duration::from_micros(info.sndbuf_limited),
            round_trip: Duration::from_micros(info.rtt.into()),
            round_trip_min: Duration::from_micros(info.min_rtt.into()),
        },
    })
}

/// The start of `struct tcp_info` of linux/tcp.h; the definitions of C libraries are shorter.
/// Fields that a kernel does not have are 0.
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
    pub(crate) rtt: u32,
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

/// Queries the kernel about a TCP connection.
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

/// Sets the longest interval between retransmissions. Kernels before Linux 6.15 do not support
/// that, and double the interval each time, up to two minutes.
pub(crate) fn try_again_often(socket: BorrowedFd<'_>, apart: Duration) {
    /// `TCP_RTO_MAX_MS` of Linux.
    const RTO_MAX_MS: libc::c_int = 44;
    let ms = libc::c_int::try_from(apart.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads `size_of_val(&ms)` bytes of `ms`. It may refuse, as described above.
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

/// Lets a socket accept no more than about this number of bytes that cannot be sent yet.
pub(crate) fn limit_unsent(socket: BorrowedFd<'_>, bytes: u32) {
    // SAFETY: the kernel reads `size_of_val(&bytes)` bytes of `bytes`.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        );
    }
}

/// Makes the send buffer of a connection larger than the system's limit. Returns false if this
/// process may not: that takes CAP_NET_ADMIN.
pub(crate) fn force_send_buffer(socket: BorrowedFd<'_>, bytes: usize) -> bool {
    // The kernel doubles it, for the overhead of packets.
    let half = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads `size_of_val(&half)` bytes of `half`.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            (&raw const half).cast(),
            size_of_val(&half) as libc::socklen_t,
        )
    };
    failed == 0
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
    use crate::memory::Buffer;
    use std::mem::offset_of;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn piece(buffer: &Buffer, offset: usize, len: usize) -> Piece {
        Piece::new(buffer.into(), offset, len)
    }

    #[test]
    fn ranges_are_sent_and_received_in_order() {
        let (a, b) = UnixStream::pair().unwrap();
        let (from, to) = (Buffer::new(8), Buffer::new(8));
        from.write_at(0, b"01234567");
        let payload = piece(&from, 2, 4);
        let mut sources = Sources::new();
        sources.push_bytes(b"ead");
        sources.push_piece(&payload, 0);
        assert_eq!((sources.len(), send(a.as_fd(), &sources).unwrap()), (7, 7));
        let mut head = [0; 3];
        let target = piece(&to, 0, 8);
        let mut sinks = Sinks::new();
        sinks.push_bytes(&mut head);
        assert!(sinks.push_piece(&target, 1));
        assert_eq!((sinks.len(), receive(b.as_fd(), &sinks).unwrap()), (10, 7));
        assert_eq!((&head, to.to_vec(0, 8).as_slice()), (b"ead", b"\x002345\0\0\0".as_slice()));
        let mut sinks = Sinks::new();
        sinks.push_piece(&target, 0);
        let error = receive(b.as_fd(), &sinks).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(a);
        assert_eq!(receive(b.as_fd(), &sinks).unwrap(), 0);
    }

    #[test]
    fn no_more_ranges_are_named_than_a_system_call_takes() {
        let buffer = Buffer::new(2 * RANGES_MAX);
        let bytes = (0..2 * RANGES_MAX).map(|n| buffer.slice(n..=n));
        let memory = Memory::gather(bytes.collect::<Vec<_>>()).unwrap();
        let piece = Piece::new(memory, 0, 2 * RANGES_MAX);
        let mut sources = Sources::new();
        sources.push_piece(&piece, 10);
        assert_eq!((sources.len(), sources.is_full()), (RANGES_MAX, true));
        let mut sinks = Sinks::new();
        assert!(!sinks.push_piece(&piece, 0), "not all of it is there");
        assert_eq!(sinks.len(), RANGES_MAX);
    }

    #[test]
    fn the_layout_is_the_kernels() {
        // The C library defines the start, linux/tcp.h the rest.
        assert_eq!(align_of::<RawTcpInfo>(), 8);
        assert_eq!(
            offset_of!(RawTcpInfo, retransmits),
            offset_of!(libc::tcp_info, tcpi_retransmits)
        );
        assert_eq!(offset_of!(RawTcpInfo, snd_mss), offset_of!(libc::tcp_info, tcpi_snd_mss));
        assert_eq!(offset_of!(RawTcpInfo, unacked), offset_of!(libc::tcp_info, tcpi_unacked));
        let received = offset_of!(libc::tcp_info, tcpi_last_ack_recv);
        assert_eq!(offset_of!(RawTcpInfo, last_ack_recv), received);
        assert_eq!(offset_of!(RawTcpInfo, snd_cwnd), offset_of!(libc::tcp_info, tcpi_snd_cwnd));
        assert_eq!(offset_of!(RawTcpInfo, total_retrans), 100);
        assert_eq!(offset_of!(RawTcpInfo, min_rtt), 148);
        assert_eq!(offset_of!(RawTcpInfo, data_segs_out), 156);
        assert_eq!(offset_of!(RawTcpInfo, sndbuf_limited), 184);
    }
}
