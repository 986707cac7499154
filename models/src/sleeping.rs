//! A message always reaches a thread that is awake or is woken.

use loom::sync::Arc;
use loom::thread;

use crate::messages::Messages;
use crate::wakeup::Wakeup;

/// The messages of a thread, and the descriptor that wakes it.
struct Inbox {
    messages: Messages<u32>,
    wakeup: Wakeup,
}

impl Inbox {
    fn post(&self, message: u32) {
        if self.messages.post(message) {
            self.wakeup.wake();
        }
    }

    /// One round of an I/O thread, as in `Thread::run`.
    fn round(&self) -> Vec<u32> {
        if self.messages.fall_asleep() {
            self.wakeup.wait();
        }
        self.messages.wake_up();
        self.messages.take()
    }
}

/// If a message is lost, a thread sleeps for ever, which loom reports as a deadlock.
fn all_arrive(posters: u32, each: u32) {
    // More than three preemptions with two posters take minutes, and find nothing more.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = (posters > 1).then_some(3);
    model.check(move || {
        let inbox = Arc::new(Inbox { messages: Messages::new(), wakeup: Wakeup::default() });
        let posters: Vec<_> = (0..posters)
            .map(|poster| {
                let inbox = inbox.clone();
                thread::spawn(move || (0..each).for_each(|n| inbox.post(poster * 10 + n)))
            })
            .collect();
        let mut got = Vec::new();
        while got.len() < posters.len() * each as usize {
            got.extend(inbox.round());
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
