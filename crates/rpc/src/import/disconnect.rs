//! The end of a connection that is not used any more. Spec: ptlrpc-ldlm-mgs §12.5.

use fulmar_base::{Errno, Time};

use super::send::seconds;
use super::{CONNECT_TIMEOUT, Handshake, Import, Output, State, Timer, XidSource};

impl Import {
    /// Ends all requests with ESHUTDOWN, and the connection with a message to the target, which otherwise would
    /// wait for this client when it recovers. The answer to a connect is waited for, since the target may know
    /// the client already. [`State::Closed`] follows. Spec: ptlrpc-ldlm-mgs §12.5.
    pub fn disconnect(&mut self, now: Time, xids: &mut XidSource) {
        if matches!(self.state, State::Closed(_)) || self.is_closing() {
            return;
        }
        self.fail_all(Errno::ESHUTDOWN);
        self.stop_timers();
        match self.state {
            State::Connecting => {
                self.is_ending = true;
                self.timers.set(Timer::Answer, now + seconds(CONNECT_TIMEOUT));
            }
            State::New | State::Idle | State::Disconnected(_) => self.closed(),
            _ => {
                self.end_handshake();
                self.send_disconnect(now, xids, false);
            }
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_ending
            || matches!(self.handshake, Some(Handshake::Disconnect { is_idle: false, .. }))
    }

    /// Handles the end of a disconnect, with or without an answer.
    pub(super) fn disconnected(&mut self, now: Time, xids: &mut XidSource) {
        match self.handshake {
            Some(Handshake::Disconnect { is_idle: true, .. }) => self.become_idle(now, xids),
            _ => self.closed(),
        }
    }

    /// Nothing is waited for any more.
    pub(super) fn closed(&mut self) {
        self.end_handshake();
        self.stop_timers();
        self.close(Errno::ESHUTDOWN);
    }

    /// Closes the import: nothing will be replayed.
    pub(super) fn close(&mut self, errno: Errno) {
        self.kept.clear();
        self.release_dropped();
        self.set_state(State::Closed(errno));
    }

    /// Expects no further answer to a connect or disconnect.
    pub(super) fn end_handshake(&mut self) {
        self.timers.clear(Timer::Answer);
        if let Some(Handshake::Connect { id, .. } | Handshake::Disconnect { id, .. }) =
            self.handshake.take()
        {
            self.outputs.push_back(Output::Withdraw(id));
        }
    }
}
