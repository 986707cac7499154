//! All events are handled: by one thread at a time for each service, and in order.

use loom::sync::{Arc, Mutex};
use loom::thread;

use fulmar_lnet::{Event, MdId, ServiceId};

use crate::dispatch;
use crate::lock::Lock;
use crate::queues::{Delivery, Queues};
use crate::service::Service;

const A: ServiceId = ServiceId(1);
const B: ServiceId = ServiceId(2);

/// The queues of a node, and the handled events.
struct Node {
    queues: Lock<Queues>,
    handled: Mutex<Vec<(ServiceId, u64)>>,
    /// Whether a thread is handling events of A, and of B.
    busy: [Mutex<bool>; 2],
    /// Number of messages that ask an I/O thread to continue.
    requests: Mutex<usize>,
}

impl Node {
    fn new() -> Arc<Self> {
        let mut queues = Queues::default();
        for service in [A, B] {
            let handler = |_: &Service, _: &mut Vec<Delivery>| {};
            queues.open(service, std::sync::Arc::new(handler));
        }
        Arc::new(Self {
            queues: Lock::new(queues),
            handled: Mutex::default(),
            busy: [Mutex::new(false), Mutex::new(false)],
            requests: Mutex::new(0),
        })
    }

    /// A turn: pushes an event, and handles it unless another thread does.
    fn turn(&self, service: ServiceId, user: u64) {
        let ready = {
            let mut queues = self.queues.lock();
            assert!(queues.push(service, delivery(user)).is_none());
            queues.is_ready()
        };
        if ready {
            self.serve(1);
        }
    }

    /// Serves for at most `rounds` rounds, and then asks another thread to continue.
    fn serve(&self, rounds: usize) {
        for _ in 0..rounds {
            if !self.serve_once() {
                return;
            }
        }
        *self.requests.lock().unwrap() += 1;
    }

    fn serve_once(&self) -> bool {
        dispatch::serve(
            &self.queues,
            || *self.requests.lock().unwrap() += 1,
            |claim| {
                let busy = &self.busy[claim.service.0 as usize - 1];
                assert!(
                    !std::mem::replace(&mut *busy.lock().unwrap(), true),
                    "two threads handle events"
                );
                let users = claim.events.iter().map(|event| (claim.service, event.event.user));
                self.handled.lock().unwrap().extend(users);
                *busy.lock().unwrap() = false;
            },
        )
    }

    /// An I/O thread handles its requests.
    fn handle_requests(&self) {
        while std::mem::take(&mut *self.requests.lock().unwrap()) > 0 {
            self.serve(1);
        }
    }
}

fn delivery(user: u64) -> Delivery {
    Delivery::new(Event::unlinked(MdId(user), user), Vec::new(), None)
}

fn all_are_handled(here: &'static [(ServiceId, u64)], there: &'static [(ServiceId, u64)]) {
    loom::model(move || {
        let node = Node::new();
        let other = node.clone();
        let run = |node: &Node, turns: &[(ServiceId, u64)]| {
            turns.iter().for_each(|(service, user)| node.turn(*service, *user));
        };
        let other = thread::spawn(move || run(&other, there));
        run(&node, here);
        other.join().unwrap();
        node.handle_requests();
        let handled = node.handled.lock().unwrap();
        assert_eq!(handled.len(), here.len() + there.len(), "{handled:?}");
        for turns in [here, there] {
            for (service, user) in turns {
                let later = turns.iter().filter(|(same, next)| same == service && next > user);
                let place = |of: &(ServiceId, u64)| handled.iter().position(|one| one == of);
                for next in later {
                    assert!(place(&(*service, *user)) < place(next), "{handled:?}");
                }
            }
        }
    });
}

#[test]
fn events_that_arrive_while_a_service_is_served_are_handled_next() {
    all_are_handled(&[(A, 1), (A, 2)], &[(A, 11)]);
}

#[test]
fn two_services_are_served_by_either_thread() {
    all_are_handled(&[(A, 1), (B, 2)], &[(B, 11), (A, 12)]);
}
