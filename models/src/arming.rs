//! A machine is called at its next deadline, whichever threads have requested calls.

use loom::sync::{Arc, Mutex};
use loom::thread;

use fulmar_base::{Time, Timers};

use crate::alarm::Alarm;
use crate::lock::Lock;

/// A machine that is never called while it is looked at, and the requests for calls.
struct Node {
    machine: Lock<(Alarm, Time)>,
    requests: Mutex<Vec<Time>>,
}

impl Node {
    /// Gives the machine another deadline.
    fn call(&self, deadline: Time, is_timeout: bool) {
        let request = {
            let mut machine = self.machine.lock();
            let (alarm, next) = &mut *machine;
            if is_timeout {
                alarm.fired();
            }
            *next = deadline.min(*next);
            alarm.set(Some(*next))
        };
        // Another thread may be quicker here.
        if let Some(at) = request {
            self.requests.lock().unwrap().push(at);
        }
    }
}

#[test]
fn the_earliest_deadline_is_kept() {
    loom::model(|| {
        let machine = Lock::new((Alarm::NONE, Time::MAX));
        let node = Arc::new(Node { machine, requests: Mutex::default() });
        let other = node.clone();
        let early = thread::spawn(move || other.call(Time(5), false));
        node.call(Time(5000), true);
        early.join().unwrap();
        let mut timers = Timers::default();
        for at in node.requests.lock().unwrap().drain(..) {
            timers.bring_forward((), at);
        }
        assert_eq!(timers.next(), Some(Time(5)));
    });
}
