//! The framework services, one request at a time: common parts.
//! Spec: lnet-selftest §5, §8, §9.1.

use std::collections::VecDeque;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{Body, FEATURES};

use crate::Selftest;
use crate::serve::{Client, Incoming, NOTHING, refusal};

/// The requests of consoles.
#[derive(Debug, Default)]
pub(crate) struct Framework {
    pub(crate) waiting: VecDeque<Incoming>,
    /// Whether one is being served. The session does not expire meanwhile.
    pub(crate) is_serving: bool,
}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A reply, with the features of the session.
    Reply(Body),
    /// A reply to a request with other features than the session, with the supported ones.
    Mismatch(Body),
    /// No reply.
    Drop,
    /// Later, through [`Selftest::framework_served`].
    Later,
}

impl Selftest {
    /// Serves the next request, if any.
    pub(crate) fn serve_framework(&mut self, now: Time) -> bool {
        if self.framework.is_serving {
            return false;
        }
        let Some(incoming) = self.framework.waiting.pop_front() else { return false };
        self.framework.is_serving = true;
        if let Some(session) = self.sessions.current_mut() {
            session.deadline = None;
        }
        let client = incoming.client;
        let outcome = match self.refuse_features(&incoming) {
            Some(body) => Outcome::Mismatch(body),
            None => self.answer(now, incoming),
        };
        self.framework_served(now, client, outcome);
        true
    }

    fn answer(&mut self, now: Time, incoming: Incoming) -> Outcome {
        let Incoming { client, order, features, body } = incoming;
        match body {
            Body::MakeSession(request) => self.make_session(now, features, &request),
            Body::RemoveSession(request) => self.remove_session(&request),
            Body::Debug(_) => self.debug(),
            Body::Batch(request) => self.batch(now, &request),
            Body::Test(test) => self.test(client, order, test),
            Body::Stat(request) => self.stat(client, request),
            other => unreachable!("{other:?} is not a framework request"),
        }
    }

    /// Completes a request, unless it continues, and restarts the timer of the session.
    pub(crate) fn framework_served(&mut self, now: Time, client: Client, outcome: Outcome) {
        match outcome {
            Outcome::Later => return,
            Outcome::Drop => self.drop_rpc(client),
            Outcome::Mismatch(body) => self.reply(client, body, FEATURES),
            Outcome::Reply(body) => {
                let features = self.sessions.current().map_or(FEATURES, |found| found.features);
                self.reply(client, body, features);
            }
        }
        self.framework.is_serving = false;
        let timeout = self.config.session_timeout;
        if let Some(session) = self.sessions.current_mut() {
            session.deadline = (!timeout.is_zero()).then(|| now + timeout);
        }
    }

    /// Refuses requests with unsupported features, or with features that the session does not have.
    fn refuse_features(&self, incoming: &Incoming) -> Option<Body> {
        let current = self.sessions.current();
        let (body, features) = (&incoming.body, incoming.features);
        let is_fine = match (body, current) {
            (Body::MakeSession(_) | Body::Debug(_), _) => features & !FEATURES == 0,
            (_, Some(session)) => features == session.features,
            (_, None) => true,
        };
        let session = match body {
            Body::MakeSession(_) => NOTHING,
            _ => self.sessions.current_id(),
        };
        (!is_fine).then(|| refusal(body, Errno::EPROTO, session))
    }
}
