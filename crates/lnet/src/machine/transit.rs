//! A message that this router forwards. Spec: lnet-behaviour §8.5.
//!
//! ```text
//! header -> router credit of the previous hop -> buffer -> payload -> sent as any message
//! ```
//!
//! While it waits for either, the LND does not read its payload: its connection is stalled, and
//! no other.

use fulmar_base::{Errno, MessageId, Payload, Sink, Span, Time};
use fulmar_lnd::Verdict;
use fulmar_lnet_wire::{Header, Nid};

use super::Lnet;
use super::Work;
use super::message::{Arrival, Message, RouterHold, Stage, Transit};
use crate::credits::Account;
use crate::peers::PeerNiId;
use crate::routing::Routing;

impl Lnet {
    /// Handles a header that is for a node on another network.
    pub(super) fn forward(&mut self, now: Time, arrival: Arrival, header: Header, from: PeerNiId) {
        self.routing.used(now);
        let transit = Transit {
            arrival,
            from,
            class: Routing::class(header.payload_len),
            hold: RouterHold::Nothing,
            buffer: None,
            since: now,
            stalled: false,
        };
        let message = Message::received(header, Stage::Transit);
        let id = self.receive(Message { transit: Some(Box::new(transit)), ..message });
        self.pass(now, id);
    }

    /// Acquires what a message still lacks, and lets its payload be received when it has all.
    ///
    /// A message that waited comes here again with what it waited for.
    pub(super) fn pass(&mut self, now: Time, id: MessageId) {
        // It may have ended since it was woken, with its connection or with all forwarding.
        let Some(message) = self.messages.get_mut(id) else { return };
        let target = message.target;
        let transit = message.transit.as_mut().expect("it is forwarded");
        let (from, class) = (transit.from, transit.class);
        if transit.hold == RouterHold::Nothing {
            let granted = self.credits.take(Account::Router(from), id);
            if granted != Some(true) {
                return self.stall(id, RouterHold::WaitsForCredit);
            }
            self.in_transit(id).hold = RouterHold::Credit;
        }
        if self.in_transit(id).hold == RouterHold::Credit {
            if !self.routing.take_buffer(class, id, target) {
                return self.stall(id, RouterHold::WaitsForBuffer);
            }
            self.in_transit(id).hold = RouterHold::Buffer;
        }
        self.receive_transit(now, id, class);
    }

    fn receive_transit(&mut self, now: Time, id: MessageId, class: usize) {
        let buffer = self.buffer(class);
        let transit = self.in_transit(id);
        transit.buffer = buffer;
        let arrival = transit.arrival;
        let len = self.messages.live(id).header.payload_len;
        match buffer {
            Some(buffer) => {
                let sink = Sink::Span(Span { buffer, offset: 0, len });
                self.accept(now, id, arrival, sink);
            }
            None => {
                self.nothing_follows(arrival);
                self.transit_received(now, id, Ok(()));
            }
        }
    }

    /// Has the LND wait, if it does not yet.
    fn stall(&mut self, id: MessageId, hold: RouterHold) {
        let transit = self.in_transit(id);
        transit.hold = hold;
        let arrival = transit.arrival;
        if !std::mem::replace(&mut transit.stalled, true) {
            self.answer(arrival, Verdict::Wait);
        }
    }

    /// The payload of a message is in its buffer, or its connection has died.
    pub(super) fn transit_received(&mut self, now: Time, id: MessageId, result: Result<(), Errno>) {
        let transit = self.in_transit(id);
        let (arrival, buffer, hold) = (transit.arrival, transit.buffer, transit.hold);
        self.received(arrival);
        if hold != RouterHold::Buffer {
            return self.forget_waiting(id);
        }
        let message = self.messages.live(id);
        let (header, len) = (message.header, message.header.payload_len);
        if let Some(buffer) = buffer {
            message.payload = Payload::Span(Span { buffer, offset: 0, len });
        }
        match result {
            Ok(()) => {
                self.count_passed_in(arrival, &header);
                // By the list of work: the receiving of many must not nest.
                self.messages.live(id).stage = Stage::Launched;
                self.work.push_back(Work::Launch(id));
            }
            Err(errno) => self.finalize_send(now, id, Err(errno)),
        }
    }

    /// Drops a message that waits.
    pub(super) fn drop_waiting(&mut self, now: Time, id: MessageId, reason: &'static str) {
        let message = self.messages.live(id);
        let (header, arrival) = (message.header, message.arrival());
        self.forget_waiting(id);
        if let Some(arrival) = arrival {
            self.received(arrival);
            self.drop_message(now, arrival, &header, reason);
        }
    }

    /// Forgets a message that waits for a credit or a buffer.
    fn forget_waiting(&mut self, id: MessageId) {
        let mut message = self.messages.remove(id);
        self.counters.message_died();
        let mut transit = message.transit.take().expect("it is forwarded");
        let target = message.target;
        match transit.hold {
            RouterHold::WaitsForCredit => {
                self.credits.withdraw(Account::Router(transit.from), id);
                transit.hold = RouterHold::Nothing;
            }
            RouterHold::WaitsForBuffer => {
                self.routing.withdraw_buffer(transit.class, id, target);
                transit.hold = RouterHold::Credit;
            }
            _ => {}
        }
        self.leave_router(&transit, target);
    }

    /// Gives back what a message held of this router, the buffer first, and wakes those that waited.
    pub(super) fn leave_router(&mut self, transit: &Transit, target: Nid) {
        if transit.hold == RouterHold::Buffer {
            self.keep_buffer(transit.class, transit.buffer);
            let woken = self.routing.give_back_buffer(transit.class, target);
            self.go_on(woken, RouterHold::Buffer);
        }
        if matches!(transit.hold, RouterHold::Buffer | RouterHold::Credit) {
            let woken = self.credits.give_back(Account::Router(transit.from));
            self.go_on(woken, RouterHold::Credit);
        }
        self.reap(transit.from);
    }

    /// Has messages go on that have got what they waited for. That they no longer wait is noted at
    /// once: before their turn comes, they may be dropped.
    pub(super) fn go_on(&mut self, woken: impl IntoIterator<Item = MessageId>, hold: RouterHold) {
        for id in woken {
            self.in_transit(id).hold = hold;
            self.work.push_back(Work::Transit(id));
        }
    }

    fn in_transit(&mut self, id: MessageId) -> &mut Transit {
        self.messages.live(id).transit.as_mut().expect("it is forwarded")
    }
}
