//! The terms, each with its arithmetic.

use std::time::Duration;

use fulmar_text::{bit_rate, bytes, count, duration};

use super::{Bound, Direction, Hold, Kind, Load, Path, Settings, Term};

/// The values from which the terms and the waves are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) path: Path,
    pub(super) load: Load,
    pub(super) settings: Settings,
    /// The number of senders with a next hop over the long path: pairs, or pairs of routers.
    pub(super) ways: u32,
    /// The number of lines that one RPC can use alone.
    pub(super) rate: f64,
    /// Whether the RPC waits for its bulk and the acknowledgement of it: two round trips.
    pub(super) waits_for_bulk: bool,
}

impl Facts {
    pub(super) fn new(path: &Path, load: &Load, settings: &Settings) -> Self {
        let ways = match settings.routers {
            Some(routers) => routers.count.max(1).saturating_mul(routers.count.max(1)),
            None => load.pairs.max(1),
        };
        let waits_for_bulk = load.direction == Direction::Write
            || load.kind == Kind::Lustre
            || settings.hold == Hold::RoundTrip && settings.routers.is_none();
        let mut facts =
            Self { path: *path, load: *load, settings: *settings, ways, rate: 1., waits_for_bulk };
        let nic = settings.nic.map_or(f64::INFINITY, |nic| nic.rate as f64);
        let router = settings.routers.map_or(f64::INFINITY, |router| router.rate as f64);
        facts.rate = (path.rate as f64).min(nic).min(router).max(1.);
        facts
    }

    pub(super) fn message(&self) -> f64 {
        self.load.message() as f64
    }

    pub(super) fn rtt(&self) -> f64 {
        self.path.rtt.as_secs_f64()
    }

    /// Returns the time of one message on a line and a connection that it uses alone.
    pub(super) fn message_time(&self) -> f64 {
        self.transfer_time(self.message(), self.settings.socket_buffer.max(1) as f64)
    }

    /// Returns the time of a transfer; data beyond the window take a round trip for each window.
    fn transfer_time(&self, bytes: f64, window: f64) -> f64 {
        bytes / self.rate + (bytes / window - 1.).max(0.) * self.rtt()
    }

    /// Returns how long a message holds a credit over the long path.
    pub(super) fn hold_time(&self) -> f64 {
        match self.settings.hold {
            Hold::Written => self.message_time(),
            Hold::RoundTrip => self.message_time() + self.rtt(),
        }
    }

    /// Returns the RPCs in flight of one sender.
    pub(super) fn customers(&self) -> f64 {
        let all = f64::from(self.load.concurrency.max(1)) * f64::from(self.load.pairs.max(1));
        all / f64::from(self.ways)
    }

    /// Returns the number of connections that concurrent messages can use.
    fn connections(&self, messages: f64) -> f64 {
        f64::from(self.settings.bulk_connections.max(1)).min(messages.ceil()).max(1.)
    }

    /// Returns the most bytes in flight of one sender.
    pub(super) fn way_window(&self) -> f64 {
        let connections = self.connections(self.customers() * self.load.messages() as f64);
        connections * self.settings.socket_buffer.max(1) as f64
    }

    pub(super) fn way_window_rate(&self) -> f64 {
        match self.rtt() {
            0. => f64::INFINITY,
            rtt => self.way_window() / rtt,
        }
    }

    /// Returns the duration of an RPC that does not wait.
    pub(super) fn rpc_time(&self) -> f64 {
        let trips = if self.waits_for_bulk { 2. } else { 1. };
        // A router forwards a message when it is complete.
        let stored = if self.settings.routers.is_some() { 2. * self.message_time() } else { 0. };
        let connections = self.connections(self.load.messages() as f64);
        let window = connections * self.settings.socket_buffer.max(1) as f64;
        trips * self.rtt() + self.transfer_time(self.load.rpc_bytes.max(1) as f64, window) + stored
    }

    fn time(seconds: f64) -> String {
        duration(Duration::from_secs_f64(seconds.clamp(0., 1e9)))
    }

    fn hold_text(&self) -> String {
        let message = Self::time(self.message_time());
        match self.settings.hold {
            Hold::Written => message,
            Hold::RoundTrip => format!("({message} + {} round trip)", duration(self.path.rtt)),
        }
    }

    /// Returns the term of a number of credits.
    fn held(&self, what: Bound, credits: f64, text: &str) -> Term {
        let rate = credits * self.message() / self.hold_time();
        let message = bytes(self.load.message());
        term(what, format!("{text} x {message} / {}", self.hold_text()), rate)
    }

    /// Returns all terms; among equals the first is the bound.
    pub(super) fn terms(&self) -> Vec<Term> {
        let Self { load, settings, .. } = self;
        let mut terms =
            vec![term(Bound::Line, "payload of the narrowest line".into(), self.path.rate as f64)];
        if let Some(nic) = settings.nic {
            let nodes = load.clients.min(load.servers).max(1);
            let nic_rate = bit_rate(8. * nic.rate as f64);
            let text = format!("{} x {nic_rate}", count(nodes, "node"));
            terms.push(term(Bound::Nic, text, f64::from(nodes) * nic.rate as f64));
        }
        terms.push(self.window());
        let (ways, peer) = (f64::from(self.ways), settings.peer_credits.max(1));
        let text = format!("{} x {}", self.ways_text(), count(peer, "credit"));
        terms.push(self.held(Bound::PeerCredits, ways * f64::from(peer), &text));
        let senders = settings.routers.map_or(load.senders(), |routers| routers.count).max(1);
        let credits = settings.credits.max(1);
        let text = format!("{} x {}", count(senders, "sender"), count(credits, "credit"));
        terms.push(self.held(Bound::Credits, f64::from(senders) * f64::from(credits), &text));
        self.router_terms(&mut terms);
        let wanted = f64::from(load.pairs.max(1)) * f64::from(load.concurrency.max(1));
        let text = format!(
            "{} x {} x {} / {}",
            count(load.pairs.max(1), "pair"),
            count(load.concurrency.max(1), "RPC"),
            bytes(load.rpc_bytes),
            Self::time(self.rpc_time())
        );
        let rate = wanted * load.rpc_bytes.max(1) as f64 / self.rpc_time();
        terms.push(term(Bound::Concurrency, text, rate));
        if let Some(cache) = settings.cache {
            let pairs = load.pairs.max(1);
            let time = Self::time(self.rpc_time());
            let text = format!("{} x {} / {time}", count(pairs, "pair"), bytes(cache));
            let rate = f64::from(pairs) * cache.max(1) as f64 / self.rpc_time();
            terms.push(term(Bound::Cache, text, rate));
        }
        terms
    }

    fn ways_text(&self) -> String {
        match self.settings.routers {
            Some(_) => format!("{} of routers", count(self.ways, "pair")),
            None => count(self.ways, "pair"),
        }
    }

    fn window(&self) -> Term {
        let connections = self.way_window() / self.settings.socket_buffer.max(1) as f64;
        let text = format!(
            "{} x {} x {} / {}",
            self.ways_text(),
            count(connections.round() as u64, "connection"),
            bytes(self.settings.socket_buffer),
            duration(self.path.rtt)
        );
        term(Bound::Window, text, f64::from(self.ways) * self.way_window_rate())
    }

    fn router_terms(&self, terms: &mut Vec<Term>) {
        let Some(routers) = self.settings.routers else { return };
        let number = f64::from(routers.count.max(1));
        let who = count(routers.count.max(1), "router");
        let text = format!("{who} x {}", bit_rate(8. * routers.rate as f64));
        terms.push(term(Bound::Router, text, number * routers.rate as f64));
        let senders = self.load.senders().max(1);
        let credits = routers.router_credits.max(1);
        let all = f64::from(senders) * number * f64::from(credits);
        let (senders, credits) = (count(senders, "sender"), count(credits, "router credit"));
        terms.push(self.held(Bound::RouterCredits, all, &format!("{senders} x {who} x {credits}")));
        let buffers = routers.large_buffers.max(1);
        let text = format!("{who} x {}", count(buffers, "buffer"));
        terms.push(self.held(Bound::RouterBuffers, number * f64::from(buffers), &text));
    }

    /// Returns the credits of one sender, and their kind.
    pub(super) fn way_credits(&self) -> (f64, Bound) {
        let Self { settings, load, .. } = self;
        let ways = f64::from(self.ways);
        let share = |count: u32, credits: u32| f64::from(count) * f64::from(credits) / ways;
        let senders = settings.routers.map_or(load.senders(), |routers| routers.count).max(1);
        let mut least = (f64::from(settings.peer_credits.max(1)), Bound::PeerCredits);
        let mut take = |credits: f64, what| {
            if credits < least.0 {
                least = (credits, what);
            }
        };
        take(share(senders, settings.credits.max(1)), Bound::Credits);
        if let Some(routers) = settings.routers {
            let hops = routers.count.max(1).saturating_mul(load.senders().max(1));
            take(share(hops, routers.router_credits.max(1)), Bound::RouterCredits);
            take(share(routers.count, routers.large_buffers.max(1)), Bound::RouterBuffers);
        }
        least
    }
}

fn term(what: Bound, formula: String, bytes_per_second: f64) -> Term {
    Term { what, formula, bytes_per_second }
}
