//! Each item of a queue is written once and in order, by one thread at a time.

use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::wakeup::Wakeup;
use crate::write_queue::{FlushEnd, WriteQueue};

/// A connection: its queue and its socket.
struct Conn {
    queue: WriteQueue<u32, Busy>,
    socket: Mutex<Socket>,
    /// epoll reports room to the I/O thread once each time that the socket was full.
    room: Wakeup,
}

/// Whether a thread is writing.
#[derive(Default)]
struct Busy(bool);

/// Accepts items until it is full; the peer then reads all.
#[derive(Default)]
struct Socket {
    taken: Vec<u32>,
    free: usize,
    /// It was full, and reports when it has room.
    refused: bool,
    ends_reported: u32,
}

impl Conn {
    fn new(free: usize) -> Arc<Self> {
        let socket = Mutex::new(Socket { free, ..Socket::default() });
        Arc::new(Self { queue: WriteQueue::default(), socket, room: Wakeup::default() })
    }

    fn flush(&self) -> Option<FlushEnd<()>> {
        self.queue.flush(
            |taken| {
                assert!(!std::mem::replace(&mut taken.writer.0, true), "two threads write");
                let full = {
                    let mut socket = self.socket.lock().unwrap();
                    assert!(!socket.refused, "room was not reported");
                    let count = socket.free.min(taken.items.len());
                    socket.free -= count;
                    socket.taken.extend(taken.items.drain(..count));
                    let full = !taken.items.is_empty();
                    socket.refused |= full;
                    full
                };
                taken.writer.0 = false;
                Ok(full)
            },
            |_, ended| {
                if ended == (FlushEnd::Empty { closing: true }) {
                    self.socket.lock().unwrap().ends_reported += 1;
                }
                ended
            },
        )
    }

    fn add(&self, item: u32) {
        self.queue.push(item);
        self.flush();
    }

    /// The peer reads, and the kernel reports room if the socket was full.
    fn drain(&self) -> bool {
        let mut socket = self.socket.lock().unwrap();
        socket.free = 9;
        let refused = std::mem::take(&mut socket.refused);
        drop(socket);
        if refused {
            self.room.wake();
        }
        refused
    }

    /// The I/O thread handles the report of room.
    fn handle_room(&self) {
        if self.queue.handle_room() {
            self.flush();
        }
    }

    fn taken(&self) -> Vec<u32> {
        self.socket.lock().unwrap().taken.clone()
    }
}

#[test]
fn items_of_two_threads_are_written_in_order() {
    loom::model(|| {
        let conn = Conn::new(9);
        let other = conn.clone();
        let other = thread::spawn(move || [10, 11].into_iter().for_each(|item| other.add(item)));
        conn.add(20);
        other.join().unwrap();
        let taken = conn.taken();
        let of_other: Vec<u32> = taken.iter().copied().filter(|item| *item < 20).collect();
        assert_eq!((taken.len(), of_other), (3, vec![10, 11]), "{taken:?}");
    });
}

#[test]
fn items_that_a_full_socket_refused_are_written_when_it_has_room() {
    loom::model(|| {
        let conn = Conn::new(1);
        let io = conn.clone();
        // The peer reads at any time; if the socket was full before that, there is an event.
        let io = thread::spawn(move || {
            if io.drain() {
                io.room.wait();
                io.handle_room();
            }
        });
        conn.add(1);
        conn.add(2);
        // A full socket is not written to.
        conn.add(3);
        io.join().unwrap();
        // If the socket was full after the peer had read, it reads again.
        if conn.drain() {
            conn.handle_room();
        }
        assert_eq!(conn.taken(), [1, 2, 3]);
    });
}

#[test]
fn room_that_is_reported_during_a_write_is_not_lost() {
    loom::model(|| {
        let conn = Conn::new(1);
        conn.queue.push(1);
        conn.queue.push(2);
        let (io, peer) = (conn.clone(), conn.clone());
        // The report may come after the socket was full and before the writer has recorded that.
        let io = thread::spawn(move || {
            io.room.wait();
            io.handle_room();
        });
        let peer = thread::spawn(move || peer.drain());
        conn.flush();
        if !peer.join().unwrap() && !conn.drain() {
            // The peer had read before the socket was full, and it was not full after that.
            conn.room.wake();
        }
        io.join().unwrap();
        assert_eq!(conn.taken(), [1, 2]);
    });
}

#[test]
fn the_end_is_reported_after_everything() {
    loom::model(|| {
        let conn = Conn::new(9);
        let other = conn.clone();
        let other = thread::spawn(move || other.add(1));
        conn.queue.close_when_empty();
        conn.flush();
        other.join().unwrap();
        conn.flush();
        let socket = conn.socket.lock().unwrap();
        assert_eq!(socket.taken, [1]);
        assert!(socket.ends_reported >= 1, "{}", socket.ends_reported);
    });
}

#[test]
fn nothing_is_written_after_a_stop() {
    loom::model(|| {
        let conn = Conn::new(9);
        let other = conn.clone();
        let other = thread::spawn(move || [1, 2].into_iter().for_each(|item| other.add(item)));
        conn.queue.stop();
        let taken = conn.taken();
        other.join().unwrap();
        assert_eq!(conn.taken(), taken, "an item was written after the stop");
    });
}
