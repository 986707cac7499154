//! The LNDs of a node.

use std::time::Duration;

use fulmar_base::{ConnId, Time};
use fulmar_lnd::{Lnd as Interface, NiConfig, Output, RxId, SendRequest, Verdict};
use fulmar_lnet_wire::{NetType, Nid};
use fulmar_socklnd::Socklnd;

/// One LND. The LNDs of Fulmar are called without dynamic dispatch.
#[derive(Debug)]
pub(crate) enum Lnd {
    Socket(Box<Socklnd>),
    Other(Box<dyn Interface>),
}

/// Calls the LND of a variant.
macro_rules! each {
    ($lnd:expr, $name:ident => $call:expr) => {
        match $lnd {
            Lnd::Socket($name) => $call,
            Lnd::Other($name) => $call,
        }
    };
}

impl Lnd {
    pub(crate) fn net_type(&self) -> NetType {
        each!(self, lnd => lnd.net_type())
    }

    pub(crate) fn timeout(&self) -> Duration {
        each!(self, lnd => lnd.timeout())
    }

    pub(crate) fn add_ni(&mut self, now: Time, ni: &NiConfig) {
        each!(self, lnd => lnd.add_ni(now, ni));
    }

    pub(crate) fn remove_ni(&mut self, now: Time, nid: Nid) {
        each!(self, lnd => lnd.remove_ni(now, nid));
    }

    pub(crate) fn send(&mut self, now: Time, request: SendRequest) {
        each!(self, lnd => lnd.send(now, request));
    }

    pub(crate) fn report_waiting(&mut self, now: Time, nid: Nid) {
        each!(self, lnd => lnd.report_waiting(now, nid));
    }

    pub(crate) fn handle_verdict(&mut self, now: Time, conn: ConnId, rx: RxId, verdict: Verdict) {
        each!(self, lnd => lnd.handle_verdict(now, conn, rx, verdict));
    }

    pub(crate) fn handle_link(&mut self, now: Time, nid: Nid, up: bool) {
        each!(self, lnd => lnd.handle_link(now, nid, up));
    }

    pub(crate) fn close_peer(&mut self, now: Time, peer: Nid) {
        each!(self, lnd => lnd.close_peer(now, peer));
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        each!(self, lnd => lnd.handle_timeout(now));
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        each!(self, lnd => lnd.poll_timeout())
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        each!(self, lnd => lnd.poll_output())
    }
}
