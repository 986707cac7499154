//! What an administrator wants to know of a request and its reply, in a line.

mod lock;
mod metadata;
mod object;
mod other;

use std::fmt::Display;

use fulmar_base::Time;
use fulmar_lustre_wire::format::{INTENT, LOCK_REPLY};
use fulmar_lustre_wire::message::{Kind, Message, MessageFlags};
use fulmar_lustre_wire::{Fid, Opcode, Status};
use fulmar_text::{bytes, count};
use fulmar_trace::rpc::Rpc;
use fulmar_wire::DecodeError;

use super::names::Names;

/// Short texts, in the order of their importance.
pub(super) struct Facts<'a> {
    names: &'a Names,
    time: Time,
    texts: Vec<String>,
}

impl<'a> Facts<'a> {
    /// Returns what is known of an RPC.
    pub(super) fn of(rpc: &'a Rpc<'_>, names: &'a Names) -> String {
        let mut this = Self { names, time: rpc.request.time, texts: Vec::new() };
        let request = &rpc.request.message;
        let reply = rpc.reply().map(|packet| &packet.message);
        let reply = reply.filter(|reply| reply.body.kind == Kind::REPLY);
        this.add_marks(rpc);
        if let Err(error) = this.add_content(rpc, request, reply) {
            this.add(format_args!("not valid: {error}"));
        }
        if rpc.bulk_len() > 0 {
            this.add(format_args!("bulk {}", bytes(rpc.bulk_len())));
        }
        if let Some(reply) = reply.filter(|reply| reply.body.transno != 0) {
            this.add(format_args!("transno {:#x}", reply.body.transno));
        }
        this.texts.join(" ")
    }

    fn add(&mut self, fact: impl Display) {
        let text = fact.to_string();
        if !text.is_empty() {
            self.texts.push(text);
        }
    }

    /// Returns the name of a file at the time of the request, and its FID.
    fn file(&self, fid: Fid) -> String {
        self.names.file(fid, self.time)
    }

    /// Returns the name of a directory at the time of the request, or its FID.
    fn directory(&self, fid: Fid) -> String {
        self.names.directory(fid, self.time)
    }

    /// Adds what was unusual about the transmission.
    fn add_marks(&mut self, rpc: &Rpc<'_>) {
        let flags = rpc.request.message.body.flags;
        if !rpc.resends.is_empty() {
            self.add(format_args!("RESENT ({})", count(rpc.resends.len() as u64, "time")));
        } else if flags.has(MessageFlags::RESENT) {
            self.add("RESENT");
        }
        if let [first, _, ..] = rpc.replies.as_slice() {
            self.add(format_args!("after {}", first.message.body.status));
        }
        if !rpc.early.is_empty() {
            self.add(format_args!("EARLY REPLY ({})", rpc.early.len()));
        }
        if flags.has(MessageFlags::REPLAY) {
            self.add("REPLAY");
        }
        let done = MessageFlags::REQ_REPLAY_DONE | MessageFlags::LOCK_REPLAY_DONE;
        if flags.has(done) {
            self.add("end of recovery");
        }
    }

    fn add_content(
        &mut self,
        rpc: &Rpc<'_>,
        request: &Message<'_>,
        reply: Option<&Message<'_>>,
    ) -> Result<(), DecodeError> {
        match request.body.opcode {
            Opcode(101..=107) => self.add_lock(rpc, request, reply),
            Opcode::OST_CONNECT | Opcode::MDS_CONNECT | Opcode::MGS_CONNECT => {
                self.add_connect(request, reply)
            }
            Opcode(1..=32) => self.add_object(request, reply),
            Opcode(33..=100) => self.add_metadata(request, reply),
            _ => self.add_other(request, reply),
        }
    }
}

/// The label of an operation: its name, and what it is for.
pub(super) fn label(request: &Message<'_>) -> String {
    match request.get(&INTENT) {
        Ok(Some(intent)) => format!("{:?} {}", request.body.opcode, intent.ops),
        _ => request.format().to_string(),
    }
}

/// The result of an RPC, in a word.
pub(super) fn outcome(rpc: &Rpc<'_>) -> String {
    let Some(reply) = rpc.reply() else { return "NO REPLY".to_owned() };
    let status = reply.message.body.status;
    if let Ok(Some(lock)) = reply.message.get(&LOCK_REPLY)
        && lock.result2 < 0
    {
        return Status(lock.result2 as i32).to_string();
    }
    match status {
        Status::LOCK_ABORTED if reply.message.body.opcode == Opcode::LDLM_ENQUEUE => {
            "no lock".to_owned()
        }
        Status(0..) => "ok".to_owned(),
        status => status.to_string(),
    }
}

/// Returns whether the server refused or failed an operation.
pub(super) fn is_failed(rpc: &Rpc<'_>) -> bool {
    !["ok", "no lock"].contains(&outcome(rpc).as_str())
}

/// A range of bytes, whose end may be open: `[0, 4096)`, `[0, EOF]`.
pub(super) fn range(start: u64, end: u64) -> String {
    /// The largest offset of a file.
    const OPEN_END: u64 = i64::MAX as u64;
    match end {
        OPEN_END.. => format!("[{start}, EOF]"),
        end => format!("[{start}, {end})"),
    }
}
