//! The hand-overs between the driver's threads, tried in every order in which threads may come by.
//!
//! The sources are those of `crates/net`, with the mutex and the atomics of loom in the place of the
//! system's. What they hand over to, a socket or a sleeping thread, is modelled here.
#![cfg(test)]

#[path = "../../crates/net/src/dispatch.rs"]
mod dispatch;
#[path = "../../crates/net/src/messages.rs"]
mod messages;
#[path = "../../crates/net/src/queues.rs"]
mod queues;
#[path = "../../crates/net/src/relay.rs"]
mod relay;

mod dispatching;
mod sleeping;
mod writing;

/// Stands for `crates/net/src/lock.rs`.
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

/// Stands for the flags of `crates/net`, all of them sequentially consistent where it matters: each use
/// of one is a step. The atomics of loom do not serve, for they let a `swap` miss a store that must
/// precede it because an earlier `swap` has read the store before that.
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

/// Stands for a descriptor in epoll, edge-triggered: one ring is kept that nobody has heard.
mod bell {
    use loom::sync::{Condvar, Mutex};

    #[derive(Default)]
    pub(crate) struct Bell {
        rung: Mutex<bool>,
        ring: Condvar,
    }

    impl Bell {
        pub(crate) fn ring(&self) {
            *self.rung.lock().unwrap() = true;
            self.ring.notify_one();
        }

        pub(crate) fn wait(&self) {
            let mut rung = self.rung.lock().unwrap();
            while !std::mem::take(&mut *rung) {
                rung = self.ring.wait(rung).unwrap();
            }
        }
    }
}

/// Stands for `crates/net/src/memory`.
mod memory {
    #[derive(Debug)]
    pub(crate) struct Memory;
}

/// Stands for `crates/net/src/service.rs`.
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
