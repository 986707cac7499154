//! Connections that are not used. Spec: ptlrpc-ldlm-mgs §16.4.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Handle;

use super::{Import, State, Timer, XidSource};

impl Import {
    /// Says whether the owner holds something of the target, such as locks or grants: the connection is
    /// then not ended when it is idle.
    pub fn set_in_use(&mut self, now: Time, is_in_use: bool) {
        self.is_in_use = is_in_use;
        self.note_idle(now);
    }

    /// Sets the time at which an unused connection ends. Called when it begins to be unused, or is used.
    pub(super) fn note_idle(&mut self, now: Time) {
        let Some(timeout) = self.target.idle_timeout else { return };
        match self.is_idle() {
            true if self.timers.get(Timer::Idle).is_none() => {
                self.timers.set(Timer::Idle, now + timeout);
            }
            true => {}
            false => self.timers.clear(Timer::Idle),
        }
    }

    fn is_idle(&self) -> bool {
        let pings = self.pings;
        self.state == State::Full
            && self.calls.len() == pings
            && self.kept.len() == 0
            && !self.is_in_use
    }

    /// Ends a connection that was not used.
    pub(super) fn end_idle(&mut self, now: Time, xids: &mut XidSource) {
        if self.is_idle() {
            self.fail_all(Errno::ESHUTDOWN);
            self.send_disconnect(now, xids, true);
        }
    }

    /// The connection has ended because it was not used: the next request connects again.
    pub(super) fn become_idle(&mut self, now: Time, xids: &mut XidSource) {
        self.end_handshake();
        self.stop_timers();
        self.export = Handle::NONE;
        self.is_known = false;
        self.set_state(State::Idle);
        if !self.waiting.is_empty() {
            self.send_connect(now, xids);
        }
    }
}
