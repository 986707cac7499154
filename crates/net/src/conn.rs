//! One TCP connection, shared by all threads.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use fulmar_base::ConnId;

use crate::counters::Counters;
use crate::lock::Lock;
use crate::runtime;
use crate::tx::{FlushResult, Tx};

/// A connection or an attempt at one.
///
/// Only its I/O thread reads from it; any thread may write to it.
pub(crate) struct Conn {
    pub(crate) id: ConnId,
    pub(crate) remote: SocketAddr,
    /// The I/O thread that it belongs to.
    pub(crate) thread: usize,
    /// Its index in the tables of that thread, set only by it; [`NO_SLOT`] without one.
    pub(crate) slot: AtomicUsize,
    pub(crate) tx: Tx,
    /// Missing until it is dialled.
    socket: OnceLock<OwnedFd>,
    /// The machine has ended it, or was notified of its end. Changes under the node's lock.
    ended: AtomicBool,
    /// The number of written bytes that were reported to the machine. Changes under the node's
    /// lock.
    reported: AtomicU64,
    /// The monitor checks whether the peer acknowledges written bytes.
    pub(crate) watched: AtomicBool,
    /// Held while the kernel writes into a buffer, so that [`Conn::end`] can wait for it.
    receiving: Lock<()>,
    runtime: Arc<runtime::Shared>,
}

impl Conn {
    /// `thread` is what [`runtime::Shared::assign`] has returned.
    pub(crate) fn new(
        id: ConnId,
        remote: SocketAddr,
        thread: usize,
        runtime: &Arc<runtime::Shared>,
    ) -> Self {
        Self {
            id,
            remote,
            thread,
            slot: AtomicUsize::new(NO_SLOT),
            tx: Tx::default(),
            socket: OnceLock::new(),
            ended: AtomicBool::new(false),
            reported: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            receiving: Lock::default(),
            runtime: runtime.clone(),
        }
    }

    pub(crate) fn set_socket(&self, socket: OwnedFd) {
        assert!(self.socket.set(socket).is_ok(), "a connection has one socket");
    }

    /// Returns the socket, if the connection was dialled.
    pub(crate) fn try_socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get().map(AsFd::as_fd)
    }

    /// # Panics
    /// If the connection was not dialled yet.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.get().expect("a connection is used after it is dialled").as_fd()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Marks the connection as ended. With `flush`, queued bytes are still written. Returns the
    /// number of written bytes that were not reported to the machine.
    ///
    /// Otherwise, when this returns, no thread reads into or writes from any buffer for it: the
    /// machine's next event may be that the buffer is free. That is why the node's lock is held
    /// meanwhile, for one system call at the longest.
    pub(crate) fn end(&self, flush: bool) -> u64 {
        self.ended.store(true, Ordering::Release);
        drop(self.receiving.lock());
        if flush {
            self.tx.close_when_written();
        } else {
            self.tx.stop();
            self.shut_down();
        }
        self.unreported()
    }

    /// Records that this number of bytes more is reported to the machine.
    pub(crate) fn note_reported(&self, bytes: u64) {
        self.reported.fetch_add(bytes, Ordering::Relaxed);
    }

    fn unreported(&self) -> u64 {
        let written = self.tx.written();
        written - self.reported.swap(written, Ordering::Relaxed)
    }

    /// Lets the kernel write into a buffer by `receive`, unless the connection has ended.
    pub(crate) fn receive<R>(&self, receive: impl FnOnce(BorrowedFd<'_>) -> R) -> Option<R> {
        let _guard = self.receiving.lock();
        (!self.is_ended()).then(|| receive(self.socket()))
    }

    /// Writes queued bytes.
    pub(crate) fn flush(&self, counters: &Counters) -> FlushResult {
        match self.socket.get() {
            Some(socket) => self.tx.flush(socket.as_fd(), counters),
            None => FlushResult::default(),
        }
    }

    /// Ends the connection for the peer at once, even if other threads still hold the descriptor.
    pub(crate) fn shut_down(&self) {
        if let Some(socket) = self.socket.get() {
            // A socket that is no longer connected cannot be shut down, which is unnecessary.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.runtime.unassign(self.thread);
    }
}

/// The connection is not in the tables of its thread.
pub(crate) const NO_SLOT: usize = usize::MAX;
