//! A message always finds a thread that is awake or gets woken.

use loom::sync::Arc;
use loom::thread;

use crate::bell::Bell;
use crate::messages::Messages;

/// What a thread has: its messages, and the descriptor that wakes it.
struct Desk {
    messages: Messages<u32>,
    wake: Bell,
}

impl Desk {
    fn post(&self, message: u32) {
        if self.messages.post(message) {
            self.wake.ring();
        }
    }

    /// One round of an I/O thread, as `Thread::run` has it.
    fn round(&self) -> Vec<u32> {
        if self.messages.fall_asleep() {
            self.wake.wait();
        }
        self.messages.wake_up();
        self.messages.take()
    }
}

/// A lost message is a thread that sleeps for ever, which loom reports as a deadlock.
fn all_arrive(posters: u32, each: u32) {
    // More than three interruptions of the two posters and the thread take minutes, and show no more.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = (posters > 1).then_some(3);
    model.check(move || {
        let desk = Arc::new(Desk { messages: Messages::new(), wake: Bell::default() });
        let posters: Vec<_> = (0..posters)
            .map(|poster| {
                let desk = desk.clone();
                thread::spawn(move || (0..each).for_each(|n| desk.post(poster * 10 + n)))
            })
            .collect();
        let mut got = Vec::new();
        while got.len() < posters.len() * each as usize {
            got.extend(desk.round());
        }
        for poster in posters {
            poster.join().unwrap();
        }
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), 2, "each once");
    });
}

#[test]
fn two_messages_of_one_thread_arrive() {
    all_arrive(1, 2);
}

#[test]
fn messages_of_two_threads_arrive() {
    all_arrive(2, 1);
}
