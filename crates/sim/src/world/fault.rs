//! Faults of hosts and connections, and their end.

use std::time::Duration;

use super::network::Last;
use super::{HostId, Port, TcpId, World};
use crate::signal::Signal;
use crate::tcp::{EndState, Side};
use crate::words;

impl World {
    /// Resets the connections between two hosts, as a restarted firewall does. With `lossy` the
    /// data in flight are lost.
    pub fn reset(&mut self, one: HostId, other: HostId, lossy: bool) {
        self.note(one, &other.to_string(), format_args!("FAULT reset, lossy {lossy}"));
        for tcp in self.connections_between(one, other) {
            if lossy {
                self.bursts.lose(tcp);
            }
            for side in Side::BOTH {
                let Some(connection) = &self.connections[tcp.0] else { continue };
                let from = connection.end(side.other());
                if matches!(from.state, EndState::Open | EndState::Flushing) {
                    self.reset_towards(tcp, side);
                }
            }
        }
    }

    /// Kills the node of a host. Its connections are reset; with `silently`, as in a power failure,
    /// its peers notice only when they send.
    pub fn crash(&mut self, host: HostId, silently: bool) {
        let this = self.host_mut(host);
        this.selftest = None;
        if this.node.take().is_none() {
            return;
        }
        self.note(host, "-", format_args!("FAULT crash, silently {silently}"));
        for tcp in self.connections_of(host) {
            for side in Side::BOTH {
                let Some(connection) = &mut self.connections[tcp.0] else { continue };
                let end = connection.end_mut(side);
                if end.host != host {
                    continue;
                }
                if silently {
                    end.state = EndState::Closed;
                    end.stream.abort();
                    self.forget_if_over(tcp);
                } else {
                    self.hang_up(tcp, side, Last::Reset);
                }
            }
        }
        let this = self.host_mut(host);
        this.connections.clear();
        this.stalled.clear();
        this.router_buffers.clear();
        this.armed = None;
        this.incarnation += 1;
        self.signals.push_back(Signal::Crashed { host });
    }

    /// Starts the node of a host that is down, without state and with a new incarnation.
    pub fn restart(&mut self, host: HostId) {
        if self.host(host).node.is_none() {
            self.start(host);
        }
    }

    /// Drops all packets between two hosts.
    pub fn partition(&mut self, one: HostId, other: HostId) {
        self.note(one, &other.to_string(), format_args!("FAULT partition"));
        self.partitions.insert((one.min(other), one.max(other)));
    }

    /// Ends a partition; TCP retransmits the lost data.
    pub fn heal(&mut self, one: HostId, other: HostId) {
        if self.partitions.remove(&(one.min(other), one.max(other))) {
            self.note(one, &other.to_string(), format_args!("FAULT heal"));
        }
    }

    /// Pauses a host.
    pub fn pause(&mut self, host: HostId, duration: Duration) {
        self.note(host, "-", format_args!("FAULT pause {}", words::time(Some(duration))));
        let until = self.now + duration;
        let this = self.host_mut(host);
        this.paused_until = this.paused_until.max(until);
    }

    /// Makes a host read one segment of each connection per `pause`; `None` ends that.
    pub(crate) fn slow_reader(&mut self, host: HostId, pause: Option<Duration>) {
        self.note(host, "-", format_args!("FAULT slow reader: {}", words::time(pause)));
        self.host_mut(host).read_pause = pause;
    }

    /// Makes the clock of a host run fast by `ppm` parts per million, or slow.
    pub fn drift(&mut self, host: HostId, ppm: i32) {
        self.note(host, "-", format_args!("FAULT clock drifts by {ppm} ppm"));
        let now = self.now;
        self.host_mut(host).clock.drift(now, ppm);
        self.arm_anew(host);
    }

    /// Closes the connections of `host` with `peer`, as an administrator would.
    pub fn disconnect(&mut self, host: HostId, peer: HostId) {
        self.note(host, &peer.to_string(), format_args!("FAULT disconnect"));
        let (now, nids) = (self.shown(host), self.nids(peer));
        for nid in nids {
            if let Some(node) = &mut self.host_mut(host).node {
                node.admin(now).close_peer(nid);
            }
        }
        self.drain(host);
    }

    /// Ends all faults of the network and of readers. Paused hosts stay paused until their time is
    /// over; hosts that are down need [`World::restart`].
    pub(crate) fn heal_all(&mut self) {
        for (one, other) in self.partitions.clone() {
            self.heal(one, other);
        }
        for host in self.host_ids() {
            self.host_mut(host).read_pause = None;
        }
        self.heal_rails();
    }

    fn connections_of(&self, host: HostId) -> Vec<TcpId> {
        self.connections_where(|one, other| one.host == host || other.host == host)
    }

    fn connections_between(&self, one: HostId, other: HostId) -> Vec<TcpId> {
        let wanted = [(one, other), (other, one)];
        self.connections_where(|a, b| wanted.contains(&(a.host, b.host)))
    }

    fn connections_where(&self, wanted: impl Fn(Port, Port) -> bool) -> Vec<TcpId> {
        let live = self.connections.iter().enumerate();
        live.filter_map(|(n, connection)| {
            let connection = connection.as_ref()?;
            wanted(connection.dialler.port, connection.acceptor.port).then_some(TcpId(n))
        })
        .collect()
    }
}
