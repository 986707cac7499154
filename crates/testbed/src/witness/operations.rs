//! Operations, and the events of their descriptors. Checks invariants 7, 8, 9, 12, 13 and 33 of
//! lnet-behaviour §17.

use std::collections::BTreeMap;

use fulmar_lnet::{Bound, Event, EventKind, Get, Md, MdId, MdOptions, Op, Put};
use fulmar_lnet_wire::{Body, Header, Nid};

use super::{Verdict, require};

/// The checked part of a PUT or a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The event of its answer, if any.
    pub answer: Option<EventKind>,
    /// The local NID, if it must be this one.
    pub source: Option<Nid>,
    /// The target NID.
    pub target: Nid,
}

impl From<&Put> for Request {
    fn from(put: &Put) -> Self {
        let answer = put.ack.then_some(EventKind::Ack);
        Self { answer, source: put.source, target: put.target.nid }
    }
}

impl From<&Get> for Request {
    fn from(get: &Get) -> Self {
        Self { answer: Some(EventKind::Reply), source: get.source, target: get.target.nid }
    }
}

/// The descriptors of the application.
#[derive(Debug, Default)]
pub struct Operations {
    records: BTreeMap<MdId, Record>,
}

/// The state of a descriptor.
#[derive(Debug, Default)]
struct Record {
    made: Option<Md>,
    begun: Counts,
    seen: Counts,
    /// Events of operations.
    events: u32,
    /// An operation or its answer has failed.
    failed: bool,
    unlinks: bool,
    unlinked: bool,
    /// The pair of NIDs that the latest operation must use.
    pair: Option<(Nid, Nid)>,
}

/// Counts of operations, or of their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    sends: u64,
    acks: u64,
    replies: u64,
}

impl Counts {
    fn add(&mut self, answer: Option<EventKind>) {
        self.sends += 1;
        match answer {
            Some(EventKind::Ack) => self.acks += 1,
            Some(EventKind::Reply) => self.replies += 1,
            _ => {}
        }
    }
}

impl Operations {
    /// Records a posted operation, and its descriptor.
    pub(super) fn posted(&mut self, id: MdId, op: &Op) {
        match op {
            Op::Attach { md, .. } => self.declare(id, *md),
            Op::Put { from, put } => {
                self.declare_if_new(id, from);
                self.begins(id, &put.into());
            }
            Op::Get { into, get } => {
                self.declare_if_new(id, into);
                self.begins(id, &get.into());
            }
            Op::Unlink(_) => self.unlinks(id),
        }
    }

    fn declare_if_new(&mut self, id: MdId, bound: &Bound) {
        if let Bound::New(md, _) = bound {
            self.declare(id, *md);
        }
    }

    pub(super) fn declare(&mut self, id: MdId, made: Md) {
        self.records.entry(id).or_default().made = Some(made);
    }

    pub(super) fn begins(&mut self, id: MdId, request: &Request) {
        let record = self.records.entry(id).or_default();
        record.begun.add(request.answer);
        record.pair = request.source.map(|source| (source, request.target));
    }

    pub(super) fn unlinks(&mut self, id: MdId) {
        self.records.entry(id).or_default().unlinks = true;
    }

    /// 7, 8, 12 and 13: checks an event of a descriptor.
    pub(super) fn event(&mut self, event: &Event) -> Verdict {
        let record = self.records.entry(event.md).or_default();
        record.nothing_follows_the_last_event(event)?;
        if event.kind == EventKind::Unlink {
            return Ok(());
        }
        record.failed |= event.status.is_err();
        record.thresholds_are_kept(event)?;
        record.lengths_are_kept(event)?;
        record.no_event_without_an_operation(event)
    }

    /// 33: with a given source, exactly that NID sends to exactly the target NID.
    pub(super) fn given_pairs_are_kept(&self, header: &Header) -> Verdict {
        let (Body::Put { ack: handle, .. } | Body::Get { reply: handle, .. }) = header.body else {
            return Ok(());
        };
        let pair = self.records.get(&MdId(handle.object)).and_then(|record| record.pair);
        let kept = pair.is_none_or(|pair| pair == (header.source, header.target));
        require(kept, 33, || format!("{pair:?} were given, but sent is {header:?}"))
    }

    /// 7 and 8: every operation is complete, and every unlinked descriptor had its last event.
    /// Without failures, every answer has arrived.
    pub(super) fn finished(&self, calm: bool) -> Verdict {
        for (id, record) in &self.records {
            let Record { begun, seen, failed, unlinks, unlinked, .. } = record;
            require(seen.sends == begun.sends, 7, || {
                format!("{} SEND events of {} operations of {id:?}", seen.sends, begun.sends)
            })?;
            require(!calm || (!failed && seen == begun), 7, || {
                format!("not all operations of {id:?} succeeded: {seen:?} of {begun:?}")
            })?;
            require(!unlinks || *unlinked, 8, || format!("{id:?} was not unlinked"))?;
        }
        Ok(())
    }
}

impl Record {
    /// 7 and 8: an event is marked as the last of its descriptor once, and then no more follow.
    fn nothing_follows_the_last_event(&mut self, event: &Event) -> Verdict {
        require(!self.unlinked, 7, || format!("an event after the last one: {event:?}"))?;
        self.unlinked = event.unlinked;
        let said = event.kind != EventKind::Unlink || event.unlinked;
        require(said, 8, || format!("UNLINK that does not unlink: {event:?}"))
    }

    /// 8 and 12: there are no more events than the threshold allows.
    fn thresholds_are_kept(&mut self, event: &Event) -> Verdict {
        self.events = self.events.saturating_add(1);
        let threshold = self.made.and_then(|made| made.threshold).unwrap_or(u32::MAX);
        let number = if matches!(event.kind, EventKind::Put | EventKind::Get) { 12 } else { 8 };
        require(self.events <= threshold, number, || {
            format!("event {} of a threshold of {threshold}: {event:?}", self.events)
        })
    }

    /// 13: transferred data is no more than requested, and stays within the descriptor.
    fn lengths_are_kept(&self, event: &Event) -> Verdict {
        if !matches!(event.kind, EventKind::Put | EventKind::Get | EventKind::Reply) {
            return Ok(());
        }
        let describe = |what: &str| format!("{what}: {event:?}");
        require(event.mlength <= event.rlength, 13, || describe("more than requested"))?;
        let Some(made) = self.made else { return Ok(()) };
        let end = event.offset.saturating_add(event.mlength.into());
        require(end <= made.len, 13, || describe("outside the descriptor"))?;
        let cut = event.mlength < event.rlength && event.kind == EventKind::Put;
        let may = made.options.has(MdOptions::TRUNCATE);
        require(!cut || may || event.status.is_err(), 13, || {
            describe("truncated without permission")
        })?;
        let capped = !made.options.has(MdOptions::MAX_SIZE) || event.mlength <= made.max_size;
        require(capped, 13, || describe("longer than max_size"))
    }

    /// 7 and 9: a SEND for each operation, and at most one answer to it, in any order.
    fn no_event_without_an_operation(&mut self, event: &Event) -> Verdict {
        let (seen, begun) = match event.kind {
            EventKind::Send => (&mut self.seen.sends, self.begun.sends),
            EventKind::Ack => (&mut self.seen.acks, self.begun.acks),
            EventKind::Reply => (&mut self.seen.replies, self.begun.replies),
            _ => return Ok(()),
        };
        *seen += 1;
        require(*seen <= begun, 7, || {
            format!("{seen} events of {begun} operations that have them: {event:?}")
        })
    }
}
