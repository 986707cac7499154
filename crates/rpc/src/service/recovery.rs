//! The recovery of a target after its restart: which requests wait for which.
//! Spec: ptlrpc-ldlm-mgs §15.
//!
//! ```text
//! Connect ── all known clients are here ──► Requests ── all have replayed ──► Locks ── all final pings ──► end
//!    └──────── the window is over: who is missing is evicted ──┘ └────────┘ └─────────┘
//! ```
//!
//! Transactions are replayed one at a time, in order. A number that no client has is skipped when every
//! client that still replays has a later one waiting.
//!
//! The host gives the transaction numbers, and writes to disk with each transaction its client and
//! its reply. After a restart it hands both to `Server::recover`, before it opens the target. The
//! exports of the known clients exist again, with new handles, and expect their clients; unknown
//! ones have to wait (EBUSY). A request of a recovering target that has passed all other checks is
//! executed, refused or *held*. A held request keeps its place, gets early replies and takes its
//! turn: transactions one at a time and in order once all clients are there, then locks, then the
//! final pings, whose replies end the recovery. The end of the window evicts those that the others
//! wait for, moves on by a minute, and has a hard limit. The host receives replays as ordinary
//! requests with a transaction number, and the question whether versions are to be compared, since
//! a client is missing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Handle;

use super::RequestId;
use crate::timeouts::{CONNECT_TIMEOUT, Timeouts, timeout};

/// How long a recovering target waits for its clients. Spec: ptlrpc-ldlm-mgs §15.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// After the first connect, or more if a client connects that needs it.
    pub soft: Duration,
    /// At most.
    pub hard: Duration,
}

impl Default for Window {
    fn default() -> Self {
        Self::of(100)
    }
}

impl Window {
    /// Within which time every client connects again that is able to.
    const RECONNECT: Duration = Duration::from_secs(60);

    /// Returns the window for a `timeout` in seconds, of which the default is 100.
    pub fn of(timeout: u32) -> Self {
        let time = Duration::from_secs(timeout.into());
        Self { soft: 3 * time, hard: 9 * time }
    }

    /// Returns the window if the management service tells the clients about the restart: `factor` tenths
    /// of it.
    #[must_use]
    pub fn imperative(self, factor: u8) -> Self {
        Self { soft: self.soft * factor.clamp(1, 10).into() / 10, ..self }
    }

    fn limited(self) -> Self {
        let soft = self.soft.max(2 * Self::RECONNECT);
        Self { soft, hard: self.hard.max(soft) }
    }
}

/// The recovery of a target.
#[derive(Debug)]
pub(super) struct Recovery {
    window: Window,
    stage: Stage,
    members: BTreeMap<Handle, Member>,
    /// The transaction that comes next.
    next: u64,
    /// Replays that wait, by their transactions.
    requests: BTreeMap<u64, (Handle, RequestId)>,
    locks: VecDeque<(Handle, RequestId)>,
    /// Replays that the host executes.
    running: BTreeMap<RequestId, ExecutedRequest>,
    /// When the first client tried to connect.
    began: Option<Time>,
    deadline: Option<Time>,
    /// Whether a client is missing: others may depend on what it does not replay.
    checks_versions: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connect,
    Requests,
    Locks,
}

/// A client that takes part.
#[derive(Debug, Default)]
struct Member {
    is_present: bool,
    /// How many of its replays wait.
    waiting: usize,
    has_replayed: bool,
    final_ping: Option<RequestId>,
    /// Whether it has connected again since its final ping, and so sends another one.
    pings_again: bool,
    version_failed: bool,
}

impl Member {
    fn is_complete(&self) -> bool {
        self.is_present && self.has_pinged()
    }

    /// Returns whether its final ping is there. If the recovery ended before another one under way, that
    /// would come too late, and its client would be evicted.
    fn has_pinged(&self) -> bool {
        self.final_ping.is_some() && !self.pings_again
    }
}

#[derive(Clone, Copy, Debug)]
struct ExecutedRequest {
    export: Handle,
    /// Whether the next transaction waits for it.
    is_ordered: bool,
}

/// What becomes of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is executed at once.
    Now,
    /// It waits.
    Held,
    /// It waits instead of this one, which has ended.
    Instead(RequestId),
    /// Another client claims the same transaction.
    Duplicate,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The host executes this replay.
    Execute(RequestId),
    /// The target has recovered.
    Finish {
        /// The final pings, to be answered.
        pings: Vec<RequestId>,
        /// The exports of clients whose replays did not fit, to be evicted.
        failed: Vec<Handle>,
    },
}

impl Recovery {
    /// The seconds that a client may need to find the target.
    const SEARCH: u32 = 2 * CONNECT_TIMEOUT + 2 * (Timeouts::SEARCH_MAX + Timeouts::SEARCH_STEP);

    /// Begins with the exports of the known clients, and the last transaction on disk.
    pub(super) fn new(window: Window, exports: &[Handle], last_committed: u64) -> Self {
        let members = exports.iter().map(|&export| (export, Member::default()));
        Self {
            window: window.limited(),
            stage: Stage::Connect,
            members: members.collect(),
            next: last_committed.saturating_add(1),
            requests: BTreeMap::new(),
            locks: VecDeque::new(),
            running: BTreeMap::new(),
            began: None,
            deadline: None,
            checks_versions: false,
        }
    }

    /// Returns whether replays compare the versions of objects.
    pub(super) fn checks_versions(&self) -> bool {
        self.checks_versions
    }

    /// Returns the seconds that an early reply to a replay that waits asks for.
    pub(super) fn extra(&self) -> u32 {
        u32::try_from(self.window.soft.as_secs() / 4).unwrap_or(u32::MAX)
    }

    pub(super) fn is_member(&self, export: Handle) -> bool {
        self.members.contains_key(&export)
    }

    /// Handles a connect of any client: the window begins. One that is refused must not wait without end
    /// for clients that are gone.
    pub(super) fn begin(&mut self, now: Time) {
        if self.began.is_none() {
            self.began = Some(now);
            self.extend(now + self.window.soft);
        }
    }

    /// Handles a client that has connected. `estimate`: the seconds that it expects the service to take.
    /// `first`: the first transaction that it will replay. `last_committed`: that of the target.
    pub(super) fn join(
        &mut self,
        now: Time,
        export: Handle,
        estimate: u32,
        first: Option<u64>,
        last_committed: u64,
    ) {
        let member = self.members.entry(export).or_default();
        let is_first = !std::mem::replace(&mut member.is_present, true);
        member.pings_again = member.final_ping.is_some();
        if !is_first {
            return;
        }
        self.begin(now);
        let needed = u64::from(timeout(estimate)) + u64::from(Self::SEARCH);
        if let Some(began) = self.began {
            self.extend(began + Duration::from_secs(needed));
        }
        if let Some(first) = first.filter(|&first| last_committed < first && first < self.next) {
            self.next = first;
        }
    }

    /// Handles a replay of the transaction `transno`.
    ///
    /// # Errors
    /// EPROTO if the client has said that it has replayed everything.
    pub(super) fn replay(
        &mut self,
        export: Handle,
        transno: u64,
        id: RequestId,
    ) -> Result<Turn, Errno> {
        let Some(member) = self.members.get_mut(&export) else { return Err(Errno::ENOTCONN) };
        if transno < self.next {
            self.running.insert(id, ExecutedRequest { export, is_ordered: false });
            return Ok(Turn::Now);
        }
        if member.has_replayed {
            return Err(Errno::EPROTO);
        }
        if self.requests.contains_key(&transno) {
            return Ok(Turn::Duplicate);
        }
        member.waiting += 1;
        self.requests.insert(transno, (export, id));
        Ok(Turn::Held)
    }

    /// Handles a lock replay.
    ///
    /// # Errors
    /// ENOTCONN if the client takes no part.
    pub(super) fn replay_lock(&mut self, export: Handle, id: RequestId) -> Result<Turn, Errno> {
        let Some(member) = self.members.get_mut(&export) else { return Err(Errno::ENOTCONN) };
        member.has_replayed = true;
        self.locks.push_back((export, id));
        Ok(Turn::Held)
    }

    /// Handles a final ping.
    ///
    /// # Errors
    /// ENOTCONN if the client takes no part.
    pub(super) fn complete(&mut self, export: Handle, id: RequestId) -> Result<Turn, Errno> {
        let Some(member) = self.members.get_mut(&export) else { return Err(Errno::ENOTCONN) };
        member.has_replayed = true;
        member.pings_again = false;
        Ok(member.final_ping.replace(id).map_or(Turn::Held, Turn::Instead))
    }

    /// Handles the end of a replay that was executed. `version_failed`: an object had another version.
    pub(super) fn ended(&mut self, now: Time, id: RequestId, version_failed: bool) {
        let Some(running) = self.running.remove(&id) else { return };
        if let Some(member) = self.members.get_mut(&running.export) {
            member.version_failed |= version_failed;
        }
        // Its client has time for the next one.
        self.extend(now + Window::RECONNECT);
    }

    /// Handles the end of an export. Returns its requests that wait, which end.
    pub(super) fn leave(&mut self, export: Handle) -> Vec<RequestId> {
        let Some(member) = self.members.remove(&export) else { return Vec::new() };
        self.checks_versions |= !member.has_replayed;
        let locks = self.locks.iter().copied();
        let held = self.requests.values().copied().chain(locks);
        let mut ended: Vec<RequestId> =
            held.filter(|(owner, _)| *owner == export).map(|(_, id)| id).collect();
        self.requests.retain(|_, (owner, _)| *owner != export);
        self.locks.retain(|(owner, _)| *owner != export);
        ended.extend(member.final_ping);
        ended
    }

    /// Returns the next step, if one is possible.
    pub(super) fn poll(&mut self) -> Option<Step> {
        if self.stage == Stage::Connect && self.members.values().all(|one| one.is_present) {
            self.stage = Stage::Requests;
        }
        if self.stage == Stage::Requests {
            if let Some(step) = self.poll_request() {
                return Some(step);
            }
            let is_over = self.members.values().all(|one| one.has_replayed);
            if is_over && self.requests.is_empty() && !self.is_replaying() {
                self.stage = Stage::Locks;
            }
        }
        if self.stage != Stage::Locks {
            return None;
        }
        if let Some((export, id)) = self.locks.pop_front() {
            self.running.insert(id, ExecutedRequest { export, is_ordered: false });
            return Some(Step::Execute(id));
        }
        let is_over = self.members.values().all(Member::has_pinged);
        (is_over && self.running.is_empty()).then(|| self.finish())
    }

    /// Returns the next transaction, if its turn has come.
    fn poll_request(&mut self) -> Option<Step> {
        if self.is_replaying() {
            return None;
        }
        let (&transno, &(export, id)) = self.requests.first_key_value()?;
        let mut others = self.members.values().filter(|one| !one.has_replayed);
        if transno > self.next && !others.all(|one| one.waiting > 0) {
            return None;
        }
        self.requests.remove(&transno);
        if let Some(member) = self.members.get_mut(&export) {
            member.waiting -= 1;
        }
        self.next = transno.saturating_add(1);
        self.running.insert(id, ExecutedRequest { export, is_ordered: true });
        Some(Step::Execute(id))
    }

    fn is_replaying(&self) -> bool {
        self.running.values().any(|one| one.is_ordered)
    }

    fn finish(&mut self) -> Step {
        let members = std::mem::take(&mut self.members);
        let failed = members.iter().filter(|(_, one)| one.version_failed);
        let failed = failed.map(|(&export, _)| export).collect();
        Step::Finish { pings: members.values().filter_map(|one| one.final_ping).collect(), failed }
    }

    /// Returns when the window is over. It begins with the first connect.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// Returns the exports to evict, if the window is over: those that the others wait for. After the
    /// hard limit these are all that have not completed.
    pub(super) fn handle_timeout(&mut self, now: Time) -> Vec<Handle> {
        let (Some(began), Some(deadline)) = (self.began, self.deadline) else { return Vec::new() };
        if now < deadline {
            return Vec::new();
        }
        let is_last = now >= began + self.window.hard;
        let is_busy = |export| self.running.values().any(|one| one.export == export);
        let is_late = |export: Handle, one: &Member| match self.stage {
            _ if is_last => !one.is_complete(),
            Stage::Connect => !one.is_present,
            Stage::Requests => !one.has_replayed && one.waiting == 0 && !is_busy(export),
            Stage::Locks => {
                let waits = self.locks.iter().any(|&(owner, _)| owner == export);
                !one.has_pinged() && !waits && !is_busy(export)
            }
        };
        let late = self.members.iter().filter(|&(&export, one)| is_late(export, one));
        let late = late.map(|(&export, _)| export).collect();
        self.deadline = Some(now + Window::RECONNECT);
        if !is_last {
            self.extend(now + Window::RECONNECT);
        }
        late
    }

    /// Returns the exports to evict, so that the recovery ends now.
    pub(super) fn abort(&mut self) -> Vec<Handle> {
        let late = self.members.iter().filter(|(_, one)| !one.is_complete());
        late.map(|(&export, _)| export).collect()
    }

    /// Moves the end of the window, but not beyond the hard limit.
    fn extend(&mut self, to: Time) {
        let Some(began) = self.began else { return };
        let to = self.deadline.map_or(to, |deadline| deadline.max(to));
        self.deadline = Some(to.min(began + self.window.hard));
    }
}

#[cfg(test)]
mod tests;
