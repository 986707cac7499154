//! Being a router: whether messages for others are forwarded, and the buffers for that.
//! Spec: lnet-behaviour §8.5, §8.7.
//!
//! ```text
//! Disabled -> Enabled -> Stopping -> Disabled
//!          any of them -> Draining -> Disabled
//! ```
//!
//! A kernel node of 2.17 is in a state Starting for 110 s before it advertises that it forwards. Here
//! messages are forwarded from the moment of the switch, and buffers are made as they are needed, so
//! peers are informed at once. No message is lost by that: a node takes what comes through a router
//! that it has a route by, whether it knows already that this router forwards or not.

use std::time::Duration;

use fulmar_base::{BufferId, Errno, MessageId, Time};
use fulmar_lnet_wire::{MTU, Net, Nid};

use crate::views::{self, RoutingState};

use super::config::{Forwarding, RouterBuffers, RoutingConfig};
use super::pool::{Memory, Pool};
use super::{Routing, Timer};

/// The longest payloads of the three classes.
const LENS: [u32; 3] = [0, 4096, MTU];
/// Set in the names of router buffers: those of applications and of selftest have other names.
const OWN_BUFFERS: u64 = 1 << 62;
/// A router that drains is empty when nothing has come for so long: peers have had the push, and
/// what they had sent before is here.
const DRAINED: Duration = Duration::from_secs(2);
/// How often a router checks whether its networks are silent, and whether it is drained.
const TICK: Duration = Duration::from_secs(1);

/// A change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) state: RoutingState,
    /// Forwarding has begun just now.
    pub(crate) opened: bool,
    /// What a ping of this node answers has changed.
    pub(crate) advertised: bool,
    /// Peers are told at once.
    pub(crate) push: bool,
}

/// A router buffer for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub(crate) id: BufferId,
    pub(crate) len: u32,
    /// Its memory is still to be made.
    pub(crate) is_new: bool,
}

pub(super) fn pools() -> [Pool; 3] {
    LENS.map(|len| Pool::new(0, len))
}

impl Routing {
    /// Returns whether messages for others are forwarded.
    pub(crate) fn forwards(&self) -> bool {
        self.state != RoutingState::Disabled
    }

    /// Returns whether peers are told that this node forwards.
    pub(crate) fn advertises(&self) -> bool {
        self.state == RoutingState::Enabled
    }

    /// Forwards from the start, if that is configured.
    pub(crate) fn start(&mut self, now: Time) -> Option<Step> {
        let starts = self.config.forwarding && !self.forwards();
        starts.then(|| self.enter(now, RoutingState::Enabled, false))
    }

    /// Switches forwarding. Nothing is returned if it is as requested.
    ///
    /// # Errors
    /// EBUSY if it is to be enabled while it is being stopped.
    pub(crate) fn switch(
        &mut self,
        now: Time,
        forwarding: Forwarding,
    ) -> Result<Option<Step>, Errno> {
        use RoutingState as S;
        let (state, pause) = match (forwarding, self.state) {
            (Forwarding::Enable, S::Enabled)
            | (Forwarding::Disable | Forwarding::Drain, S::Disabled)
            | (Forwarding::Disable, S::Stopping | S::Draining)
            | (Forwarding::Drain, S::Draining) => return Ok(None),
            (Forwarding::Enable, S::Stopping) => return Err(Errno::EBUSY),
            (Forwarding::Enable, S::Disabled | S::Draining) => {
                self.timers.clear(Timer::Forwarding);
                return Ok(Some(self.enter(now, S::Enabled, true)));
            }
            (Forwarding::Disable, S::Enabled) => (S::Stopping, self.notice_period()),
            (Forwarding::Drain, _) => (S::Draining, TICK),
        };
        let step = self.enter(now, state, state == S::Draining);
        if state == S::Draining {
            self.last = now;
        }
        self.timers.set(Timer::Forwarding, now + pause);
        Ok(Some(step))
    }

    /// Goes on with a change of the state.
    pub(crate) fn forwarding_due(&mut self, now: Time) -> Option<Step> {
        match self.state {
            RoutingState::Stopping => Some(self.enter(now, RoutingState::Disabled, false)),
            RoutingState::Draining => {
                let busy = self.pools.iter().any(|pool| !pool.is_idle());
                if busy || now.since(self.last) < DRAINED {
                    self.timers.set(Timer::Forwarding, now + TICK);
                    return None;
                }
                Some(self.enter(now, RoutingState::Disabled, false))
            }
            RoutingState::Disabled | RoutingState::Enabled => None,
        }
    }

    fn enter(&mut self, now: Time, state: RoutingState, push: bool) -> Step {
        let (opened, advertised) = (!self.forwards(), self.advertises());
        if opened {
            let limits = self.limits();
            for (pool, limit) in self.pools.iter_mut().zip(limits) {
                // Nothing waits for a router that is switched off, but buffers may be in use.
                pool.set_limit(limit);
                pool.reset_min();
            }
            self.timers.set(Timer::Silence, now + TICK);
        }
        self.state = state;
        if state == RoutingState::Disabled {
            self.timers.clear(Timer::Silence);
        }
        Step { state, opened, advertised: self.advertises() != advertised, push }
    }

    /// Returns since when an interface must have been pinged, so as not to be silent. `None`: that
    /// is not watched.
    pub(crate) fn silence_due(&mut self, now: Time) -> Option<Duration> {
        self.timers.set(Timer::Silence, now + TICK);
        (self.config.alive_router_check_interval > 0).then(|| self.notice_period())
    }

    /// Returns how long peers are given to notice that a router goes.
    fn notice_period(&self) -> Duration {
        let RoutingConfig { alive_router_check_interval, router_ping_timeout, .. } = self.config;
        Duration::from_secs(u64::from(alive_router_check_interval) + u64::from(router_ping_timeout))
    }

    fn limits(&self) -> [u32; 3] {
        let RouterBuffers { tiny, small, large } = self.config.buffers;
        [tiny, small, large]
    }

    /// Changes how many router buffers there may be, and returns the messages that hold one from
    /// now on.
    ///
    /// # Errors
    /// EINVAL if there are none of a class.
    pub(crate) fn set_buffers(&mut self, buffers: RouterBuffers) -> Result<Vec<MessageId>, Errno> {
        let RouterBuffers { tiny, small, large } = buffers;
        if [tiny, small, large].contains(&0) {
            return Err(Errno::EINVAL);
        }
        self.config.buffers = buffers;
        if !self.forwards() {
            return Ok(Vec::new());
        }
        let limits = self.limits();
        let pools = self.pools.iter_mut().zip(limits);
        Ok(pools.flat_map(|(pool, limit)| pool.set_limit(limit)).collect())
    }

    /// Returns the class of buffers for a payload.
    pub(crate) fn class(len: u32) -> usize {
        LENS.iter().position(|max| len <= *max).expect("a header was checked against the MTU")
    }

    /// Gives a message for `target` the right to a buffer and returns true, or lets it wait.
    pub(crate) fn take_buffer(&mut self, class: usize, message: MessageId, target: Nid) -> bool {
        self.pools[class].take(message, target)
    }

    /// Ends the waiting of a message.
    pub(crate) fn withdraw_buffer(&mut self, class: usize, message: MessageId, target: Nid) {
        self.pools[class].withdraw(message, target);
    }

    /// Receives a buffer back, and returns the messages that hold one from now on.
    pub(crate) fn give_back_buffer(&mut self, class: usize, target: Nid) -> Vec<MessageId> {
        self.pools[class].give_back(target)
    }

    /// Returns memory for a message that holds a buffer, if it needs any.
    pub(crate) fn buffer(&mut self, class: usize) -> Option<Buffer> {
        let pool = &mut self.pools[class];
        let len = pool.len();
        match pool.memory() {
            Memory::None => None,
            Memory::Kept(id) => Some(Buffer { id, len, is_new: false }),
            Memory::Fresh => {
                self.buffers += 1;
                Some(Buffer { id: BufferId(OWN_BUFFERS | self.buffers), len, is_new: true })
            }
        }
    }

    /// Receives the memory of a message back, and returns what is to be freed.
    pub(crate) fn keep_buffer(&mut self, class: usize, buffer: BufferId) -> Vec<BufferId> {
        let mut freed: Vec<BufferId> = self.pools[class].keep(buffer).into_iter().collect();
        if !self.forwards() {
            freed.extend(self.pools[class].release());
        }
        freed
    }

    /// Returns the memory that no message uses, to be freed.
    pub(crate) fn free_buffers(&mut self) -> Vec<BufferId> {
        self.pools.iter_mut().flat_map(Pool::release).collect()
    }

    /// Notes that something has come to be forwarded.
    pub(crate) fn used(&mut self, now: Time) {
        self.last = now;
    }

    /// Counts a message that has passed.
    pub(crate) fn passed(&mut self, nets: (Net, Net), bytes: u32, took: Duration) {
        let passed = self.transits.entry(nets).or_default();
        passed.messages += 1;
        passed.bytes += u64::from(bytes);
        passed.latency.record(took.as_nanos() as u64);
    }

    pub(crate) fn view(&self) -> views::Routing {
        let transits = self.transits.iter().map(|((from, to), passed)| views::Transit {
            from: *from,
            to: *to,
            messages: passed.messages,
            bytes: passed.bytes,
            latency: (&passed.latency).into(),
        });
        let pools = self.pools.each_ref().map(Pool::view);
        views::Routing { state: self.state, pools, transits: transits.collect() }
    }

    /// Checks the pools: of each class so many messages hold a buffer, and so many wait.
    pub(crate) fn check_buffers(&self, users: [(u32, u32); 3]) -> Result<(), String> {
        for (pool, users) in self.pools.iter().zip(users) {
            pool.check()?;
            if pool.users() != users {
                let charged = pool.users();
                return Err(format!("router buffers: {users:?} messages, {charged:?} charged"));
            }
        }
        Ok(())
    }
}
