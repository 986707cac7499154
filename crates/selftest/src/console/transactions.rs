//! All active transactions, with their deadlines and calls in flight.

use std::collections::BTreeMap;

use fulmar_base::{Errno, Time, Timers};
use fulmar_lnet_wire::selftest::SessionId;

use crate::api::CommandId;
use crate::rpc::{RpcResult, Rpcs};

use super::ask::Ask;
use super::session::Session;
use super::transaction::Transaction;

/// An active transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TransactionId(u64);

#[derive(Debug, Default)]
pub(super) struct Transactions {
    created: u64,
    calls: u64,
    all: BTreeMap<TransactionId, Transaction>,
    deadlines: Timers<TransactionId>,
    /// The transaction and part of each call.
    tags: BTreeMap<u64, (TransactionId, usize)>,
}

impl Transactions {
    /// Starts a transaction, and returns it if it has already ended.
    pub(super) fn start(
        &mut self,
        now: Time,
        mut transaction: Transaction,
        rpcs: &mut Rpcs,
    ) -> Option<Transaction> {
        self.created += 1;
        let id = TransactionId(self.created);
        transaction.begin(now);
        self.all.insert(id, transaction);
        self.advance(now, id, rpcs)
    }

    /// Returns the session of a call; `None` if its transaction has ended.
    pub(super) fn session_of(&self, tag: u64) -> Option<SessionId> {
        let (id, _) = self.tags.get(&tag)?;
        self.all.get(id).map(|transaction| transaction.session)
    }

    /// Handles the end of a call, and returns its transaction if that has ended.
    pub(super) fn handle_reply(
        &mut self,
        now: Time,
        tag: u64,
        finished: RpcResult,
        session: Option<&mut Session>,
        rpcs: &mut Rpcs,
    ) -> Option<Transaction> {
        let (id, part) = self.tags.remove(&tag)?;
        let transaction = self.all.get_mut(&id).expect("a tag belongs to a transaction");
        let reply = finished.result.map(|(body, features, _)| (body, features));
        transaction.handle_reply(now, part, reply, session);
        self.advance(now, id, rpcs)
    }

    /// Returns the next transaction past its deadline, with its session. The caller must end it.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(TransactionId, SessionId)> {
        let id = self.deadlines.pop_due(now)?;
        let transaction = self.all.get(&id).expect("only active transactions have a deadline");
        Some((id, transaction.session))
    }

    /// Ends a transaction without waiting for its nodes.
    pub(super) fn give_up(
        &mut self,
        id: TransactionId,
        errno: Errno,
        session: Option<&mut Session>,
        rpcs: &mut Rpcs,
    ) -> Transaction {
        let mut transaction = self.all.remove(&id).expect("only active transactions are ended");
        self.deadlines.clear(id);
        for tag in transaction.give_up(errno, session, rpcs) {
            self.tags.remove(&tag);
        }
        transaction
    }

    /// Ends the transactions of a session that has ended, and returns their commands. Transactions
    /// that remove nodes continue.
    pub(super) fn interrupt(&mut self, session: SessionId, rpcs: &mut Rpcs) -> Vec<CommandId> {
        let of_session = |transaction: &&mut Transaction| transaction.session == session;
        let commands = self.all.values_mut().filter(of_session);
        let commands = commands.filter_map(|transaction| transaction.command.take()).collect();
        let ended = |transaction: &Transaction| {
            transaction.session == session && !matches!(transaction.ask(), Ask::Remove)
        };
        let ended = self.all.iter().filter(|(_, transaction)| ended(transaction));
        let ended: Vec<TransactionId> = ended.map(|(id, _)| *id).collect();
        for id in ended {
            self.give_up(id, Errno::ESHUTDOWN, None, rpcs);
        }
        commands
    }

    /// Returns whether a command of the session waits for its nodes.
    pub(super) fn is_awaited(&self, session: SessionId) -> bool {
        self.all.values().any(|t| t.session == session && t.command.is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Returns a broken invariant, if any.
    pub(super) fn check(&self) -> Result<(), String> {
        self.all.values().try_for_each(Transaction::check)?;
        let lost = self.tags.values().find(|(id, _)| !self.all.contains_key(id));
        match lost {
            Some((id, _)) => Err(format!("a call is in flight for {id:?}, which is over")),
            None if self.deadlines.len() == self.all.len() => Ok(()),
            None => Err("a transaction has no deadline".to_owned()),
        }
    }

    /// Starts queued calls, and removes the transaction if it has ended.
    fn advance(&mut self, now: Time, id: TransactionId, rpcs: &mut Rpcs) -> Option<Transaction> {
        let transaction = self.all.get_mut(&id)?;
        let is_over = transaction.is_over(now);
        transaction.pump(now, rpcs, |part| {
            self.calls += 1;
            self.tags.insert(self.calls, (id, part));
            self.calls
        });
        if is_over {
            self.deadlines.clear(id);
            return self.all.remove(&id);
        }
        self.deadlines.set(id, transaction.deadline);
        None
    }
}
