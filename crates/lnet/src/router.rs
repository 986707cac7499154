//! Being a router: whether messages for others are forwarded, and the buffers for that.
//! Spec: lnet-behaviour §8.5, §8.7.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lnet_wire::selftest::Histogram;
use fulmar_lnet_wire::{Body, Header, MTU, Net, RESERVED_PORTAL};

use crate::Lnet;
use crate::api::Output;
use crate::machine::Timer;
use crate::message::{Arrival, RouterHold};
use crate::notice::Notice;
use crate::pool::{Memory, Pool};
use crate::routing::{Forwarding, RouterBuffers, RoutingConfig};
use crate::views::{self, RoutingState};

/// What a node has that may be a router.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) config: RoutingConfig,
    pub(crate) state: RoutingState,
    /// Tiny, small and large buffers; empty before the node first is a router.
    pub(crate) pools: [Pool; 3],
    /// When something was last taken to be forwarded.
    last: Time,
    transits: BTreeMap<(Net, Net), Passed>,
    /// Counts buffers, to name them.
    buffers: u64,
}

#[derive(Debug, Default)]
struct Passed {
    messages: u64,
    bytes: u64,
    latency: Histogram,
}

/// The longest payloads of the three classes.
const LENS: [u32; 3] = [0, 4096, MTU];
/// Set in the names of router buffers: those of applications and of selftest have other names.
const OWN_BUFFERS: u64 = 1 << 62;
/// A router that drains is empty when nothing has come for so long: peers have had the push, and
/// what they had sent before is here.
const DRAINED: Duration = Duration::from_secs(2);
/// How often a router looks whether its networks are silent, and whether it is drained.
const TICK: Duration = Duration::from_secs(1);

impl Router {
    pub(crate) fn new(config: RoutingConfig) -> Self {
        Self {
            config,
            state: RoutingState::Disabled,
            pools: LENS.map(|len| Pool::new(0, len)),
            last: Time::ZERO,
            transits: BTreeMap::new(),
            buffers: 0,
        }
    }

    /// Returns the class of buffers for a payload.
    pub(crate) fn class(len: u32) -> usize {
        LENS.iter().position(|max| len <= *max).expect("a header was checked against the MTU")
    }

    fn limits(&self) -> [u32; 3] {
        let RouterBuffers { tiny, small, large } = self.config.buffers;
        [tiny, small, large]
    }

    /// Counts a message that has passed.
    pub(crate) fn passed(&mut self, nets: (Net, Net), bytes: u32, took: Duration) {
        let passed = self.transits.entry(nets).or_default();
        passed.messages += 1;
        passed.bytes += u64::from(bytes);
        passed.latency.record(took.as_nanos() as u64);
    }
}

impl Lnet {
    /// Returns whether messages for others are forwarded.
    pub(crate) fn forwards(&self) -> bool {
        self.router.state != RoutingState::Disabled
    }

    /// Returns whether peers are told that we forward.
    pub(crate) fn advertises_routing(&self) -> bool {
        self.router.state == RoutingState::Enabled
    }

    /// Switches forwarding. Spec: lnet-behaviour §8.7.
    ///
    /// # Errors
    /// EBUSY if it is to be enabled while it is being stopped.
    pub fn set_forwarding(&mut self, now: Time, forwarding: Forwarding) -> Result<(), Errno> {
        use RoutingState as S;
        match (forwarding, self.router.state) {
            (Forwarding::Enable, S::Enabled | S::Starting) => {}
            (Forwarding::Enable, S::Stopping) => return Err(Errno::EBUSY),
            (Forwarding::Enable, S::Disabled | S::Draining) => {
                self.open_router(now);
                self.enter(now, S::Starting);
                self.timers.set(Timer::Forwarding, now + self.warning());
            }
            (_, S::Disabled) => {}
            (Forwarding::Disable, S::Stopping | S::Draining) | (Forwarding::Drain, S::Draining) => {
            }
            (Forwarding::Disable, S::Enabled | S::Starting) => {
                self.enter(now, S::Stopping);
                self.timers.set(Timer::Forwarding, now + self.warning());
            }
            (Forwarding::Drain, _) => {
                self.enter(now, S::Draining);
                self.router.last = now;
                self.timers.set(Timer::Forwarding, now + TICK);
                self.force_push();
            }
        }
        self.settle(now);
        Ok(())
    }

    /// Forwards from the start, as module parameters say.
    pub(crate) fn start_router(&mut self, now: Time) {
        if self.router.config.forwarding && self.router.state == RoutingState::Disabled {
            self.open_router(now);
            self.enter(now, RoutingState::Enabled);
        }
    }

    /// Changes how many router buffers there may be. Those in use stay until their messages are
    /// gone.
    ///
    /// # Errors
    /// EINVAL if there are none of a class.
    pub fn set_router_buffers(&mut self, now: Time, buffers: RouterBuffers) -> Result<(), Errno> {
        let RouterBuffers { tiny, small, large } = buffers;
        if [tiny, small, large].contains(&0) {
            return Err(Errno::EINVAL);
        }
        self.router.config.buffers = buffers;
        if self.forwards() {
            for (class, limit) in self.router.limits().into_iter().enumerate() {
                let woken = self.router.pools[class].set_limit(limit);
                self.go_on(woken, RouterHold::Buffer);
            }
        }
        self.settle(now);
        Ok(())
    }

    /// Returns the state of the router that this node is.
    pub fn routing(&self) -> views::Routing {
        let transits = self.router.transits.iter().map(|((from, to), passed)| views::Transit {
            from: *from,
            to: *to,
            messages: passed.messages,
            bytes: passed.bytes,
            latency: passed.latency.clone(),
        });
        let pools = self.router.pools.each_ref().map(Pool::view);
        views::Routing { state: self.router.state, pools, transits: transits.collect() }
    }

    /// Returns what routing was configured with.
    pub fn routing_config(&self) -> &RoutingConfig {
        &self.router.config
    }

    /// How long peers are given to notice that a router comes or goes.
    fn warning(&self) -> Duration {
        let RoutingConfig { alive_router_check_interval, router_ping_timeout, .. } =
            self.router.config;
        Duration::from_secs(u64::from(alive_router_check_interval) + u64::from(router_ping_timeout))
    }

    fn open_router(&mut self, now: Time) {
        if self.forwards() {
            return;
        }
        let limits = self.router.limits();
        for (pool, limit) in self.router.pools.iter_mut().zip(limits) {
            // Nobody waits for a router that is switched off, though some may still hold buffers.
            pool.set_limit(limit);
            pool.reset_min();
        }
        for ni in &mut self.nis {
            ni.pinged = now;
        }
        self.timers.set(Timer::Silence, now + TICK);
    }

    fn enter(&mut self, now: Time, state: RoutingState) {
        let told = self.advertises_routing();
        self.router.state = state;
        if self.advertises_routing() != told {
            self.info_edited();
        }
        if state == RoutingState::Disabled {
            self.close_router(now);
        }
        self.notice(Notice::Routing { state });
    }

    /// It is time to look at how far a change of the state has come.
    pub(crate) fn forwarding_due(&mut self, now: Time) {
        match self.router.state {
            RoutingState::Starting => {
                self.enter(now, RoutingState::Enabled);
                self.force_push();
            }
            RoutingState::Stopping => self.enter(now, RoutingState::Disabled),
            RoutingState::Draining => {
                let busy = self.router.pools.iter().any(|pool| !pool.is_idle());
                match busy || now.since(self.router.last) < DRAINED {
                    true => self.timers.set(Timer::Forwarding, now + TICK),
                    false => self.enter(now, RoutingState::Disabled),
                }
            }
            RoutingState::Disabled | RoutingState::Enabled => {}
        }
    }

    /// Stops forwarding: what waits is dropped, what is here whole is still sent.
    fn close_router(&mut self, now: Time) {
        self.timers.clear(Timer::Silence);
        for id in self.messages.waiting_in_transit() {
            self.drop_waiting(now, id, "this router has been switched off");
        }
        for class in 0..self.router.pools.len() {
            let freed = self.router.pools[class].release();
            self.outputs.extend(freed.into_iter().map(|buffer| Output::Release { buffer }));
        }
        for ni in &mut self.nis {
            ni.silent = false;
        }
    }

    /// Returns memory for a message that was given a buffer of `class`.
    pub(crate) fn buffer(&mut self, class: usize) -> Option<BufferId> {
        match self.router.pools[class].memory() {
            Memory::None => None,
            Memory::Kept(buffer) => Some(buffer),
            Memory::Fresh => {
                self.router.buffers += 1;
                let buffer = BufferId(OWN_BUFFERS | self.router.buffers);
                let len = self.router.pools[class].len();
                self.outputs.push_back(Output::Allocate { buffer, len });
                Some(buffer)
            }
        }
    }

    /// Takes the memory of a message back.
    pub(crate) fn keep_buffer(&mut self, class: usize, buffer: Option<BufferId>) {
        let Some(buffer) = buffer else { return };
        let pool = &mut self.router.pools[class];
        let mut freed: Vec<BufferId> = pool.keep(buffer).into_iter().collect();
        if self.router.state == RoutingState::Disabled {
            freed.extend(self.router.pools[class].release());
        }
        self.outputs.extend(freed.into_iter().map(|buffer| Output::Release { buffer }));
    }

    /// Notes that something has come to be forwarded.
    pub(crate) fn router_used(&mut self, now: Time) {
        self.router.last = now;
    }

    /// A ping shows that somebody on the network counts on this router.
    /// Spec: lnet-behaviour §5.2, row 4.
    pub(crate) fn note_ping(&mut self, now: Time, arrival: Arrival, header: &Header) {
        let asks = matches!(header.body, Body::Get { portal: RESERVED_PORTAL, .. });
        if !asks || !self.forwards() || self.ni_of(header.source).is_some() {
            return;
        }
        let net = arrival.ni.net();
        let mut news = false;
        for ni in self.nis.iter_mut().filter(|ni| ni.config.nid.net() == net) {
            ni.pinged = now;
            news |= std::mem::take(&mut ni.silent);
        }
        if news {
            self.status_changed();
        }
    }

    /// Interfaces by which nobody has asked for this router for long are told as down: whoever is
    /// on the other side then looks for another way. Spec: lnet-behaviour §8.8.
    pub(crate) fn look_for_silence(&mut self, now: Time) {
        self.timers.set(Timer::Silence, now + TICK);
        let limit = self.warning();
        if self.router.config.alive_router_check_interval == 0 {
            return;
        }
        let mut news = false;
        for ni in self.nis.iter_mut().filter(|ni| now.since(ni.pinged) > limit) {
            news |= !std::mem::replace(&mut ni.silent, true);
        }
        if news {
            self.status_changed();
        }
    }
}
