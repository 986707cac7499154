//! The framework services, one request at a time: common parts.
//! Spec: lnet-selftest §5, §8, §9.1.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{Body, FEATURES, SessionId, VERSION};

use crate::Selftest;
use crate::serve::{Client, NOTHING, ServiceRequest, refusal};

/// The result of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A reply, with the features of the session.
    Reply(Body),
    /// A reply to a request with other features than the session, with the supported ones.
    Mismatch(Body),
    /// No reply.
    Drop,
    /// Later, through [`Selftest::framework_served`]; other requests wait.
    Later,
    /// Later, through [`Selftest::finish`]; other requests do not wait.
    Aside,
}

impl Selftest {
    /// Serves the next request, if any.
    pub(crate) fn serve_framework(&mut self, now: Time) -> bool {
        if self.is_answering {
            return false;
        }
        let Some(incoming) = self.server.framework.pop() else { return false };
        let ServiceRequest { client, version, features, .. } = incoming;
        if version != VERSION {
            self.refuse_version(now, client, &incoming.body);
            return true;
        }
        if let Body::Join(join) = &incoming.body {
            let (reply, features) = self.console.join(now, features, client.from, join);
            self.reply(now, client, Body::JoinReply(reply), features);
            return true;
        }
        let asked = session_of(&incoming.body);
        let outcome = match self.refuse_features(&incoming) {
            Some(body) => Outcome::Mismatch(body),
            None => self.answer(now, incoming),
        };
        match outcome {
            Outcome::Later => self.is_answering = true,
            outcome => {
                self.finish(now, client, outcome);
                self.hear_console(now, asked);
            }
        }
        true
    }

    fn answer(&mut self, now: Time, incoming: ServiceRequest) -> Outcome {
        let ServiceRequest { client, order, features, body, .. } = incoming;
        match body {
            Body::MakeSession(request) => self.make_session(now, features, &request),
            Body::RemoveSession(request) => self.remove_session(&request),
            Body::Debug(_) => self.debug(),
            Body::Batch(request) => self.batch(now, &request),
            Body::Test(test) => self.test(now, client, order, test),
            Body::Stat(request) => self.stat(client, request),
            other => unreachable!("{other:?} is not a framework request"),
        }
    }

    /// Completes a request that other requests have waited for.
    pub(crate) fn framework_served(&mut self, now: Time, client: Client, body: Body) {
        self.is_answering = false;
        self.finish(now, client, Outcome::Reply(body));
        self.hear_console(now, self.sessions.current_id());
    }

    /// Completes a request, unless it continues.
    pub(crate) fn finish(&mut self, now: Time, client: Client, outcome: Outcome) {
        match outcome {
            Outcome::Later | Outcome::Aside => {}
            Outcome::Drop => self.drop_rpc(client),
            Outcome::Mismatch(body) => self.reply(now, client, body, FEATURES),
            Outcome::Reply(body) => {
                let features = self.sessions.current().map_or(FEATURES, |found| found.features);
                self.reply(now, client, body, features);
            }
        }
    }

    /// Restarts the timer of the session, if a request was its own: other consoles do not keep it
    /// alive.
    fn hear_console(&mut self, now: Time, asked: SessionId) {
        let timeout = self.config.session_timeout;
        if let Some((_, session)) = self.sessions.find(asked) {
            session.deadline = (!timeout.is_zero()).then(|| now + timeout);
        }
    }

    /// Refuses requests with unsupported features, or with features that the session does not have.
    fn refuse_features(&self, incoming: &ServiceRequest) -> Option<Body> {
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

/// Returns the session that a framework request names.
fn session_of(body: &Body) -> SessionId {
    match body {
        Body::MakeSession(request) => request.session,
        Body::RemoveSession(request) => request.session,
        Body::Debug(request) => request.session,
        Body::Batch(request) => request.session,
        Body::Test(request) => request.session,
        Body::Stat(request) => request.session,
        other => unreachable!("{other:?} is not a framework request"),
    }
}
