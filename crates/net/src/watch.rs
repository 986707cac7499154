//! What no I/O thread can see: a link that is down, a peer that acknowledges nothing, a TCP window that
//! limits the throughput.
//!
//! One thread of the runtime waits for netlink messages about links and addresses, and then scans all of
//! them: the content of a message does not matter. About once a second it checks the connections that
//! have been written to, until their peers have acknowledged everything. Idle connections cost nothing,
//! however many there are.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fulmar_lnet_wire::Nid;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use socket2::SockRef;
use tracing::warn;

use crate::conn::Conn;
use crate::interfaces;
use crate::lock::Lock;
use crate::runtime::{Message, Shared};
use crate::shared as node;
use crate::sys::{self, Limits, TcpInfo};

/// The list of what is watched.
pub(crate) struct Watch {
    /// An eventfd: something was added to an empty list, or the thread is to end.
    wake: OwnedFd,
    lists: Lock<Lists>,
    exit: AtomicBool,
}

#[derive(Default)]
struct Lists {
    /// Nodes with links to watch.
    nodes: Vec<Weak<node::Shared>>,
    conns: Vec<Entry>,
    /// An interface was added: its link may have changed before it was watched.
    added: bool,
}

/// A connection with bytes that were not acknowledged at the last check.
struct Entry {
    node: Weak<node::Shared>,
    conn: Weak<Conn>,
    /// The node was notified that nothing is acknowledged.
    silent: bool,
    /// The counters of TCP at the last check.
    limits: Option<Limits>,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { wake, lists: Lock::default(), exit: AtomicBool::new(false) })
    }

    /// Ends the thread.
    pub(crate) fn exit(&self) {
        self.exit.store(true, Ordering::Release);
        self.wake_thread();
    }

    /// Watches the link of an interface; `up` is the state that the node knows.
    pub(crate) fn add(&self, node: &Arc<node::Shared>, nid: Nid, up: bool) {
        node.links.lock().insert(nid, up);
        let mut lists = self.lists.lock();
        lists.nodes.retain(|node| node.strong_count() > 0);
        if !lists.nodes.iter().any(|known| known.as_ptr() == Arc::as_ptr(node)) {
            lists.nodes.push(Arc::downgrade(node));
        }
        lists.added = true;
        drop(lists);
        self.wake_thread();
    }

    /// Notes that a connection was written to. One that is listed costs the read of a flag.
    pub(crate) fn written(&self, node: &Arc<node::Shared>, conn: &Arc<Conn>) {
        if conn.watched.load(Ordering::Relaxed) || conn.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let (node, conn) = (Arc::downgrade(node), Arc::downgrade(conn));
        let mut lists = self.lists.lock();
        lists.conns.push(Entry { node, conn, silent: false, limits: None });
        let first = lists.conns.len() == 1;
        drop(lists);
        if first {
            self.wake_thread();
        }
    }

    /// The body of the thread.
    pub(crate) fn run(&self, runtime: &Shared) {
        let netlink = open_netlink();
        if let Err(error) = &netlink {
            warn!(
                "cannot subscribe to link changes ({error}): a link that goes down is only noticed \
                 when peers do not answer"
            );
        }
        let netlink = netlink.ok();
        let mut schedule = Schedule { conns: Instant::now(), failed: None };
        while !self.exit.load(Ordering::Acquire) {
            let idle = self.lists.lock().conns.is_empty();
            let changed = self.wait(netlink.as_ref(), schedule.timeout(Instant::now(), idle));
            // Cleared in any case: one scan sees both the change and the new interface.
            let added = std::mem::take(&mut self.lists.lock().added);
            let scan = || self.scan_links(runtime);
            if schedule.scan_links(Instant::now(), changed || added, scan) {
                // Of many changes in a row, one scan sees several.
                std::thread::sleep(PAUSE);
            }
            if schedule.conns.elapsed() >= INTERVAL {
                self.check_conns(runtime);
                schedule.conns = Instant::now();
            }
        }
    }

    fn wake_thread(&self) {
        // The counter cannot overflow: that takes 2^64 writes without a read.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits for netlink, for a wake-up or for the timeout; returns whether links may have changed.
    fn wait(&self, netlink: Option<&OwnedFd>, timeout: Option<Duration>) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        fds.extend(netlink.map(|netlink| PollFd::new(netlink, PollFlags::IN)));
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return false;
        }
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let ready = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        ready && netlink.is_some_and(drain)
    }

    /// Notifies the nodes of the links that have changed.
    fn scan_links(&self, runtime: &Shared) -> io::Result<()> {
        let found = interfaces::links()?;
        let nodes = self.lists.lock().nodes.clone();
        for node in nodes.iter().filter_map(Weak::upgrade) {
            for (&nid, known) in node.links.lock().iter_mut() {
                let up = nid.ip().is_some_and(|address| found.get(&address) == Some(&true));
                if std::mem::replace(known, up) != up {
                    runtime.post(node.home, Message::Link(node.clone(), nid, up));
                }
            }
        }
        Ok(())
    }

    fn check_conns(&self, runtime: &Shared) {
        let mut entries = std::mem::take(&mut self.lists.lock().conns);
        entries.retain_mut(|entry| entry.check(runtime));
        self.lists.lock().conns.append(&mut entries);
    }
}

/// When to scan links and check connections next.
struct Schedule {
    /// When the connections were last checked.
    conns: Instant,
    /// When a scan of the links failed. It is repeated, since netlink does not notify again.
    failed: Option<Instant>,
}

impl Schedule {
    /// Returns how long to wait if nothing is notified; `idle` if no connection is listed.
    fn timeout(&self, now: Instant, idle: bool) -> Option<Duration> {
        let conns = (!idle).then_some(self.conns);
        let last = conns.into_iter().chain(self.failed).min()?;
        Some(INTERVAL.saturating_sub(now.saturating_duration_since(last)))
    }

    /// Scans the links if that is `needed`, or if a failed scan is due again; returns whether it did.
    fn scan_links(
        &mut self,
        now: Instant,
        needed: bool,
        scan: impl FnOnce() -> io::Result<()>,
    ) -> bool {
        let again = self.failed.is_some_and(|at| now.saturating_duration_since(at) >= INTERVAL);
        if !needed && !again {
            return false;
        }
        let before = self.failed.take();
        if let Err(error) = scan() {
            self.failed = Some(now);
            if before.is_none() {
                warn!(
                    "cannot read the states of links ({error}): trying again every {INTERVAL:?}; \
                     until then a change is only noticed when peers do not answer"
                );
            }
        }
        true
    }
}

impl Entry {
    /// Returns whether to check the connection again.
    fn check(&mut self, runtime: &Shared) -> bool {
        let (Some(node), Some(conn)) = (self.node.upgrade(), self.conn.upgrade()) else {
            return false;
        };
        if conn.is_ended() {
            return false;
        }
        // A write from here on lists the connection again, unless it stays listed.
        conn.watched.store(false, Ordering::Release);
        let Some(socket) = conn.try_socket().filter(|socket| sys::outstanding(*socket) > 0) else {
            return false;
        };
        let info = sys::tcp_info(socket);
        let silent = info.as_ref().is_some_and(is_silent);
        if silent && !self.silent {
            runtime.post(node.home, Message::Stalled(node.clone(), conn.clone()));
        }
        self.silent = silent;
        if let Some(info) = info {
            let before = self.limits.replace(info.limits);
            let limit = before.and_then(|before| limit(before, info.limits));
            if limit.is_some_and(|limit| !widened(limit, socket)) {
                runtime.post(node.home, Message::WindowLimited(node, conn.clone()));
            }
        }
        !conn.watched.swap(true, Ordering::AcqRel)
    }
}

/// What limits the throughput of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// The send buffer.
    Buffer,
    /// The window of the receiver.
    Receiver,
}

/// Returns what limited a connection between two checks for most of the time.
///
/// Where packets take longer than they could, they wait in a queue of the path: it is full, and a larger
/// window would only lose some of them.
fn limit(before: Limits, now: Limits) -> Option<Limit> {
    if now.round_trip > now.round_trip_min + now.round_trip_min / 8 {
        return None;
    }
    let busy = now.busy.saturating_sub(before.busy);
    let receiver = now.receiver.saturating_sub(before.receiver);
    let buffer = now.buffer.saturating_sub(before.buffer);
    if busy < BUSY_MIN || receiver + buffer < busy / 2 {
        return None;
    }
    Some(if buffer >= receiver { Limit::Buffer } else { Limit::Receiver })
}

/// Makes the window of a connection larger by a half, if this end can.
fn widened(limit: Limit, socket: BorrowedFd<'_>) -> bool {
    let size = SockRef::from(&socket).send_buffer_size().unwrap_or(usize::MAX);
    limit == Limit::Buffer
        && size < SEND_BUFFER_MAX
        && sys::force_send_buffer(socket, (size + size / 2).min(SEND_BUFFER_MAX))
}

/// Returns whether TCP repeats the same bytes without any answer. A peer without buffer space does
/// answer.
fn is_silent(info: &TcpInfo) -> bool {
    info.unacked > 0 && info.unanswered >= UNANSWERED_MIN && info.silence >= SILENCE_MIN
}

/// Opens a netlink socket that notifies of changes of links and addresses.
fn open_netlink() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = AddressFamily::NETLINK;
    let bell = socket_with(family, SocketType::RAW, flags, None)?;
    bind(&bell, &SocketAddrNetlink::new(0, GROUPS))?;
    Ok(bell)
}

/// Reads all notifications, and returns whether there were any.
fn drain(bell: &OwnedFd) -> bool {
    let mut any = false;
    loop {
        // A longer message is cut: its content does not matter.
        match recv(bell, &mut [0_u8; 64], RecvFlags::DONTWAIT) {
            // More was notified than the socket's buffer holds.
            Ok(_) | Err(Errno::NOBUFS) => any = true,
            Err(_) => return any,
        }
    }
}

/// Links, and addresses of IPv4 and IPv6: RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// The interval of checks of connections with bytes outstanding, and of scans after one that failed.
const INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two scans of the links.
const PAUSE: Duration = Duration::from_millis(10);
/// Retransmissions without an answer: after some 1.4 s where round trips are short.
const UNANSWERED_MIN: u32 = 3;
/// For so long nothing came from the peer.
const SILENCE_MIN: Duration = Duration::from_secs(2);
/// A connection that had less to send between two checks is not limited.
const BUSY_MIN: Duration = Duration::from_millis(500);
/// No send buffer is made larger: a quarter of what 100 Gbit/s hold in 50 ms.
const SEND_BUFFER_MAX: usize = 160 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_neither_loss_nor_a_peer_without_room() {
        let (silence, limits) = (Duration::from_secs(2), Limits::default());
        let silent = TcpInfo { unacked: 1, unanswered: 3, silence, limits };
        assert!(is_silent(&silent));
        assert!(!is_silent(&TcpInfo { unanswered: 2, ..silent }), "some loss");
        assert!(!is_silent(&TcpInfo { unacked: 0, ..silent }), "nothing on its way: no room");
        assert!(
            !is_silent(&TcpInfo { silence: Duration::from_secs(1), ..silent }),
            "the peer answers"
        );
    }

    #[test]
    fn a_failed_scan_is_repeated_and_a_good_one_is_not() {
        let start = Instant::now();
        let mut schedule = Schedule { conns: start, failed: None };
        let fails = || Err(io::Error::from(Errno::MFILE));
        assert_eq!(schedule.timeout(start, true), None);
        assert!(!schedule.scan_links(start, false, || unreachable!("no scan is needed")));
        assert!(schedule.scan_links(start, true, fails));
        assert_eq!(schedule.timeout(start, true), Some(INTERVAL));
        let soon = start + INTERVAL / 2;
        assert!(!schedule.scan_links(soon, false, || unreachable!("it is too soon")));
        assert_eq!(schedule.timeout(soon, true), Some(INTERVAL / 2));
        assert!(schedule.scan_links(start + INTERVAL, false, fails));
        assert_eq!(schedule.timeout(start + INTERVAL, true), Some(INTERVAL));
        assert!(
            schedule.scan_links(start + INTERVAL, true, || Ok(())),
            "a notification is never ignored"
        );
        assert_eq!(schedule.timeout(start + INTERVAL, true), None);
        assert!(!schedule.scan_links(start + 3 * INTERVAL, false, || unreachable!("none is due")));
    }

    #[test]
    fn a_failed_scan_does_not_delay_the_check_of_connections() {
        let start = Instant::now();
        let schedule = Schedule { conns: start, failed: Some(start + INTERVAL / 2) };
        assert_eq!(schedule.timeout(start + INTERVAL / 2, false), Some(INTERVAL / 2));
        assert_eq!(schedule.timeout(start + INTERVAL / 2, true), Some(INTERVAL));
        assert_eq!(schedule.timeout(start + 9 * INTERVAL, false), Some(Duration::ZERO));
    }

    #[test]
    fn a_connection_is_limited_by_what_kept_it_back_for_most_of_the_time() {
        let ms = Duration::from_millis;
        let at = |busy, receiver, buffer| Limits {
            busy: ms(busy),
            receiver: ms(receiver),
            buffer: ms(buffer),
            round_trip: ms(51),
            round_trip_min: ms(50),
        };
        let before = at(10_000, 4000, 3000);
        assert_eq!(limit(before, at(11_000, 4600, 3100)), Some(Limit::Receiver));
        assert_eq!(limit(before, at(11_000, 4100, 3600)), Some(Limit::Buffer));
        assert_eq!(limit(before, at(11_000, 4200, 3200)), None, "the path limits it");
        assert_eq!(limit(before, at(10_400, 4400, 3000)), None, "there was little to send");
        let queued = Limits { round_trip: ms(57), ..at(11_000, 4100, 3600) };
        assert_eq!(limit(before, queued), None, "packets wait in a queue");
    }

    #[test]
    fn netlink_is_quiet_while_nothing_changes() {
        let netlink = open_netlink().unwrap();
        assert!(!drain(&netlink));
    }
}
