//! Effects of ACKs and REPLYs. Checks invariant 15 of lnet-behaviour §17.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lnet::Event;
use fulmar_lnet_wire::{Body, Handle, Header};

use super::{Verdict, require};

/// Requests, and their answers.
#[derive(Debug, Default)]
pub struct Answers {
    asked: BTreeSet<Handle>,
    /// Answers by descriptor that have no event yet.
    came: BTreeMap<u64, u64>,
}

impl Answers {
    pub(super) fn asked(&mut self, header: &Header) {
        if let Body::Put { ack: handle, .. } | Body::Get { reply: handle, .. } = header.body {
            self.asked.insert(handle);
        }
    }

    pub(super) fn received(&mut self, header: &Header) {
        if let Body::Ack { handle, .. } | Body::Reply { handle } = header.body
            && handle != Handle::NONE
            && self.asked.contains(&handle)
        {
            *self.came.entry(handle.object).or_default() += 1;
        }
    }

    /// 15: the cause of an ACK or REPLY event is a received message with the handle of a request of
    /// this incarnation of the node.
    pub(super) fn answers_were_requested(&mut self, event: &Event) -> Verdict {
        // A failure is reported by the node itself for a missing answer.
        if event.status.is_err() || event.sender.is_loopback() {
            return Ok(());
        }
        let came = self.came.get_mut(&event.md.0).filter(|came| **came > 0);
        require(came.is_some(), 15, || {
            format!("no message with its handle was received: {event:?}")
        })?;
        if let Some(came) = came {
            *came -= 1;
        }
        Ok(())
    }
}
