//! The console machine: commands in, answers out.

use std::collections::VecDeque;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{BatchId, SessionId};

use crate::api::{CommandId, Config};
use crate::rpc::{RpcResult, Rpcs};

use super::Plan;
use super::api::{Answer, Command, KeyedCommand, Reply, Target};
use super::ask::Ask;
use super::limits::chosen_timeout;
use super::session::{Session, SessionRequest};
use super::test::Test;
use super::transaction::Transaction;
use super::transactions::Transactions;

/// The batch that every session has.
const DEFAULT_BATCH: &str = "batch";

/// A console, with at most one session.
#[derive(Debug)]
pub(crate) struct Console {
    /// Nanoseconds of wall clock since 1970 at the epoch.
    wall_clock: u64,
    state: State,
    /// The stamp of the last session.
    last_stamp: i64,
    /// The ID of the last batch of any session.
    last_batch: BatchId,
    transactions: Transactions,
    answers: VecDeque<(CommandId, Answer)>,
}

#[derive(Debug)]
enum State {
    /// There is no session.
    Idle,
    /// The session expired; it was not ended by a command.
    Expired,
    Active(Box<Session>),
}

impl Console {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            wall_clock: config.wall_clock,
            state: State::Idle,
            last_stamp: 0,
            last_batch: BatchId::NONE,
            transactions: Transactions::default(),
            answers: VecDeque::new(),
        }
    }

    /// Handles a command; [`Self::poll_answer`] returns its answer. `nid` is the first local NID of
    /// 4 bytes, which identifies a session.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        id: CommandId,
        nid: Option<Nid>,
        command: KeyedCommand,
        rpcs: &mut Rpcs,
    ) {
        let plan = match &command.command {
            Command::NewSession { name, timeout, force, features } => {
                SessionRequest::new(command.key, name, *timeout, *force, *features)
                    .and_then(|request| self.new_session(now, nid, request, rpcs))
            }
            Command::EndSession {} => {
                self.enter(now, command.key).map(drop).and_then(|()| self.end(rpcs))
            }
            Command::ShowSession {} => self.show_session(now),
            _ => self.obey(now, command),
        };
        match plan {
            Ok(Plan::Reply(reply)) => self.answers.push_back((id, Ok(reply))),
            Ok(Plan::Ask(transaction)) => {
                self.start(now, transaction.for_command(id), rpcs);
            }
            Err(errno) => self.answers.push_back((id, Err(errno))),
        }
    }

    /// Handles the end of a call of the console.
    pub(crate) fn handle_finished(
        &mut self,
        now: Time,
        tag: u64,
        finished: RpcResult,
        rpcs: &mut Rpcs,
    ) {
        let Some(id) = self.transactions.session_of(tag) else { return };
        let session = self.state.session_of(id);
        if let Some(over) = self.transactions.handle_reply(now, tag, finished, session, rpcs) {
            self.conclude(now, over);
        }
    }

    /// Handles the passing of time.
    pub(crate) fn handle_timeout(&mut self, now: Time, rpcs: &mut Rpcs) {
        while let Some((id, session)) = self.transactions.pop_due(now) {
            let session = self.state.session_of(session);
            let over = self.transactions.give_up(id, Errno::ETIMEDOUT, session, rpcs);
            self.conclude(now, over);
        }
        let State::Active(session) = &mut self.state else { return };
        if session.next_round > now {
            return;
        }
        if session.is_forgotten(now) && !self.transactions.is_awaited(session.id) {
            self.expire(now, rpcs);
        } else {
            let pings = session.round(now);
            self.start(now, pings, rpcs);
        }
    }

    /// Returns when to call [`Self::handle_timeout`] next, if at all.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let round = match &self.state {
            State::Active(session) => Some(session.next_round),
            State::Idle | State::Expired => None,
        };
        [round, self.transactions.poll_timeout()].into_iter().flatten().min()
    }

    /// Returns the next answer, if any.
    pub(crate) fn poll_answer(&mut self) -> Option<(CommandId, Answer)> {
        self.answers.pop_front()
    }

    /// Returns a broken invariant, if any.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        if let State::Active(session) = &self.state {
            session.check()?;
        }
        self.transactions.check()
    }

    /// Returns a remainder of a session, if any.
    pub(crate) fn is_idle(&self) -> Result<(), String> {
        if let State::Active(session) = &self.state {
            return Err(format!("the console has the session {}", session.name));
        }
        if self.transactions.is_empty() && self.answers.is_empty() {
            Ok(())
        } else {
            Err(format!("the console has transactions: {:?}", self.transactions))
        }
    }

    /// Returns the session.
    ///
    /// # Errors
    /// ESRCH if there is none, ESHUTDOWN if it has expired.
    pub(super) fn session_mut(&mut self) -> Result<&mut Session, Errno> {
        match &mut self.state {
            State::Idle => Err(Errno::ESRCH),
            State::Expired => Err(Errno::ESHUTDOWN),
            State::Active(session) => Ok(session),
        }
    }

    /// Returns the session if the key is correct.
    fn enter(&mut self, now: Time, key: u32) -> Result<&mut Session, Errno> {
        let session = self.session_mut()?;
        if session.key != key {
            return Err(Errno::EACCES);
        }
        session.last_command = now;
        Ok(session)
    }

    fn new_session(
        &mut self,
        now: Time,
        nid: Option<Nid>,
        request: SessionRequest,
        rpcs: &mut Rpcs,
    ) -> Result<Plan, Errno> {
        let nid = nid.filter(|nid| !nid.is_large()).ok_or(Errno::EADDRNOTAVAIL)?;
        if matches!(self.state, State::Active(_)) {
            if !request.force {
                return Err(Errno::EEXIST);
            }
            // Nodes are notified in the background: the command must not wait for dead nodes.
            if let Plan::Ask(farewell) = self.end(rpcs)? {
                self.start(now, farewell, rpcs);
            }
        }
        let millis = (self.wall_clock.saturating_add(now.0) / 1_000_000) as i64;
        self.last_stamp = millis.max(self.last_stamp + 1);
        let id = SessionId { nid, stamp: self.last_stamp };
        let mut session = Session::new(now, id, request);
        session.add_batch(DEFAULT_BATCH, self.next_batch())?;
        let info = session.info();
        self.state = State::Active(Box::new(session));
        Ok(Plan::Reply(Reply::Session(info)))
    }

    fn show_session(&mut self, now: Time) -> Result<Plan, Errno> {
        let session = self.session_mut().map_err(|_| Errno::ESRCH)?;
        session.last_command = now;
        Ok(Plan::Reply(Reply::Session(session.info())))
    }

    /// Ends the session and cancels its commands; its nodes are to be notified.
    fn end(&mut self, rpcs: &mut Rpcs) -> Result<Plan, Errno> {
        let State::Active(session) = std::mem::replace(&mut self.state, State::Idle) else {
            return Err(Errno::ESRCH);
        };
        for command in self.transactions.interrupt(session.id, rpcs) {
            self.answers.push_back((command, Err(Errno::ESHUTDOWN)));
        }
        Ok(Plan::Ask(session.farewell()))
    }

    /// Ends a session that was not used for its timeout.
    fn expire(&mut self, now: Time, rpcs: &mut Rpcs) {
        if let Ok(Plan::Ask(farewell)) = self.end(rpcs) {
            self.start(now, farewell, rpcs);
        }
        self.state = State::Expired;
    }

    /// Executes a command on an existing session.
    fn obey(
        &mut self,
        now: Time,
        KeyedCommand { key, command }: KeyedCommand,
    ) -> Result<Plan, Errno> {
        let batch = BatchId(self.last_batch.0 + 1);
        let session = self.enter(now, key)?;
        let done = |()| Plan::Reply(Reply::Done);
        match command {
            Command::NewSession { .. } | Command::EndSession {} | Command::ShowSession {} => {
                unreachable!("these commands are handled above")
            }
            Command::AddGroup { group } => session.add_group(&group).map(done),
            Command::AddNodes { group, nodes } => {
                session.add_nodes(now, &group, &nodes).map(Plan::Ask)
            }
            Command::DeleteGroup { group } => session.delete_group(&group).map(Plan::Ask),
            Command::RefreshGroup { group } => session.refresh_group(&group).map(Plan::Ask),
            Command::CleanGroup { group, states } => {
                session.clean_group(&group, &states).map(Plan::Ask)
            }
            Command::RemoveNodes { group, nodes } => {
                session.remove_nodes(&group, &nodes).map(Plan::Ask)
            }
            Command::ListGroups {} => Ok(Plan::Reply(Reply::Names(session.group_names()))),
            Command::ShowGroup { group } => session.show_group(&group),
            Command::AddBatch { batch: name } => {
                session.add_batch(&name, batch)?;
                self.last_batch = batch;
                Ok(done(()))
            }
            Command::ListBatches {} => Ok(Plan::Reply(Reply::Names(session.batch_names()))),
            Command::ShowBatch { batch } => session.show_batch(&batch),
            Command::AddTest { batch, test, loops, concurrency, distribute, from, to } => {
                let test = Test { spec: test, loops, concurrency, distribute, from, to };
                session.add_test(&batch, test).map(Plan::Ask)
            }
            Command::Run { batch, timeout } => session.run(&batch, timeout).map(Plan::Ask),
            Command::Stop { batch, force } => session.stop(&batch, force).map(Plan::Ask),
            Command::Query { batch, test, servers, timeout } => {
                session.query(&batch, test, servers, timeout).map(Plan::Ask)
            }
            Command::Ping { target, timeout } => session.inquire(Ask::Debug, &target, timeout),
            Command::Stat { target, timeout } => session.inquire(Ask::Stat, &target, timeout),
            Command::Measure { target, timeout } => session.inquire(Ask::Measure, &target, timeout),
        }
    }

    fn next_batch(&mut self) -> BatchId {
        self.last_batch = BatchId(self.last_batch.0 + 1);
        self.last_batch
    }

    fn start(&mut self, now: Time, transaction: Transaction, rpcs: &mut Rpcs) {
        if let Some(over) = self.transactions.start(now, transaction, rpcs) {
            self.conclude(now, over);
        }
    }

    /// Processes the results of a completed transaction, and answers its command.
    fn conclude(&mut self, now: Time, transaction: Transaction) {
        let session = self.state.session_of(transaction.session);
        let features = session.map(|session| {
            session.conclude(&transaction);
            if transaction.command.is_some() {
                session.last_command = now;
            }
            session.features
        });
        if let Some(command) = transaction.command {
            self.answers.push_back((command, Ok(transaction.into_reply(features))));
        }
    }
}

impl State {
    /// Returns the session if it still exists with this ID.
    fn session_of(&mut self, id: SessionId) -> Option<&mut Session> {
        match self {
            Self::Active(session) if session.id == id => Some(session),
            _ => None,
        }
    }
}

impl Session {
    /// Queries the nodes of a target.
    fn inquire(&self, ask: Ask, target: &Target, timeout: u32) -> Result<Plan, Errno> {
        let nodes = self.select(target)?;
        Ok(Plan::Ask(self.ask(ask, self.parts(&nodes)).within(chosen_timeout(timeout))))
    }
}
