//! The numbers for a site.

use serde::Serialize;

use super::{Site, Whose};
use crate::model::{
    Direction, Kind, MESSAGE_BYTES_MAX, Settings, cubic_window, predict, segment_bytes,
};

/// The factor of the bytes in flight, so that neither a pause of a node nor a convoy empties the
/// path.
pub(super) const HEADROOM: f64 = 1.4;
/// The largest concurrency of `lst` for a pair.
const SELFTEST_RPCS_MAX: u64 = 1024;
/// The largest `max_rpcs_in_flight` of a target.
const LUSTRE_RPCS_MAX: u64 = 256;
/// With more RPCs than this, larger RPCs need less work of servers.
const LUSTRE_RPCS_MANY: u64 = 64;
/// The largest limit of a buffer in Linux, in whole MiB.
const TCP_BUFFER_MAX: u64 = 2047 << 20;
/// The bytes that BBR keeps in flight, as a factor of its share of the path.
const BBR_ABOVE: f64 = 1.1;
/// The largest window of TCP has 30 bits.
const WINDOW_MAX: u64 = 1 << 30;
/// Below this round trip the path is local, where default settings suffice.
const NEAR: f64 = 0.002;
const MIB: u64 = 1 << 20;

/// The default credits and buffers. Spec: lnet-behaviour §6.2, §8.5, §13.6.
pub(crate) mod usual {
    pub(crate) const PEER_CREDITS: u32 = 8;
    pub(crate) const CREDITS: u32 = 256;
    pub(crate) const TINY_BUFFERS: u32 = 2048;
    pub(crate) const SMALL_BUFFERS: u32 = 16_384;
    pub(crate) const LARGE_BUFFERS: u32 = 1024;
    pub(crate) const LUSTRE_RPCS: u32 = 8;
    pub(crate) const RPC_BYTES: u64 = 4 << 20;
    /// Linux with a gigabyte of memory or more.
    pub(crate) const TCP_RMEM: u64 = 6 << 20;
    pub(crate) const TCP_WMEM: u64 = 4 << 20;
    pub(crate) const BACKLOG: u32 = 1000;
    pub(crate) const TX_QUEUE: u32 = 1000;
    /// `max_read_ahead_per_file_mb` with 32 GiB of memory or more.
    pub(crate) const READ_AHEAD_MB: u32 = 256;

    /// Returns `max_dirty_mb` of a target: an eighth of the memory, at most 2000.
    pub(crate) fn dirty_mb(memory: Option<u64>) -> u32 {
        memory.map_or(2000, |memory| (memory >> 23).min(2000) as u32)
    }

    /// The default of most kernels.
    pub(crate) const CORE_MEM: u64 = 212_992;
}

/// The congestion control of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// Reduces its window at losses.
    Cubic,
    /// Measures rate and round trip; losses of less than some percent have little effect.
    Bbr,
}

impl Congestion {
    /// Returns its name in Linux.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// The numbers, without their reasons.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The bytes that all pairs together must have in flight.
    pub in_flight: u64,
    /// Data of one RPC.
    pub rpc_bytes: u64,
    /// RPCs in flight per pair.
    pub concurrency: u32,
    /// `peer_credits`.
    pub peer_credits: u32,
    /// `credits`.
    pub credits: u32,
    /// `peer_buffer_credits` of routers.
    pub peer_buffer_credits: u32,
    /// Connections of each bulk type to a peer.
    pub conns_per_peer: u32,
    /// The bytes that one connection should be able to have in flight.
    pub window: u64,
    /// The limit of `tcp_rmem` and `tcp_wmem`, of which the kernel uses half for its own
    /// structures.
    pub tcp_buffer: u64,
    /// Router buffers for messages without payload.
    pub tiny_buffers: u32,
    /// Router buffers of a page.
    pub small_buffers: u32,
    /// Router buffers of 1 MiB.
    pub large_buffers: u32,
    /// `max_dirty_mb` of a target; at most 2047.
    pub dirty_mb: u32,
    /// `max_read_ahead_per_file_mb`.
    pub read_ahead_mb: u32,
    /// `netdev_max_backlog`.
    pub backlog: u32,
    /// `txqueuelen`.
    pub tx_queue: u32,
    /// `tcp_congestion_control`.
    pub congestion: Congestion,
    /// Threads of ksocklnd for each CPU partition.
    pub nscheds: u32,
    /// The scale of the settings: 1 unless memory is short.
    pub scale: f64,
}

impl Plan {
    /// Returns the numbers for a scale, where 1 fills the line.
    pub fn new(site: &Site, scale: f64) -> Self {
        let pairs = u64::from(site.nodes.max(1));
        let in_flight = in_flight(site, scale);
        let (rpc_bytes, rpcs_max) = rpc_size(site, in_flight / pairs);
        let wanted = in_flight.div_ceil(pairs * rpc_bytes).clamp(1, rpcs_max) as u32;
        let is_lustre = site.kind == Kind::Lustre && scale >= 1.;
        let concurrency = if is_lustre { wanted.max(usual::LUSTRE_RPCS) } else { wanted };
        let messages = u64::from(concurrency) * rpc_bytes.div_ceil(MESSAGE_BYTES_MAX);
        let routers = u64::from(site.routers);
        let (waiting, hops) = match routers {
            0 => (messages, 1),
            // Between a node and a router of its site; and between routers of the two sites.
            _ => {
                let between = (pairs * messages).div_ceil(routers * routers);
                (messages.div_ceil(routers).max(between), site.routers)
            }
        };
        let peer_credits = whole(waiting.next_multiple_of(8)).max(usual::PEER_CREDITS);
        let conns_per_peer = connections(site);
        let window = window(site, conns_per_peer, scale);
        let tcp_buffer = (2 * window).next_multiple_of(MIB).clamp(usual::TCP_RMEM, TCP_BUFFER_MAX);
        let data = u64::from(concurrency) * rpc_bytes;
        let per_router = |count: u64| count.div_ceil(routers.max(1));
        // Default values are the minimum, unless memory is short.
        let least = |usual: u32| if scale < 1. { usual.min(64) } else { usual };
        let through = per_router(2 * pairs * messages);
        Self {
            in_flight,
            rpc_bytes,
            concurrency,
            peer_credits,
            credits: peer_credits.saturating_mul(hops).max(usual::CREDITS),
            peer_buffer_credits: peer_credits,
            conns_per_peer,
            window,
            tcp_buffer,
            tiny_buffers: whole(through).max(usual::TINY_BUFFERS),
            small_buffers: whole(through).max(usual::SMALL_BUFFERS),
            large_buffers: whole(per_router(in_flight.div_ceil(MIB)).next_multiple_of(64))
                .max(least(usual::LARGE_BUFFERS)),
            dirty_mb: whole(data.div_ceil(MIB)).min(2047).max(least(usual::dirty_mb(site.memory))),
            read_ahead_mb: whole(data.div_ceil(MIB)).max(least(usual::READ_AHEAD_MB)),
            backlog: packets(site, 0.02).max(usual::BACKLOG),
            tx_queue: packets(site, 0.01).clamp(usual::TX_QUEUE, 20_000),
            congestion: congestion(site, conns_per_peer),
            nscheds: whole(site.interface_rate().saturating_mul(8).div_ceil(10_000_000_000) + 2),
            scale,
        }
    }

    /// Returns the settings for the model.
    pub fn model(&self, site: &Site) -> Settings {
        let cache = match (site.kind, site.direction) {
            (Kind::Selftest, _) => None,
            (Kind::Lustre, Direction::Write) => Some(u64::from(self.dirty_mb) << 20),
            (Kind::Lustre, Direction::Read) => Some(u64::from(self.read_ahead_mb) << 20),
        };
        let settings = Settings {
            peer_credits: self.peer_credits,
            credits: self.credits,
            socket_buffer: under_way(
                site,
                self.congestion,
                self.conns_per_peer,
                [self.tcp_buffer; 2],
            ),
            bulk_connections: self.conns_per_peer,
            hold: site.whose.hold(),
            cache,
            nic: None,
            routers: None,
        };
        site.bounds(settings, self.peer_buffer_credits, self.large_buffers)
    }
}

/// Returns the bytes that one of several connections has in flight with limits of `[tcp_rmem,
/// tcp_wmem]`: the receiver offers half of its buffer as a window, CUBIC reduces its window after a
/// loss, and BBR keeps little more than the capacity of the path.
pub(crate) fn under_way(
    site: &Site,
    congestion: Congestion,
    connections: u32,
    [rmem, wmem]: [u64; 2],
) -> u64 {
    let allowed = match (congestion, site.loss) {
        (Congestion::Bbr, _) => {
            let routers = u64::from(site.routers);
            let ways = if routers > 0 { routers * routers } else { u64::from(site.nodes) };
            let share = site.path().bytes_in_flight() / (ways * u64::from(connections)).max(1);
            (share as f64 * BBR_ABOVE) as u64
        }
        (Congestion::Cubic, Some(loss)) => cubic_window(segment_bytes(site.mtu), site.rtt, loss),
        (Congestion::Cubic, None) => u64::MAX,
    };
    allowed.min(rmem / 2).min(wmem).clamp(1, WINDOW_MAX)
}

/// Returns the bytes that the line carries during the round trips of an RPC, with headroom.
fn in_flight(site: &Site, scale: f64) -> u64 {
    let one = site.load(1, MESSAGE_BYTES_MAX);
    let open = Settings {
        peer_credits: usual::PEER_CREDITS,
        credits: usual::CREDITS,
        socket_buffer: WINDOW_MAX,
        bulk_connections: 1,
        hold: site.whose.hold(),
        cache: None,
        nic: None,
        routers: None,
    };
    let settings = site.bounds(open, usual::PEER_CREDITS, usual::LARGE_BUFFERS);
    let time = predict(&site.path(), &one, &settings).rpc_time.as_secs_f64();
    (site.rate() as f64 * time * HEADROOM * scale).ceil().max(1.) as u64
}

/// Returns the size of an RPC, and the number of RPCs.
fn rpc_size(site: &Site, in_flight: u64) -> (u64, u64) {
    if site.kind == Kind::Selftest {
        return (MESSAGE_BYTES_MAX, SELFTEST_RPCS_MAX);
    }
    let few = |rpc: u64| in_flight.div_ceil(rpc) <= LUSTRE_RPCS_MANY;
    let sizes = [usual::RPC_BYTES, 16 << 20];
    let size = sizes.into_iter().find(|size| few(*size)).unwrap_or(16 << 20);
    (size, LUSTRE_RPCS_MAX)
}

/// Returns the number of LNet's rule, or more where a TCP window is too small for its share.
pub(crate) fn connections(site: &Site) -> u32 {
    if let Some(connections) = site.connections {
        return connections.clamp(1, 127);
    }
    let usual = by_speed(site.interface_bits.unwrap_or(site.line_bits));
    let windows = whole((2 * alone(site)).div_ceil(WINDOW_MAX));
    usual.max(windows).min(127)
}

/// Returns LNet's number of connections for an interface of this many bits per second.
/// Spec: lnet-wire §5.2.
pub(crate) fn by_speed(bits: u64) -> u32 {
    (bits / 1_000_000_000).checked_ilog2().map_or(1, |log| log / 2 + 1)
}

/// Returns the bytes in flight of a pair that uses the line alone.
pub(super) fn alone(site: &Site) -> u64 {
    let rate = site.path().rate.min(site.interface_rate());
    (rate as f64 * site.rtt.as_secs_f64()) as u64
}

/// Returns the seconds in which TCP opens its windows: some dozens of round trips, or where CUBIC's
/// slow start ends too early, the time of the growth to the needed window (RFC 9438): by the cube
/// of the time or by a packet per round trip, whichever is faster.
pub(crate) fn opening(site: &Site, plan: &Plan) -> f64 {
    let rtt = site.rtt.as_secs_f64();
    let needed = alone(site) as f64 / f64::from(plan.conns_per_peer.max(1));
    let packets = needed / f64::from(segment_bytes(site.mtu));
    let cubic = match plan.congestion {
        Congestion::Cubic => (packets / 0.4).cbrt().min(packets * rtt),
        Congestion::Bbr => 0.,
    };
    cubic.max(100. * rtt)
}

/// Returns the sum of the windows of all connections as a factor of the path's capacity. With
/// losses, the data after a lost packet wait for a round trip; otherwise somewhat more than the
/// path, since shares vary, but not so much that it overflows a queue of the length of the path.
/// Linux offers up to nine tenths of a buffer; half is assumed.
pub(super) fn windows(congestion: Congestion) -> f64 {
    match congestion {
        Congestion::Bbr => 2.,
        Congestion::Cubic => 1.25,
    }
}

fn window(site: &Site, connections: u32, scale: f64) -> u64 {
    let windows = windows(congestion(site, connections));
    let whole = windows * alone(site) as f64 * scale / f64::from(connections);
    (whole as u64).clamp(MIB, WINDOW_MAX)
}

/// Returns the packets of a number of seconds, in hundreds.
fn packets(site: &Site, seconds: f64) -> u32 {
    let packets = site.interface_rate() as f64 / f64::from(segment_bytes(site.mtu)) * seconds;
    whole((packets as u64).next_multiple_of(100))
}

/// Returns CUBIC if its window under losses is large enough for a connection.
fn congestion(site: &Site, connections: u32) -> Congestion {
    let needed = alone(site) / u64::from(connections.max(1));
    match site.loss {
        Some(loss) if cubic_window(segment_bytes(site.mtu), site.rtt, loss) >= needed => {
            Congestion::Cubic
        }
        None if site.rtt.as_secs_f64() < NEAR => Congestion::Cubic,
        _ => Congestion::Bbr,
    }
}

/// Returns the loss above which CUBIC cannot keep this window in flight.
pub(super) fn cubic_loss_max(site: &Site, window: u64) -> f64 {
    let packets = window as f64 / f64::from(segment_bytes(site.mtu));
    site.rtt.as_secs_f64() * (1.054 / packets.max(1.)).powf(4. / 3.)
}

pub(super) fn whole(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns whether the nodes are kernel nodes.
pub(super) fn is_kernel(site: &Site) -> bool {
    site.whose == Whose::Kernel
}
