//! The answer to a connect. Spec: ptlrpc-ldlm-mgs §12.3.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::CONNECT_DATA;
use fulmar_lustre_wire::message::{Body, ConnectOpFlags, Kind, Message};

use super::{Arrival, Import, State, Timer, XidSource};

/// What an answer means for this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The target is as before, or new: send what waits.
    Resume,
    /// The target recovers, and waits for what this client has to replay. It may be one that knows
    /// what was replayed already.
    Replay { is_same: bool },
    /// The target has forgotten this client.
    Evicted,
    /// The answer contradicts itself.
    Failed(Errno),
}

impl Import {
    pub(super) fn handle_connect_reply(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        sent: Time,
        arrival: Arrival<'_>,
    ) {
        match self.granted_by(arrival) {
            Ok((body, data)) => {
                self.end_handshake();
                if self.is_ending {
                    (self.export, self.granted) = (body.handle, data);
                    return self.send_disconnect(now, xids, false);
                }
                let portal = self.target.kind.portal();
                let trip = now.since(sent);
                self.timeouts.measure(now, portal, body.timeout, trip, body.service_time);
                self.connected(now, xids, &body, data);
            }
            Err(errno) => self.connect_failed(now, xids, errno),
        }
    }

    /// Returns the body of an answer that grants the connection, and what it grants.
    fn granted_by(&self, arrival: Arrival<'_>) -> Result<(Body, ConnectData), Errno> {
        let reply = Message::decode(arrival.bytes).map_err(|_| Errno::EPROTO)?;
        if reply.head.flavor.policy() != self.target.flavor.policy() {
            return Err(Errno::EPROTO);
        }
        let reply = reply.answering(self.target.kind.connect());
        if let Some(errno) = reply.body.status.errno() {
            return Err(errno);
        }
        if reply.body.kind != Kind::REPLY || reply.body.opcode != self.target.kind.connect().opcode
        {
            return Err(Errno::EPROTO);
        }
        let data = reply.require(&CONNECT_DATA).map_err(|_| Errno::EPROTO)?;
        let wanted = &self.target.data;
        let is_subset = wanted.flags.has(data.flags) && wanted.flags2.has(data.flags2);
        if !is_subset || !data.flags.has(self.target.kind.needs()) {
            return Err(Errno::EPROTO);
        }
        Ok((reply.body, data))
    }

    /// Handles a granted connection.
    fn connected(&mut self, now: Time, xids: &mut XidSource, body: &Body, data: ConnectData) {
        let verdict = self.verdict(body, &data);
        if let Verdict::Failed(errno) = verdict {
            return self.connect_failed(now, xids, errno);
        }
        self.search.found();
        self.timeouts.search_ended();
        self.export = body.handle;
        self.granted = data;
        let was_known = std::mem::replace(&mut self.is_known, true);
        if !was_known {
            self.is_replayable = body.connect_flags.has(ConnectOpFlags::REPLAYABLE);
        }
        let has_slots = data.flags.has(ConnectFlags::MULTIMODRPCS);
        let slots = data.modify_rpcs_max.min(self.target.modifying_max);
        self.slots.set_max(has_slots.then_some(slots));
        self.kept.commit(body.last_committed);
        self.release_dropped();
        if verdict == Verdict::Evicted {
            self.set_state(State::Evicted);
            self.fail_all(Errno::EIO);
            self.kept.clear();
            self.kept.commit(body.last_committed);
            self.release_dropped();
        }
        if let Verdict::Replay { is_same } = verdict {
            return self.recover(now, xids, is_same);
        }
        self.forget_recovery();
        if was_known {
            self.set_state(State::Recover);
        }
        self.resume(now, xids);
    }

    /// Sends what waits: first what has no reply.
    pub(super) fn resume(&mut self, now: Time, xids: &mut XidSource) {
        self.set_state(State::Full);
        if self.timers.get(Timer::Ping).is_none() {
            // It was due before, and pings are sent only now.
            self.timers.set(Timer::Ping, now + self.ping_interval());
        }
        self.send_waiting(now, xids);
    }

    fn verdict(&self, body: &Body, data: &ConnectData) -> Verdict {
        let is_known = body.connect_flags.has(ConnectOpFlags::RECONNECT);
        let recovers = body.connect_flags.has(ConnectOpFlags::RECOVERING);
        let is_light = data.flags.has(ConnectFlags::LIGHTWEIGHT);
        match () {
            () if body.handle.is_none() => Verdict::Failed(Errno::ENOTCONN),
            () if recovers => Verdict::Replay { is_same: is_known && body.handle == self.export },
            () if !self.is_known => Verdict::Resume,
            () if is_known && body.handle == self.export => Verdict::Resume,
            () if !is_known && is_light => Verdict::Resume,
            () => Verdict::Evicted,
        }
    }

    /// Handles the failure of an attempt to connect.
    pub(super) fn connect_failed(&mut self, now: Time, xids: &mut XidSource, errno: Errno) {
        if self.is_ending {
            return self.closed();
        }
        self.end_handshake();
        match errno {
            Errno::EBUSY | Errno::EAGAIN | Errno::EALREADY => {
                self.set_state(State::Disconnected(errno));
                let at = self.search.again(now);
                self.timers.set(Timer::Retry, at);
            }
            Errno::EACCES | Errno::EPERM | Errno::EROFS => {
                self.stop_timers();
                self.close(errno);
                self.fail_all(errno);
            }
            _ => {
                self.set_state(State::Disconnected(errno));
                self.search_next(now, xids);
            }
        }
    }

    /// Connects again: the target does not keep to what it has promised.
    pub fn reconnect(&mut self, now: Time, xids: &mut XidSource) {
        match self.state {
            State::New | State::Closed(_) | State::Idle => {}
            State::Connecting | State::Disconnected(_) => {}
            _ if self.handshake.is_some() => {}
            _ => self.lose(now, xids, Errno::ENOTCONN),
        }
    }

    /// Handles a report of the management service that the target has restarted, and connects at once.
    /// `instance` is that of the target now, see [`ConnectData::instance`]. Spec:
    /// ptlrpc-ldlm-mgs §32.2.
    pub fn target_restarted(&mut self, now: Time, xids: &mut XidSource, instance: u32) {
        match self.state {
            State::New | State::Closed(_) | State::Idle | State::Connecting => {}
            State::Disconnected(_) => self.send_connect(now, xids),
            _ if self.granted.instance == instance || self.handshake.is_some() => {}
            _ => {
                self.lose(now, xids, Errno::ENOTCONN);
                // Otherwise it waits until some time after the last connect.
                if self.handshake.is_none() {
                    self.send_connect(now, xids);
                }
            }
        }
    }

    /// Tries the next NID, at once or as soon as it may be tried again.
    pub(super) fn search_next(&mut self, now: Time, xids: &mut XidSource) {
        let (at, is_round) = self.search.next(now);
        if is_round {
            self.timeouts.search_longer();
        }
        self.connect_at(now, xids, at);
    }

    /// Connects at a time that may have come.
    pub(super) fn connect_at(&mut self, now: Time, xids: &mut XidSource, at: Time) {
        if at <= now { self.send_connect(now, xids) } else { self.timers.set(Timer::Retry, at) }
    }
}
