//! The communication between threads of the driver, tested in every interleaving.
//!
//! The sources are those of `crates/net`, with the mutex and the atomics of loom instead of those of
//! the system. Sockets and sleeping threads are modelled here.
#![cfg(test)]

#[path = "../../crates/net/src/alarm.rs"]
mod alarm;
#[path = "../../crates/net/src/dispatch.rs"]
mod dispatch;
#[path = "../../crates/net/src/messages.rs"]
mod messages;
#[path = "../../crates/net/src/queues.rs"]
mod queues;
#[path = "../../crates/net/src/write_queue.rs"]
mod write_queue;

mod arming;
mod dispatching;
mod sleeping;
mod writing;

/// Replaces `crates/net/src/lock.rs`.
mod lock {
    use loom::sync::{Mutex, MutexGuard};

    pub(crate) use std::sync::atomic::Ordering;

    pub(crate) use crate::flag::AtomicBool;

    #[derive(Default)]
    pub(crate) struct Lock<T>(Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

/// Replaces the flags of `crates/net`, which are sequentially consistent where it matters: each use
/// of one is a step. The atomics of loom are not suitable: they let a `swap` miss a store that must
/// precede it because an earlier `swap` has read the store before that one.
mod flag {
    use loom::sync::Mutex;

    use crate::lock::Ordering;

    pub(crate) struct AtomicBool(Mutex<bool>);

    impl AtomicBool {
        pub(crate) fn new(value: bool) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn load(&self, _: Ordering) -> bool {
            *self.0.lock().unwrap()
        }

        pub(crate) fn store(&self, value: bool, order: Ordering) {
            self.swap(value, order);
        }

        pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
            assert_eq!(order, Ordering::SeqCst);
            std::mem::replace(&mut *self.0.lock().unwrap(), value)
        }
    }
}

/// Replaces a descriptor in edge-triggered epoll: one event is kept until a thread waits.
mod wakeup {
    use loom::sync::{Condvar, Mutex};

    #[derive(Default)]
    pub(crate) struct Wakeup {
        pending: Mutex<bool>,
        changed: Condvar,
    }

    impl Wakeup {
        pub(crate) fn wake(&self) {
            *self.pending.lock().unwrap() = true;
            self.changed.notify_one();
        }

        pub(crate) fn wait(&self) {
            let mut pending = self.pending.lock().unwrap();
            while !std::mem::take(&mut *pending) {
                pending = self.changed.wait(pending).unwrap();
            }
        }
    }
}

/// Replaces `crates/net/src/memory`.
mod memory {
    #[derive(Debug)]
    pub(crate) struct Memory;
}

/// Replaces `crates/net/src/service.rs`.
mod service {
    use crate::queues::Delivery;

    pub(crate) struct Service;

    pub(crate) trait Handler: Send + Sync {
        fn handle(&self, service: &Service, events: &mut Vec<Delivery>);
        fn closed(&self) {}
    }

    impl<F: Fn(&Service, &mut Vec<Delivery>) + Send + Sync> Handler for F {
        fn handle(&self, service: &Service, events: &mut Vec<Delivery>) {
            self(service, events);
        }
    }
}
