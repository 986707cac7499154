//! A queue whose items one thread at a time writes to a destination that may be full. The thread
//! that adds an item to an idle queue writes until the queue is empty.
//!
//! ```text
//! idle -- flush --> writing -- empty --> idle
//!                     |  ^
//!                full |  | room again (at once, if that was reported during the write)
//!                     v  |
//!                   blocked
//! ```
//!
//! The queue is independent of sockets: `models/` tests every interleaving of the threads.

use std::collections::VecDeque;

use crate::lock::Lock;

/// A queue of `T`, and the state `W` of the writing thread.
pub(crate) struct WriteQueue<T, W> {
    queue: Lock<Queue<T>>,
    /// Locked while a thread writes, so that [`WriteQueue::stop`] can wait for it.
    taken: Lock<WriteBatch<T, W>>,
}

struct Queue<T> {
    items: VecDeque<T>,
    state: State,
    /// The end is reported when the queue is empty.
    closing: bool,
    stopped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Writing,
    /// A thread is writing, and room was reported since it began.
    WritingAgain,
    /// The destination was full.
    Blocked,
}

/// The items that the writing thread has taken from the queue.
pub(crate) struct WriteBatch<T, W> {
    pub(crate) items: VecDeque<T>,
    pub(crate) writer: W,
}

/// The result of a flush.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FlushEnd<E> {
    /// The queue is empty; `closing` if nothing will be added.
    Empty {
        closing: bool,
    },
    Blocked,
    Stopped,
    Failed(E),
}

impl<T, W: Default> Default for WriteQueue<T, W> {
    fn default() -> Self {
        let (items, state) = (VecDeque::new(), State::Idle);
        let queue = Queue { items, state, closing: false, stopped: false };
        Self { queue: Lock::new(queue), taken: Lock::new(WriteBatch::default()) }
    }
}

impl<T, W: Default> Default for WriteBatch<T, W> {
    fn default() -> Self {
        Self { items: VecDeque::new(), writer: W::default() }
    }
}

impl<T, W: Default> WriteQueue<T, W> {
    /// Appends an item; the caller then flushes.
    pub(crate) fn push(&self, item: T) {
        let mut queue = self.queue.lock();
        if !queue.stopped {
            queue.items.push_back(item);
        }
    }

    /// Requests that the end is reported when the queue is empty.
    pub(crate) fn close_when_empty(&self) {
        self.queue.lock().closing = true;
    }

    /// Records that the destination has room again, and returns whether to flush.
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

    /// Discards all unwritten items, and returns when no thread is writing.
    pub(crate) fn stop(&self) {
        let discarded = {
            let mut queue = self.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.items)
        };
        let unwritten = std::mem::take(&mut *self.taken.lock());
        drop((discarded, unwritten));
    }

    /// Calls `write` until the queue is empty, the destination is full, or `write` fails; then
    /// `conclude`, before another thread can write. Does nothing if another thread is writing, which
    /// takes the new items as well, or if the destination was full.
    pub(crate) fn flush<E, R>(
        &self,
        mut write: impl FnMut(&mut WriteBatch<T, W>) -> Result<bool, E>,
        conclude: impl FnOnce(&mut W, FlushEnd<E>) -> R,
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
                        break FlushEnd::Blocked;
                    }
                }
                Err(error) => {
                    self.queue.lock().stopped = true;
                    break FlushEnd::Failed(error);
                }
            }
        };
        Some(conclude(&mut taken.writer, ended))
    }

    /// Makes the calling thread the writing one, if there is none and the queue is not blocked.
    fn begin(&self) -> bool {
        let mut queue = self.queue.lock();
        let may = queue.state == State::Idle && !queue.stopped;
        if may {
            queue.state = State::Writing;
        }
        may
    }

    /// Ensures that the writing thread has an item; returns why not, if there is none.
    fn refill<E>(&self, taken: &mut WriteBatch<T, W>) -> Option<FlushEnd<E>> {
        let mut queue = self.queue.lock();
        if queue.stopped {
            return Some(FlushEnd::Stopped);
        }
        if taken.items.is_empty() {
            if queue.items.is_empty() {
                queue.state = State::Idle;
                queue.items.shrink_to(IDLE_CAPACITY);
                taken.items.shrink_to(IDLE_CAPACITY);
                return Some(FlushEnd::Empty { closing: queue.closing });
            }
            std::mem::swap(&mut queue.items, &mut taken.items);
        }
        None
    }

    /// Records that the destination is full. Returns false if room was reported meanwhile.
    fn block(&self) -> bool {
        let mut queue = self.queue.lock();
        let again = queue.state == State::WritingAgain;
        queue.state = if again { State::Writing } else { State::Blocked };
        !again
    }
}

/// The capacity of an empty queue; the memory of longer bursts is freed.
const IDLE_CAPACITY: usize = 32;
