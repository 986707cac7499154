//! Handles of the recorded servers and of ours. They are random numbers of 64 bits, so wherever one is in
//! a message, it is this handle.

use std::collections::BTreeMap;

use fulmar_lustre_wire::format::{LLOG_BODY, LOCK_REPLY, MDT_BODY};
use fulmar_lustre_wire::llog::LogId;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode};
use serde_json::Value;

/// Which handle of ours a recorded one is, and the other way.
#[derive(Default)]
pub(crate) struct Handles {
    own: BTreeMap<u64, u64>,
    recorded: BTreeMap<u64, u64>,
    /// Which log of ours a recorded one is.
    logs: Vec<(LogId, LogId)>,
}

impl Handles {
    pub(crate) fn add(&mut self, recorded: Handle, own: Handle) {
        if !recorded.is_none() && !own.is_none() {
            self.own.insert(recorded.0, own.0);
            self.recorded.insert(own.0, recorded.0);
        }
    }

    pub(crate) fn own(&self, recorded: Handle) -> Option<Handle> {
        self.own.get(&recorded.0).copied().map(Handle)
    }

    /// Learns the handles of a reply.
    pub(crate) fn learn(&mut self, recorded: &Message<'_>, own: &Message<'_>) {
        if recorded.body.opcode.is_connect() {
            self.add(recorded.body.handle, own.body.handle);
        }
        let lock = |message: &Message<'_>| message.get(&LOCK_REPLY).ok().flatten();
        if let (Some(recorded), Some(own)) = (lock(recorded), lock(own)) {
            self.add(recorded.handle, own.handle);
        }
        let log = |message: &Message<'_>| message.get(&LLOG_BODY).ok().flatten();
        if recorded.body.opcode == Opcode::LLOG_CREATE
            && let (Some(recorded), Some(own)) = (log(recorded), log(own))
        {
            self.logs.push((recorded.id, own.id));
        }
        let body = |message: &Message<'_>| message.get(&MDT_BODY).ok().flatten();
        if let (Some(recorded), Some(own)) = (body(recorded), body(own)) {
            self.add(recorded.open_handle, own.open_handle);
        }
    }

    /// Returns a recorded message as it is for our servers.
    pub(crate) fn rewritten(&self, recorded: &[u8]) -> Vec<u8> {
        let message = Message::decode(recorded).unwrap();
        if let Ok(Some(mut body)) = message.get(&LLOG_BODY)
            && let Some((_, own)) = self.logs.iter().find(|(known, _)| *known == body.id)
        {
            body.id = *own;
            return self.with_handles(&message.with(&LLOG_BODY, &body).to_bytes());
        }
        self.with_handles(recorded)
    }

    fn with_handles(&self, recorded: &[u8]) -> Vec<u8> {
        let mut bytes = recorded.to_vec();
        for word in bytes.chunks_exact_mut(8) {
            let value = u64::from_le_bytes(word.try_into().unwrap());
            if let Some(own) = self.own.get(&value) {
                word.copy_from_slice(&own.to_le_bytes());
            }
        }
        bytes
    }

    /// Puts the recorded handles in the place of ours.
    pub(crate) fn translate(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| self.translate(value)),
            Value::Array(items) => items.iter_mut().for_each(|value| self.translate(value)),
            Value::String(text) => {
                let number = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
                if let Some(Ok(number)) = number
                    && let Some(recorded) = self.recorded.get(&number)
                {
                    *text = Handle(*recorded).to_string();
                }
            }
            _ => {}
        }
    }
}
