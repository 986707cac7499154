//! Messages that a fault rule delays. Spec: lnet-behaviour §14.3.
//!
//! One that is sent holds its credits meanwhile. One that is received has its payload unread, so
//! that its connection is stalled.

use std::collections::BTreeMap;

use fulmar_base::{MessageId, Time};
use fulmar_lnd::{RxId, Verdict};
use fulmar_lnet_wire::Header;

use super::Lnet;
use super::message::{Arrival, Hold, Origin};
use crate::fault::DelayId;
use crate::peers::PeerNiId;

/// What is delayed, in the order in which it goes on.
#[derive(Debug, Default)]
pub(super) struct Delays {
    held: BTreeMap<(Time, u64), (DelayId, DelayedMessage)>,
    next: u64,
}

#[derive(Debug)]
enum DelayedMessage {
    Send(MessageId),
    Receive(RxId, Arrival, Header),
}

impl Delays {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns when the first goes on.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.held.first_key_value().map(|((at, _), _)| *at)
    }
}

impl Lnet {
    /// Delays a message that holds all its credits, if a rule says so.
    pub(super) fn delay_send(&mut self, now: Time, id: MessageId) -> bool {
        let Some(message) = self.messages.get(id) else { return false };
        let Some((rule, until)) = self.faults.delay(now, &message.header) else { return false };
        self.messages.live(id).hold(Hold::Delayed);
        self.hold_back(rule, until, DelayedMessage::Send(id));
        true
    }

    /// Delays a message that has come, if a rule says so.
    pub(super) fn delay_receive(&mut self, now: Time, arrival: Arrival, header: &Header) -> bool {
        let Origin::Lnd(rx, _) = arrival.origin else { return false };
        let Some((rule, until)) = self.faults.delay(now, header) else { return false };
        self.answer(arrival, Verdict::Wait);
        self.hold_back(rule, until, DelayedMessage::Receive(rx, arrival, *header));
        true
    }

    /// Forgets a message whose connection has died while its payload was left unread.
    pub(super) fn forget_held(&mut self, rx: RxId) {
        self.backpressure.forget(rx);
        if !self.delays.is_empty() {
            let is_it = |held: &DelayedMessage| matches!(held, DelayedMessage::Receive(held, ..) if *held == rx);
            self.delays.held.retain(|_, (_, held)| !is_it(held));
        }
    }

    /// Lets go on what has waited long enough.
    pub(super) fn delays_due(&mut self, now: Time) {
        while let Some(first) = self.delays.held.first_entry() {
            if first.key().0 > now {
                return;
            }
            let (_, held) = first.remove();
            self.let_go(now, held);
        }
    }

    /// These rules are gone: what they delayed goes on now.
    pub(super) fn faults_released(&mut self, now: Time, rules: &[DelayId]) {
        let delayed = std::mem::take(&mut self.delays.held);
        for (at, (rule, held)) in delayed {
            if rules.contains(&rule) {
                self.let_go(now, held)
            } else {
                self.delays.held.insert(at, (rule, held));
            }
        }
        self.settle(now);
    }

    fn hold_back(&mut self, rule: DelayId, until: Time, held: DelayedMessage) {
        let at = (until, self.delays.next);
        self.delays.next += 1;
        self.delays.held.insert(at, (rule, held));
    }

    fn let_go(&mut self, now: Time, held: DelayedMessage) {
        match held {
            DelayedMessage::Send(id) => self.post_delayed(now, id),
            DelayedMessage::Receive(_, arrival, header) => self.proceed(now, arrival, header),
        }
    }

    /// Goes on with a message whose payload was left unread.
    pub(super) fn proceed(&mut self, now: Time, arrival: Arrival, header: Header) {
        match self.still_accepted(now, arrival, &header) {
            Ok(sender) => self.take(now, arrival, header, sender),
            Err(reason) => self.drop_message(now, arrival, &header, reason),
        }
    }

    /// Returns who sent a message that was delayed, or why it cannot go on: the interface, the
    /// peer and the router that there were when it came may be gone.
    fn still_accepted(
        &mut self,
        now: Time,
        arrival: Arrival,
        header: &Header,
    ) -> Result<PeerNiId, &'static str> {
        if self.ni_of(arrival.ni).is_none() {
            return Err("our interface is gone");
        }
        if self.ni_of(header.target).is_none() && !self.forwards() {
            return Err("this router has been switched off");
        }
        self.sender(now, arrival.ni, arrival.from).ok_or("the peer table is full")
    }
}
