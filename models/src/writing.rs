//! Whatever is added to a queue is written, once and in order, by one thread at a time.

use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::bell::Bell;
use crate::relay::{Ended, Relay};

/// A connection: what is to be written, and the socket.
struct Conn {
    relay: Relay<u32, Busy>,
    socket: Mutex<Socket>,
    /// epoll tells the I/O thread that there is room, once for each time that there was none.
    room: Bell,
}

/// The thread that writes finds itself alone.
#[derive(Default)]
struct Busy(bool);

/// Takes so many at a time until it is full; the peer then reads all.
#[derive(Default)]
struct Socket {
    taken: Vec<u32>,
    free: usize,
    /// It has refused something, and says when it takes more.
    refused: bool,
    ends_told: u32,
}

impl Conn {
    fn new(free: usize) -> Arc<Self> {
        let socket = Mutex::new(Socket { free, ..Socket::default() });
        Arc::new(Self { relay: Relay::default(), socket, room: Bell::default() })
    }

    fn flush(&self) -> Option<Ended<()>> {
        self.relay.flush(
            |taken| {
                assert!(!std::mem::replace(&mut taken.writer.0, true), "two threads write");
                let full = {
                    let mut socket = self.socket.lock().unwrap();
                    assert!(!socket.refused, "nobody has said that there is room");
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
                if ended == (Ended::Empty { closing: true }) {
                    self.socket.lock().unwrap().ends_told += 1;
                }
                ended
            },
        )
    }

    fn add(&self, item: u32) {
        self.relay.push(item);
        self.flush();
    }

    /// The peer makes room, and the kernel says so if somebody was refused.
    fn drain(&self) -> bool {
        let mut socket = self.socket.lock().unwrap();
        socket.free = 9;
        let refused = std::mem::take(&mut socket.refused);
        drop(socket);
        if refused {
            self.room.ring();
        }
        refused
    }

    /// The I/O thread hears of room.
    fn hear(&self) {
        if self.relay.handle_room() {
            self.flush();
        }
    }

    fn taken(&self) -> Vec<u32> {
        self.socket.lock().unwrap().taken.clone()
    }
}

#[test]
fn what_two_threads_add_is_written_by_one_of_them() {
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
fn what_a_full_socket_has_left_is_written_when_it_has_room() {
    loom::model(|| {
        let conn = Conn::new(1);
        let io = conn.clone();
        // The peer reads at any time; if somebody was refused before that, there will be an event.
        let io = thread::spawn(move || {
            if io.drain() {
                io.room.wait();
                io.hear();
            }
        });
        conn.add(1);
        conn.add(2);
        // A full socket is left alone.
        conn.add(3);
        io.join().unwrap();
        // Refused after the peer had read: then it reads again.
        if conn.drain() {
            conn.hear();
        }
        assert_eq!(conn.taken(), [1, 2, 3]);
    });
}

#[test]
fn room_that_is_told_while_somebody_writes_is_not_forgotten() {
    loom::model(|| {
        let conn = Conn::new(1);
        conn.relay.push(1);
        conn.relay.push(2);
        let (io, peer) = (conn.clone(), conn.clone());
        // The kernel's word may come between the refusal and the writer's own note of it.
        let io = thread::spawn(move || {
            io.room.wait();
            io.hear();
        });
        let peer = thread::spawn(move || peer.drain());
        conn.flush();
        if !peer.join().unwrap() && !conn.drain() {
            // It had read before anybody was refused, and nobody was.
            conn.room.ring();
        }
        io.join().unwrap();
        assert_eq!(conn.taken(), [1, 2]);
    });
}

#[test]
fn the_end_is_told_once_and_after_everything() {
    loom::model(|| {
        let conn = Conn::new(9);
        let other = conn.clone();
        let other = thread::spawn(move || other.add(1));
        conn.relay.close_when_empty();
        conn.flush();
        other.join().unwrap();
        conn.flush();
        let socket = conn.socket.lock().unwrap();
        assert_eq!(socket.taken, [1]);
        assert!(socket.ends_told >= 1, "{}", socket.ends_told);
    });
}

#[test]
fn nobody_writes_any_more_when_it_is_stopped() {
    loom::model(|| {
        let conn = Conn::new(9);
        let other = conn.clone();
        let other = thread::spawn(move || [1, 2].into_iter().for_each(|item| other.add(item)));
        conn.relay.stop();
        let taken = conn.taken();
        other.join().unwrap();
        assert_eq!(conn.taken(), taken, "something was written after that");
    });
}
