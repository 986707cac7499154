//! A queue that one thread at a time empties into something that may be full: the thread that adds to
//! an idle queue, until there is no more.
//!
//! ```text
//! idle -- flush --> writing -- no more --> idle
//!                     |  ^
//!                full |  | it takes more again (at once, if that was said while somebody wrote)
//!                     v  |
//!                   blocked
//! ```
//!
//! Nothing here knows sockets: `models/` tries every order in which threads may come by.

use std::collections::VecDeque;

use crate::lock::Lock;

/// A queue of `T`, and the state `W` of whoever writes.
pub(crate) struct Relay<T, W> {
    queue: Lock<Queue<T>>,
    /// Locked while somebody writes, so that [`Relay::stop`] can wait for it.
    taken: Lock<Taken<T, W>>,
}

struct Queue<T> {
    items: VecDeque<T>,
    state: State,
    /// The end is to be told when the queue is empty.
    closing: bool,
    stopped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Writing,
    /// Somebody is writing, and was told that there is room again.
    WritingAgain,
    /// There was no room.
    Blocked,
}

/// What the thread that writes has taken from the queue.
pub(crate) struct Taken<T, W> {
    pub(crate) items: VecDeque<T>,
    pub(crate) writer: W,
}

/// How a flush has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<E> {
    /// There is no more; `closing` if there never will be.
    Empty {
        closing: bool,
    },
    Blocked,
    Stopped,
    Failed(E),
}

impl<T, W: Default> Default for Relay<T, W> {
    fn default() -> Self {
        let (items, state) = (VecDeque::new(), State::Idle);
        let queue = Queue { items, state, closing: false, stopped: false };
        Self { queue: Lock::new(queue), taken: Lock::new(Taken::default()) }
    }
}

impl<T, W: Default> Default for Taken<T, W> {
    fn default() -> Self {
        Self { items: VecDeque::new(), writer: W::default() }
    }
}

impl<T, W: Default> Relay<T, W> {
    /// Appends an item; the caller sees to it that it is flushed.
    pub(crate) fn push(&self, item: T) {
        let mut queue = self.queue.lock();
        if !queue.stopped {
            queue.items.push_back(item);
        }
    }

    /// Has the end told when the queue is empty.
    pub(crate) fn close_when_empty(&self) {
        self.queue.lock().closing = true;
    }

    /// Takes word that there is room again, and returns whether to flush.
    pub(crate) fn handle_room(&self) -> bool {
        let mut queue = self.queue.lock();
        match queue.state {
            State::Blocked => {
                queue.state = State::Idle;
                true
            }
            State::Writing => {
                queue.state = State::WritingAgain;
                false
            }
            State::Idle | State::WritingAgain => false,
        }
    }

    /// Forgets what is not written, and returns when nobody is writing any more.
    pub(crate) fn stop(&self) {
        let forgotten = {
            let mut queue = self.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.items)
        };
        let unwritten = std::mem::take(&mut *self.taken.lock());
        drop((forgotten, unwritten));
    }

    /// Calls `write` until there is no more, it returns that there is no room, or fails; then
    /// `conclude`, before anybody else writes. Does nothing if somebody else is writing, who takes
    /// what was added, or if there was no room.
    pub(crate) fn flush<E, R>(
        &self,
        mut write: impl FnMut(&mut Taken<T, W>) -> Result<bool, E>,
        conclude: impl FnOnce(&mut W, Ended<E>) -> R,
    ) -> Option<R> {
        if !self.begin() {
            return None;
        }
        let mut taken = self.taken.lock();
        let ended = loop {
            if let Some(ended) = self.refill(&mut taken) {
                break ended;
            }
            match write(&mut taken) {
                Ok(full) => {
                    if full && self.block() {
                        break Ended::Blocked;
                    }
                }
                Err(error) => {
                    self.queue.lock().stopped = true;
                    break Ended::Failed(error);
                }
            }
        };
        Some(conclude(&mut taken.writer, ended))
    }

    /// Makes the calling thread the one that writes, if it may be.
    fn begin(&self) -> bool {
        let mut queue = self.queue.lock();
        let may = queue.state == State::Idle && !queue.stopped;
        if may {
            queue.state = State::Writing;
        }
        may
    }

    /// Gives the writer something to write; returns why not, if there is nothing.
    fn refill<E>(&self, taken: &mut Taken<T, W>) -> Option<Ended<E>> {
        let mut queue = self.queue.lock();
        if queue.stopped {
            return Some(Ended::Stopped);
        }
        if taken.items.is_empty() {
            if queue.items.is_empty() {
                queue.state = State::Idle;
                queue.items.shrink_to(IDLE_CAPACITY);
                taken.items.shrink_to(IDLE_CAPACITY);
                return Some(Ended::Empty { closing: queue.closing });
            }
            std::mem::swap(&mut queue.items, &mut taken.items);
        }
        None
    }

    /// Takes word that there is no room, and returns whether there still is none.
    fn block(&self) -> bool {
        let mut queue = self.queue.lock();
        let again = queue.state == State::WritingAgain;
        queue.state = if again { State::Writing } else { State::Blocked };
        !again
    }
}

/// A queue that was longer in a burst gives its memory back when it is empty.
const IDLE_CAPACITY: usize = 32;
