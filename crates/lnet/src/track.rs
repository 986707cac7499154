//! Response tracking: what was asked for and never came. Spec: lnet-behaviour §11.7.
//!
//! One deadline for each descriptor. The kernel looks at them every half transaction timeout; we
//! act when they pass.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnd::FailureClass;
use fulmar_lnet_wire::{Body, Handle, Nid};

use crate::Lnet;
use crate::api::{EventKind, MdId, MdOptions};
use crate::machine::{OwnEvent, Work};
use crate::notice::Notice;

/// The bits of `response_tracking`.
const TRACK_GETS: u32 = 1;
const TRACK_PUTS: u32 = 2;

impl Lnet {
    /// Expects a response to what `md` asks for, if that is to be tracked.
    pub(crate) fn track(&mut self, now: Time, md: MdId, body: &Body) {
        let bit = match *body {
            Body::Get { .. } => TRACK_GETS,
            Body::Put { ack, .. } if ack != Handle::NONE => TRACK_PUTS,
            _ => return,
        };
        let Some(found) = self.mds.get_mut(md) else { return };
        let options = found.md.options;
        let wanted =
            options.has(MdOptions::TRACK_RESPONSE) || self.globals.response_tracking & bit != 0;
        if wanted && !options.has(MdOptions::NO_TRACK_RESPONSE) {
            found.awaited += 1;
            let timeout = Duration::from_secs(self.globals.transaction_timeout.into());
            self.expect_response(now, md, timeout);
        }
    }

    /// Sets the deadline of the response that `md` awaits.
    pub(crate) fn expect_response(&mut self, now: Time, md: MdId, timeout: Duration) {
        self.mds.expect_response(md, now + timeout);
    }

    /// Stops waiting for one response.
    pub(crate) fn response_came(&mut self, md: MdId) {
        let Some(found) = self.mds.get_mut(md) else { return };
        found.awaited = found.awaited.saturating_sub(1);
        if found.awaited == 0 {
            self.untrack(md);
        }
    }

    /// Stops waiting for any response.
    pub(crate) fn untrack(&mut self, md: MdId) {
        self.mds.forget_response(md);
    }

    /// The deadline of a response has passed: its descriptor goes, so that it cannot come late.
    pub(crate) fn response_timed_out(&mut self, now: Time, md: MdId) {
        self.counters.stats.response_timeout_count += 1;
        let Some(found) = self.mds.get(md) else { return };
        let request = found.request;
        let peer = request.and_then(|request| request.target).unwrap_or(Nid::ANY);
        let owner = found.owner;
        if let Some(request) = request {
            self.lower_peer_ni(now, request.peer_ni, FailureClass::RemoteTimeout);
        }
        self.notice(Notice::ResponseTimeout { peer });
        if !owner.is_user() {
            let (kind, status) = (EventKind::Unlink, Err(Errno::ETIMEDOUT));
            let pair = (Nid::ANY, peer);
            let event = OwnEvent { owner, md, kind, status, pair, bytes: Vec::new() };
            self.work.push_back(Work::Own(event));
        }
        self.unlink(md);
    }
}
