//! The terms, each with its arithmetic.

use std::time::Duration;

use fulmar_text::{bit_rate, bytes, count, duration};

use super::{Bound, Direction, Hold, Kind, Load, Path, Routers, Settings, Sharing, Term};

/// The values from which the terms and the waves are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) path: Path,
    pub(super) load: Load,
    pub(super) settings: Settings,
    /// The nodes that send the data over the long hop: the senders of the load, or their routers.
    senders: u32,
    /// The number of senders with a next hop over the long hop.
    pub(super) ways: u32,
    /// The routers at the end of the senders, and of the receivers.
    routers: [u32; 2],
    /// The rate of a message on the long hop, and between a node and a router of its site.
    pub(super) rate: f64,
    cable: f64,
    /// Whether the RPC waits for its bulk and the acknowledgement of it: two round trips.
    pub(super) waits_for_bulk: bool,
}

impl Facts {
    pub(super) fn new(path: &Path, load: &Load, settings: &Settings) -> Self {
        let routers = settings.routers.map_or([0, 0], |routers| routers.on_the_way(load.direction));
        let or = |routers: u32, nodes: u32| if routers > 0 { routers } else { nodes.max(1) };
        let (senders, receivers) =
            (or(routers[0], load.senders()), or(routers[1], load.receivers()));
        let ways = match routers {
            [0, 0] => load.pairs.max(1),
            _ => senders.saturating_mul(receivers),
        };
        let waits_for_bulk = load.direction == Direction::Write
            || load.kind == Kind::Lustre
            || settings.hold == Hold::RoundTrip && routers == [0, 0];
        let nic = settings.nic.map_or(f64::INFINITY, |nic| nic.rate as f64);
        let router = settings.routers.map_or(f64::INFINITY, |router| router.rate as f64);
        let cable = nic.min(router).max(1.);
        let rate = (path.rate as f64).min(cable).max(1.);
        let (path, load, settings) = (*path, *load, *settings);
        Self { path, load, settings, senders, ways, routers, rate, cable, waits_for_bulk }
    }

    /// Returns whether small messages and bulk wait for the same credits in one queue. In front of a
    /// router they wait in two connections, which it reads in turn.
    pub(super) fn is_one_queue(&self) -> bool {
        self.routers[0] == 0
    }

    /// Returns the time that a message takes into and out of the routers, which forward it when it is
    /// complete.
    pub(super) fn stored_time(&self) -> f64 {
        let hops = self.routers.iter().filter(|count| **count > 0).count();
        hops as f64 * self.message() / self.cable
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

    /// Returns how long a message holds a credit of the long hop.
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
        let connections = self.connections(self.load.messages() as f64);
        let window = connections * self.settings.socket_buffer.max(1) as f64;
        let transfer = self.transfer_time(self.load.rpc_bytes.max(1) as f64, window);
        trips * self.rtt() + transfer + self.stored_time()
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
        let (senders, credits) = (self.senders, settings.credits.max(1));
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
        let pairs = count(self.ways, "pair");
        match self.routers {
            [0, 0] => pairs,
            [_, 0] => format!("{pairs} of a router and a receiver"),
            [0, _] => format!("{pairs} of a sender and a router"),
            _ => format!("{pairs} of routers"),
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

    /// Adds the terms of the routers. Those at the end of the senders have a message, with a credit of
    /// its previous hop and a buffer, until the long hop has it; those at the other end only for the time of
    /// a cable, so that their own rate is the least of their terms.
    fn router_terms(&self, terms: &mut Vec<Term>) {
        let Some(routers) = self.settings.routers else { return };
        let Some(fewest) = self.routers.into_iter().filter(|count| *count > 0).min() else {
            return;
        };
        let text = format!("{} x {}", count(fewest, "router"), bit_rate(8. * routers.rate as f64));
        terms.push(term(Bound::Router, text, f64::from(fewest) * routers.rate as f64));
        let [number @ 1..=u32::MAX, _] = self.routers else { return };
        let who = count(number, "router");
        let (senders, credits) = (self.load.senders().max(1), routers.router_credits.max(1));
        let all = f64::from(senders) * f64::from(number) * f64::from(credits);
        let (senders, credits) = (count(senders, "sender"), count(credits, "router credit"));
        terms.push(self.held(Bound::RouterCredits, all, &format!("{senders} x {who} x {credits}")));
        let (buffers, all) = (self.usable_buffers(routers), routers.large_buffers.max(1));
        let text = if buffers == u64::from(all) {
            format!("{who} x {}", count(all, "buffer"))
        } else {
            format!("{who} x {} of {all}", count(buffers, "buffer"))
        };
        let buffers = f64::from(number) * buffers as f64;
        terms.push(self.held(Bound::RouterBuffers, buffers, &text));
    }

    /// Returns the buffers of a router that the data can have: one of Fulmar gives those for one target another
    /// buffer while they have fewer than are free.
    fn usable_buffers(&self, routers: Routers) -> u64 {
        let all = u64::from(routers.large_buffers.max(1));
        match routers.sharing {
            Sharing::FirstCome => all,
            Sharing::ByTarget => {
                let targets = u64::from(self.load.receivers().max(1));
                (all * targets).div_ceil(targets + 1)
            }
        }
    }

    /// Returns the credits of one sender for which small messages wait too, and their kind.
    pub(super) fn way_credits(&self) -> (f64, Bound) {
        let Self { settings, load, .. } = self;
        let ways = f64::from(self.ways);
        let share = |count: u32, credits: u32| f64::from(count) * f64::from(credits) / ways;
        let mut least = (f64::from(settings.peer_credits.max(1)), Bound::PeerCredits);
        let mut take = |credits: f64, what| {
            if credits < least.0 {
                least = (credits, what);
            }
        };
        take(share(self.senders, settings.credits.max(1)), Bound::Credits);
        if let (Some(routers), [number @ 1..=u32::MAX, _]) = (settings.routers, self.routers) {
            let hops = number.saturating_mul(load.senders().max(1));
            take(share(hops, routers.router_credits.max(1)), Bound::RouterCredits);
        }
        least
    }
}

fn term(what: Bound, formula: String, bytes_per_second: f64) -> Term {
    Term { what, formula, bytes_per_second }
}
