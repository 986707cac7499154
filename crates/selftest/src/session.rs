//! The session of the node, and ended sessions that still have RPCs.
//! Spec: lnet-selftest §5.1 to §5.3, §9.1.
//!
//! ```text
//! none ---- MAKE_SESSION ----> current ---- removed, expired, replaced ----> zombie ----> none
//!                                                    no RPC in flight: at once
//! ```

use std::collections::BTreeMap;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{
    BatchId, Body, DebugReply, MakeSession, MakeSessionReply, Name, RemoveSession,
    RemoveSessionReply, SessionId,
};

use crate::Selftest;

use crate::batch::Batch;
use crate::framework::Outcome;
use crate::notice::{Notice, SessionEnd};
use crate::stat::Measures;

/// A session, current or zombie.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    name: Name,
    pub(crate) features: u32,
    pub(crate) started: Time,
    /// When it expires; `None` for never.
    pub(crate) deadline: Option<Time>,
    /// Number of requests to enter, less those to leave.
    references: u32,
    pub(crate) batches: BTreeMap<BatchId, Batch>,
    /// Whether this node is a server of one of its BRW tests.
    pub(crate) serves_bulk: bool,
    /// How many of its tests are active.
    pub(crate) active: usize,
    pub(crate) brw_errors: u32,
    pub(crate) ping_errors: u32,
    pub(crate) measures: Measures,
}

/// Local number of a session: session IDs may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionNumber(u64);

/// The sessions of the node.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: BTreeMap<SessionNumber, Session>,
    current: Option<SessionNumber>,
    next: u64,
}

impl Selftest {
    pub(crate) fn make_session(
        &mut self,
        now: Time,
        features: u32,
        request: &MakeSession,
    ) -> Outcome {
        let timeout = self.timeout_seconds();
        let current = self.sessions.current_id();
        let reply = |status: u32, session, timeout, name| {
            Outcome::Reply(Body::MakeSessionReply(MakeSessionReply {
                status,
                session,
                timeout,
                name,
            }))
        };
        if !request.session.is_valid() {
            return reply(Errno::EINVAL.0 as u32, current, 0, Name::EMPTY);
        }
        if let Some(session) = self.sessions.current_mut() {
            if session.id == request.session {
                session.references = session.references.saturating_add(1);
                return reply(0, current, timeout, Name::EMPTY);
            }
            if request.force == 0 {
                return reply(Errno::EBUSY.0 as u32, current, timeout, session.name);
            }
            self.end_session(SessionEnd::Replaced);
        }
        let (name, console) = (request.name.to_string(), request.session.nid);
        self.sessions.begin(Session {
            id: request.session,
            name: request.name,
            features,
            started: now,
            deadline: None,
            references: 1,
            batches: BTreeMap::new(),
            serves_bulk: false,
            active: 0,
            brw_errors: 0,
            ping_errors: 0,
            measures: Measures::default(),
        });
        self.notice(Notice::SessionBegun { name, console });
        reply(0, request.session, timeout, Name::EMPTY)
    }

    pub(crate) fn remove_session(&mut self, request: &RemoveSession) -> Outcome {
        let status = match self.sessions.current_mut() {
            _ if !request.session.is_valid() => Errno::EINVAL.0 as u32,
            None => Errno::ESRCH.0 as u32,
            Some(session) if session.id != request.session => Errno::EBUSY.0 as u32,
            Some(session) if session.references > 1 => {
                session.references -= 1;
                0
            }
            Some(_) => {
                self.end_session(SessionEnd::Removed);
                0
            }
        };
        let session = self.sessions.current_id();
        Outcome::Reply(Body::RemoveSessionReply(RemoveSessionReply { status, session }))
    }

    pub(crate) fn debug(&self) -> Outcome {
        let session = self.sessions.current_id();
        let (status, timeout, name) = match self.sessions.current() {
            Some(found) => (0, self.timeout_seconds(), found.name),
            None => (Errno::ESRCH.0 as u32, 0, Name::EMPTY),
        };
        let reply = DebugReply { status, session, timeout, batches: 0, name };
        Outcome::Reply(Body::DebugReply(reply))
    }

    /// Ends the session if its console was silent for too long.
    pub(crate) fn expire_session(&mut self, now: Time) {
        if self.session_deadline().is_some_and(|deadline| deadline <= now) {
            self.end_session(SessionEnd::Expired);
        }
    }

    /// Returns when the current session expires: not while one of its requests is answered.
    pub(crate) fn session_deadline(&self) -> Option<Time> {
        self.sessions.current().filter(|_| !self.is_answering)?.deadline
    }

    /// Ends the current session and aborts its RPCs; until these have ended, the session stays as a
    /// zombie.
    fn end_session(&mut self, why: SessionEnd) {
        let number = self.sessions.current.take().expect("only the current session ends");
        let session = self.sessions.get_mut(number);
        session.deadline = None;
        let (name, console) = (session.name.to_string(), session.id.nid);
        self.notice(Notice::SessionEnded { name, console, why });
        self.abort_transfers();
        self.abort_session(number);
        self.bury(number);
    }

    /// Forgets a session that has ended, once it has no RPCs.
    pub(crate) fn bury(&mut self, number: SessionNumber) {
        let sessions = &mut self.sessions;
        let is_running = sessions.table.get(&number).is_none_or(|session| session.active > 0);
        if sessions.current == Some(number) || is_running {
            return;
        }
        let session = sessions.table.remove(&number).expect("it was just checked");
        for instance in session.batches.values().flat_map(Batch::clients) {
            self.instances.remove(instance);
        }
    }

    fn timeout_seconds(&self) -> u32 {
        u32::try_from(self.config.session_timeout.as_secs()).unwrap_or(u32::MAX)
    }
}

impl Sessions {
    pub(crate) fn current(&self) -> Option<&Session> {
        self.current.and_then(|number| self.table.get(&number))
    }

    pub(crate) fn current_mut(&mut self) -> Option<&mut Session> {
        self.current.and_then(|number| self.table.get_mut(&number))
    }

    /// Returns the current session if it has this ID.
    pub(crate) fn find(&mut self, id: SessionId) -> Option<(SessionNumber, &mut Session)> {
        let number = self.current?;
        let session = self.table.get_mut(&number)?;
        (session.id == id).then_some((number, session))
    }

    /// Returns a session with running RPCs.
    ///
    /// # Panics
    /// If it does not exist.
    pub(crate) fn get_mut(&mut self, number: SessionNumber) -> &mut Session {
        self.table.get_mut(&number).expect("a running RPC keeps its session")
    }

    /// Returns the ID of the current session, or the invalid one.
    pub(crate) fn current_id(&self) -> SessionId {
        self.current().map_or(SessionId::INVALID, |session| session.id)
    }

    pub(crate) fn zombies(&self) -> usize {
        self.table.len() - usize::from(self.current.is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the number of sessions, zombies included.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    fn begin(&mut self, session: Session) {
        assert!(self.current.is_none(), "a node is in at most one session");
        let number = SessionNumber(self.next);
        self.next += 1;
        self.table.insert(number, session);
        self.current = Some(number);
    }
}
