//! Operations, and the events of their descriptors. Checks invariants 7, 8, 9, 12, 13 and 33 of
//! lnet-behaviour §17.

use std::collections::BTreeMap;

use fulmar_lnet::{Bound, Event, EventKind, Get, Md, MdId, MdOptions, Op, Put};
use fulmar_lnet_wire::{Body, Header, Nid};

use super::{Verdict, require};

/// The part of a PUT or a GET that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The event that answers it, if one does.
    pub answer: Option<EventKind>,
    /// Our NID, if it must be this one.
    pub source: Option<Nid>,
    /// The NID that it is for.
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

/// Operations, or their events.
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
    /// Takes an operation that was posted, and its descriptor.
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

    /// 33: where a source is given, exactly that NID sends to exactly the one addressed.
    pub(super) fn given_pairs_are_kept(&self, header: &Header) -> Verdict {
        let (Body::Put { ack: handle, .. } | Body::Get { reply: handle, .. }) = header.body else {
            return Ok(());
        };
        let pair = self.records.get(&MdId(handle.object)).and_then(|record| record.pair);
        let kept = pair.is_none_or(|pair| pair == (header.source, header.target));
        require(kept, 33, || format!("{pair:?} were given, and what goes is {header:?}"))
    }

    /// 7 and 8: every operation is over, and every unlinked descriptor had its last event. If nothing
    /// fails, every answer has come.
    pub(super) fn finished(&self, calm: bool) -> Verdict {
        for (id, record) in &self.records {
            let Record { begun, seen, failed, unlinks, unlinked, .. } = record;
            require(seen.sends == begun.sends, 7, || {
                format!("{} SEND events of {} operations of {id:?}", seen.sends, begun.sends)
            })?;
            require(!calm || (!failed && seen == begun), 7, || {
                format!("not all operations of {id:?} ended well: {seen:?} of {begun:?}")
            })?;
            require(!unlinks || *unlinked, 8, || format!("{id:?} is never unlinked"))?;
        }
        Ok(())
    }
}

impl Record {
    /// 7 and 8: an event says that it is the last of its descriptor once, and then it is.
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

    /// 13: what is moved is no more than was asked for, and stays within the descriptor.
    fn lengths_are_kept(&self, event: &Event) -> Verdict {
        if !matches!(event.kind, EventKind::Put | EventKind::Get | EventKind::Reply) {
            return Ok(());
        }
        let told = |what: &str| format!("{what}: {event:?}");
        require(event.mlength <= event.rlength, 13, || told("more than was asked for"))?;
        let Some(made) = self.made else { return Ok(()) };
        let end = event.offset.saturating_add(event.mlength.into());
        require(end <= made.len, 13, || told("outside of the descriptor"))?;
        let cut = event.mlength < event.rlength && event.kind == EventKind::Put;
        let may = made.options.has(MdOptions::TRUNCATE);
        require(!cut || may || event.status.is_err(), 13, || told("cut without leave"))?;
        let capped = !made.options.has(MdOptions::MAX_SIZE) || event.mlength <= made.max_size;
        require(capped, 13, || told("longer than max_size"))
    }

    /// 7 and 9: a SEND for each operation, and at most one answer to it, in whichever order.
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
