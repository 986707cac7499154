//! Messages received, their events, and the answers. Checks invariants 13, 14, 16, 17, 18 and 22 of
//! lnet-behaviour §17.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fulmar_base::ConnId;
use fulmar_lnet::{Event, EventDone};
use fulmar_lnet_wire::{Body, Handle, Header, Nid, ProcessId, RESERVED_PORTAL};

use super::{Directory, Finding, Terms, Verdict, require};

/// Received messages that are not done.
#[derive(Debug)]
pub struct Arrivals {
    terms: Terms,
    puts: BTreeMap<PutKey, VecDeque<Arrival>>,
    gets: BTreeMap<GetKey, VecDeque<u32>>,
    count: u64,
    /// The last PUT of each connection that had its event.
    last: BTreeMap<ConnId, u64>,
    /// PUTs that may be acknowledged, by the fields of the ACK.
    due: BTreeMap<(Handle, u64), Vec<Due>>,
    handling: BTreeMap<EventDone, Vec<(Handle, u64)>>,
    /// The NIDs from which each request arrived.
    bringers: BTreeMap<Handle, BTreeSet<Nid>>,
    /// PUTs that had their event, by the incarnation of their sender and their header data.
    delivered: BTreeSet<(u64, u64)>,
    repeated: u64,
}

type Handles = BTreeSet<Handle>;
/// Sender, portal, match bits and header data.
type PutKey = (ProcessId, u32, u64, u64);
/// Sender, portal and match bits.
type GetKey = (ProcessId, u32, u64);

/// A PUT without its event yet.
#[derive(Debug)]
struct Arrival {
    conn: ConnId,
    number: u64,
    payload_len: u32,
    ack: Handle,
    /// Another PUT with the same event has arrived on another connection, or for another
    /// descriptor, so that events cannot be assigned.
    ambiguous: bool,
}

/// A PUT whose ACK may be sent, now or soon.
#[derive(Debug)]
struct Due {
    /// Number of accepted bytes; `None` if only the node knows.
    accepted: Option<u32>,
    /// Whether its handler has not returned.
    handling: Option<EventDone>,
}

impl Arrivals {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            puts: BTreeMap::new(),
            gets: BTreeMap::new(),
            count: 0,
            last: BTreeMap::new(),
            due: BTreeMap::new(),
            handling: BTreeMap::new(),
            bringers: BTreeMap::new(),
            delivered: BTreeSet::new(),
            repeated: 0,
        }
    }

    pub(super) fn repeated(&self) -> u64 {
        self.repeated
    }

    pub(super) fn received(&mut self, conn: ConnId, (_, peer): (Nid, Nid), header: &Header) {
        let source = ProcessId { nid: header.source, pid: header.source_pid };
        self.count += 1;
        let (number, payload_len) = (self.count, header.payload_len);
        match header.body {
            Body::Put { ack, match_bits, header_data, portal, .. } => {
                self.brought(ack, peer);
                if portal == RESERVED_PORTAL {
                    let due = Due { accepted: None, handling: None };
                    self.due.entry((ack, match_bits)).or_default().push(due);
                    return;
                }
                let alike = self.puts.entry((source, portal, match_bits, header_data)).or_default();
                let ambiguous =
                    alike.iter().any(|one| one.conn != conn || one.ack != ack || one.ambiguous);
                alike.iter_mut().for_each(|one| one.ambiguous |= ambiguous);
                alike.push_back(Arrival { conn, number, payload_len, ack, ambiguous });
            }
            Body::Get { reply, match_bits, portal, sink_len, .. } => {
                self.brought(reply, peer);
                if portal != RESERVED_PORTAL {
                    self.gets.entry((source, portal, match_bits)).or_default().push_back(sink_len);
                }
            }
            Body::Ack { .. } | Body::Reply { .. } => {}
        }
    }

    fn brought(&mut self, handle: Handle, peer: Nid) {
        if handle != Handle::NONE {
            self.bringers.entry(handle).or_default().insert(peer);
        }
    }

    /// Checks a PUT event.
    pub(super) fn put(&mut self, event: &Event) -> Verdict {
        // Messages of a node to itself do not pass the LND.
        if event.sender.is_loopback() {
            return Ok(());
        }
        let (arrival, handles) = self.events_match_received_messages(event)?;
        self.nothing_arrives_twice(&handles, event)?;
        // If the PUT is ambiguous, each candidate may be acknowledged, and its handler may have returned.
        let handling = event.done.filter(|_| handles.len() == 1);
        for handle in handles.into_iter().filter(|_| event.status.is_ok()) {
            let key = (handle, event.match_bits);
            let due = Due { accepted: Some(event.mlength), handling };
            self.due.entry(key).or_default().push(due);
            if let Some(done) = handling {
                self.handling.entry(done).or_default().push(key);
            }
        }
        self.one_connection_keeps_its_order(&arrival, event)
    }

    /// 13 and 16: an event has the match bits, the header data and the length of a received PUT.
    /// Returns that PUT, and the handles, one or several, with which it may be acknowledged.
    fn events_match_received_messages(
        &mut self,
        event: &Event,
    ) -> Result<(Arrival, Handles), Finding> {
        let key = (event.source, event.portal, event.match_bits, event.header_data);
        let found = self.puts.get_mut(&key);
        require(found.is_some(), 16, || format!("no such PUT was received: {event:?}"))?;
        let empty = &mut VecDeque::new();
        let alike = found.unwrap_or(empty);
        // Of equal ones the first in order: an earlier one may have been dropped.
        let last = &self.last;
        let fits = |arrival: &&Arrival| arrival.payload_len == event.rlength;
        let in_order = alike.iter().position(|arrival| {
            fits(&arrival) && last.get(&arrival.conn).is_none_or(|last| *last < arrival.number)
        });
        let handles = alike.iter().map(|arrival| arrival.ack);
        let handles: Handles = handles.filter(|handle| *handle != Handle::NONE).collect();
        let place = in_order.or_else(|| alike.iter().position(|arrival| fits(&arrival)));
        let arrival = place.and_then(|place| alike.remove(place));
        if alike.is_empty() {
            self.puts.remove(&key);
        }
        arrival.map(|arrival| (arrival, handles)).ok_or_else(|| Finding {
            number: 13,
            text: format!("no such PUT of {} bytes was received: {event:?}", event.rlength),
        })
    }

    /// 18: header data belong to one PUT within an incarnation of a sender, unless they are 0.
    /// After a failure a PUT may be sent again, and so arrive again; that is counted.
    fn nothing_arrives_twice(&mut self, handles: &Handles, event: &Event) -> Verdict {
        let incarnations: BTreeSet<u64> = handles.iter().map(|handle| handle.interface).collect();
        let (Some(incarnation), 1) = (incarnations.first(), incarnations.len()) else {
            return Ok(());
        };
        if event.header_data == 0 {
            return Ok(());
        }
        let new = self.delivered.insert((*incarnation, event.header_data));
        self.repeated += u64::from(!new);
        require(!self.terms.calm || new, 18, || format!("delivered twice: {event:?}"))
    }

    /// 17: messages of one connection have their events in the order of arrival.
    fn one_connection_keeps_its_order(&mut self, arrival: &Arrival, event: &Event) -> Verdict {
        if arrival.ambiguous {
            return Ok(());
        }
        let last = self.last.insert(arrival.conn, arrival.number);
        let in_order = last.is_none_or(|last| last < arrival.number);
        require(in_order || self.terms.delays, 17, || {
            format!("overtaken on {:?}: {event:?}", arrival.conn)
        })
    }

    /// 13: checks a GET event: there was such a GET.
    pub(super) fn get(&mut self, event: &Event) -> Verdict {
        if event.sender.is_loopback() {
            return Ok(());
        }
        let found = self.gets.get_mut(&(event.source, event.portal, event.match_bits));
        let place = found.as_ref().and_then(|lens| lens.iter().position(|n| *n == event.rlength));
        if let (Some(lens), Some(place)) = (found, place) {
            lens.remove(place);
        }
        require(place.is_some(), 13, || format!("no such GET was received: {event:?}"))
    }

    /// Records that a handler has returned.
    pub(super) fn handled(&mut self, done: EventDone) {
        for key in self.handling.remove(&done).into_iter().flatten() {
            for due in self.due.get_mut(&key).into_iter().flatten() {
                due.handling = due.handling.filter(|handling| *handling != done);
            }
        }
    }

    /// Checks an answer of the node.
    pub(super) fn answered(
        &mut self,
        header: &Header,
        peer: Nid,
        directory: &dyn Directory,
    ) -> Verdict {
        match header.body {
            Body::Ack { handle, match_bits, accepted } => {
                self.acks_follow_their_handlers((handle, match_bits), accepted)?;
                self.answers_return_on_the_path_of_requests(handle, header, peer, directory)
            }
            Body::Reply { handle } => {
                self.answers_return_on_the_path_of_requests(handle, header, peer, directory)
            }
            Body::Put { .. } | Body::Get { .. } => Ok(()),
        }
    }

    /// 14: an ACK is sent after the handler of the PUT event has returned, and has the number of
    /// accepted bytes; its handle and match bits are those of the PUT.
    fn acks_follow_their_handlers(&mut self, key: (Handle, u64), accepted: u32) -> Verdict {
        let due = self.due.get_mut(&key);
        require(due.is_some(), 14, || format!("an ACK of a PUT that was not received: {key:?}"))?;
        let empty = &mut Vec::new();
        let due = due.unwrap_or(empty);
        let right = |due: &Due| due.accepted.is_none_or(|len| len == accepted);
        let place = due.iter().position(|due| right(due) && due.handling.is_none());
        require(place.is_some(), 14, || {
            format!("an ACK of {accepted} bytes for {key:?}, which expects: {due:?}")
        })?;
        place.map(|place| due.swap_remove(place));
        if due.is_empty() {
            self.due.remove(&key);
        }
        Ok(())
    }

    /// 22: an answer goes back to the sender of the request: to the gateway, if it came from one. A
    /// router that is not a gateway of the node brings requests, but takes no answers.
    fn answers_return_on_the_path_of_requests(
        &self,
        handle: Handle,
        header: &Header,
        peer: Nid,
        directory: &dyn Directory,
    ) -> Verdict {
        let bringers = self.bringers.get(&handle);
        let takes_answers = |bringer: &Nid| {
            directory.of_peer(header.target).contains(bringer) || directory.is_gateway(*bringer)
        };
        let by_it = bringers.is_some_and(|bringers| {
            bringers.contains(&peer)
                || directory.of_peer(peer).iter().any(|nid| bringers.contains(nid))
                || !bringers.iter().any(takes_answers) && takes_answers(&peer)
        });
        require(by_it, 22, || {
            format!("answers through {peer} a request from {bringers:?}: {handle:?}")
        })
    }
}
