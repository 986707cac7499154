//! The host of a metadata target that writes late: what it has on disk, and what not yet.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::Time;
use fulmar_lustre_wire::connect::ConnectData;
use fulmar_lustre_wire::format::{CONNECT_DATA, Format};
use fulmar_lustre_wire::message::{ConnectOpFlags, Message, MessageFlags};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid};
use fulmar_rpc::export::TargetId;
use fulmar_rpc::service::{KnownClient, Request, RequestId, SavedReply, Server, Window};

pub(super) const TARGET: TargetId = TargetId(0);

/// A deliberate fault, for the checkers to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    ReplaysTwice,
    /// All requests that modify have the tag 1.
    OneTag,
    LosesCommitted,
    LosesReplies,
    /// The clients free the data of a write at its end, though they may be sent again.
    FreesEarly,
}

/// What survives a restart once it is committed.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    /// The operations that were applied, with their transactions.
    pub(super) applied: Vec<(u64, u32)>,
    clients: BTreeMap<Uuid, BTreeMap<u16, SavedReply>>,
}

pub(super) struct Host {
    fault: Fault,
    pub(super) now: Store,
    pub(super) disk: Store,
    /// How often the target has started.
    start: u64,
    transno: u64,
    exports: BTreeMap<Handle, Uuid>,
    /// Slots of requests that are executed.
    slots: BTreeSet<(Uuid, u16)>,
    pub(super) replays: u64,
    pub(super) opens: u64,
    pub(super) locks: u64,
    /// The operations that open files.
    pub(super) opening: BTreeSet<u32>,
    /// The operations that write data.
    pub(super) writing: BTreeSet<u32>,
    pub(super) replayed_writes: u64,
    /// The transactions of difficult replies that are not confirmed.
    pub(super) difficult: BTreeMap<RequestId, u64>,
    /// How many were confirmed before their commit.
    pub(super) acknowledged: u64,
    pub(super) error: Option<String>,
}

impl Host {
    pub(super) fn new(fault: Fault) -> Self {
        Self {
            fault,
            now: Store::default(),
            disk: Store::default(),
            start: 1,
            transno: 1 << 32,
            exports: BTreeMap::new(),
            slots: BTreeSet::new(),
            replays: 0,
            opens: 0,
            locks: 0,
            opening: BTreeSet::new(),
            writing: BTreeSet::new(),
            replayed_writes: 0,
            difficult: BTreeMap::new(),
            acknowledged: 0,
            error: None,
        }
    }

    /// The target starts again with what is on disk.
    pub(super) fn restart(&mut self, now: Time, server: &mut Server) {
        self.start += 1;
        if self.fault == Fault::LosesCommitted {
            self.disk.applied.pop();
        }
        self.now = self.disk.clone();
        self.transno = self.start << 32;
        self.slots.clear();
        self.difficult.clear();
        server.set_last_committed(TARGET, self.last_committed());
        let known: Vec<KnownClient> = self.known();
        let exports = server.recover(now, TARGET, &known, Window::default());
        self.exports = exports.into_iter().zip(known.iter().map(|known| known.client)).collect();
    }

    fn known(&self) -> Vec<KnownClient> {
        let has_replies = self.fault != Fault::LosesReplies;
        let known = self.disk.clients.iter().map(|(&client, replies)| KnownClient {
            client,
            replies: replies.values().filter(|_| has_replies).cloned().collect(),
        });
        known.collect()
    }

    /// Writes everything.
    pub(super) fn commit(&mut self, server: &mut Server) {
        self.disk = self.now.clone();
        server.set_last_committed(TARGET, self.last_committed());
    }

    fn last_committed(&self) -> u64 {
        self.disk.applied.iter().map(|&(transno, _)| transno).max().unwrap_or(0)
    }

    pub(super) fn begin(&mut self, request: &Request) {
        let tag = request.message.body.tag;
        let Some(&client) = self.exports.get(&request.export) else { return };
        let is_replay = request.message.body.flags.has(MessageFlags::REPLAY);
        if tag != 0 && !is_replay && !self.slots.insert((client, tag)) {
            self.error.get_or_insert(format!("slot {tag} of client {client} is used twice"));
        }
    }

    /// Replies to a request that was executed. Changes are protected until the client knows of them.
    pub(super) fn reply(
        &mut self,
        now: Time,
        server: &mut Server,
        request: &Request,
        reply: Message<'static>,
    ) {
        match reply.body.transno {
            0 => server.reply(now, request.id, reply),
            transno => {
                self.difficult.insert(request.id, transno);
                server.reply_difficult(now, request.id, reply);
            }
        }
    }

    /// Handles the confirmation of a difficult reply.
    pub(super) fn confirm(&mut self, request: RequestId) {
        match self.difficult.remove(&request) {
            Some(transno) => {
                self.acknowledged += u64::from(transno > self.last_committed());
            }
            None => {
                self.error
                    .get_or_insert(format!("{request:?} is confirmed, and was not difficult"));
            }
        }
    }

    /// Does not execute a request that has begun: its client sends it again.
    pub(super) fn give_up(&mut self, request: &Request) {
        if let Some(&client) = self.exports.get(&request.export) {
            self.slots.remove(&(client, request.message.body.tag));
        }
    }

    /// Forgets a client.
    pub(super) fn forget(&mut self, export: Handle) {
        let Some(client) = self.exports.remove(&export) else { return };
        if !self.exports.values().any(|other| *other == client) {
            self.slots.retain(|(owner, _)| *owner != client);
            self.now.clients.remove(&client);
            self.disk.clients.remove(&client);
        }
    }

    /// Executes a request, and returns the reply.
    pub(super) fn execute(&mut self, request: &Request, client: Uuid) -> Message<'static> {
        let format: &'static Format = request.message.format();
        let mut reply = Message::reply(format, Status::OK);
        let body = &request.message.body;
        if let Ok(Some(asked)) = request.message.get(&CONNECT_DATA) {
            // The record of a client is written before it may have transactions.
            self.exports.insert(request.export, client);
            self.now.clients.entry(client).or_default();
            self.disk.clients.entry(client).or_default();
            let instance = self.start as u32;
            let granted = ConnectData { instance, modify_rpcs_max: 8, ..asked };
            reply.body.connect_flags = ConnectOpFlags::REPLAYABLE;
            return reply.with(&CONNECT_DATA, &granted);
        }
        let Some(&client) = self.exports.get(&request.export) else { return reply };
        self.slots.remove(&(client, body.tag));
        if body.opcode == Opcode::MDS_DISCONNECT {
            self.forget(request.export);
        } else if body.opcode == Opcode::LDLM_ENQUEUE {
            self.locks += 1;
        } else if body.opcode == Opcode::MDS_REINT || body.opcode == Opcode::MDS_CLOSE {
            self.apply(client, request, &mut reply);
        }
        reply
    }

    fn apply(&mut self, client: Uuid, request: &Request, reply: &mut Message<'static>) {
        let body = &request.message.body;
        let is_replay = body.transno != 0;
        if is_replay {
            self.replays += 1;
            self.replayed_writes += u64::from(self.writing.contains(&body.project));
            reply.body.transno = body.transno;
            if body.transno <= self.last_committed() {
                // A file is opened again, and nothing else is changed.
                self.opens += 1;
                if !self.opening.contains(&body.project) {
                    let error = format!("operation {} is on disk, and replayed", body.project);
                    self.error.get_or_insert(error);
                }
                return;
            }
        } else {
            self.transno += 1;
            reply.body.transno = self.transno;
        }
        self.now.applied.push((reply.body.transno, body.project));
        if is_replay && self.fault == Fault::ReplaysTwice {
            self.now.applied.push((reply.body.transno, body.project));
        }
        let saved = SavedReply { tag: body.tag, xid: request.xid, reply: reply.clone() };
        if let Some(replies) = self.now.clients.get_mut(&client) {
            replies.insert(body.tag, saved);
        }
    }
}
