//! Responses that are late. Spec: lnet-behaviour §11.7.
//!
//! One deadline for each descriptor. A kernel node checks them every half transaction timeout; here
//! they are acted on when they pass.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnd::FailureClass;
use fulmar_lnet_wire::Nid;

use super::Lnet;
use super::{OwnEvent, Work};
use crate::api::EventKind;
use crate::matching::{Late, Tracking};
use crate::notice::Notice;

impl Lnet {
    /// Returns which responses are awaited, and for how long.
    pub(super) fn tracking(&self) -> Tracking {
        let timeout = Duration::from_secs(self.globals.transaction_timeout.into());
        Tracking { bits: self.globals.response_tracking, timeout }
    }

    /// Unlinks a descriptor whose response is late, so that it cannot come any more.
    pub(super) fn response_timed_out(&mut self, now: Time, late: Late) {
        let Late { md, owner, request } = late;
        self.counters.stats.response_timeout_count += 1;
        let peer = request.and_then(|request| request.target).unwrap_or(Nid::ANY);
        if let Some(request) = request {
            self.lower_peer_ni(now, request.peer_ni, FailureClass::RemoteTimeout);
        }
        self.notice(Notice::ResponseTimeout { peer });
        if !owner.is_service() {
            let (kind, status) = (EventKind::Unlink, Err(Errno::ETIMEDOUT));
            let pair = (Nid::ANY, peer);
            let event = OwnEvent { owner, md, kind, status, pair, bytes: Vec::new() };
            self.work.push_back(Work::Own(event));
        }
        self.unlink(md);
    }
}
