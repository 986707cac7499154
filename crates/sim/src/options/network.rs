//! The network between the nodes: cables, switches, trunks, and TCP settings.
//!
//! ```text
//! host ─cable─ switch of its site ═══trunk═══ switch of another site ─cable─ host
//! ```
//!
//! A switch has no rate limit of its own: packets wait only for a [`Line`].

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use fulmar_base::Rng;
use fulmar_text::duration;

use super::pick;
use crate::{HostId, Port};

/// The network between the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The topology.
    pub topology: Topology,
    /// The TCP settings of every host.
    pub tcp: Tcp,
    /// How streams are cut into bursts.
    pub cut: Cut,
}

/// The topology of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One switch, and a cable to each interface. The delay of each host is drawn.
    Mesh {
        /// The cables; their delay is ignored.
        cable: Line,
        /// The shortest one-way delay between two hosts.
        delay_min: Duration,
        /// The longest one-way delay.
        delay_max: Duration,
    },
    /// Sites, each with a switch, and trunks between them. A path uses as few trunks as possible.
    Sites {
        /// The sites, numbered from 0.
        sites: Vec<Site>,
        /// The trunks.
        trunks: Vec<Trunk>,
    },
}

/// A switch, and the interfaces that are connected to it.
///
/// LNet networks ([`super::Rails`]) decide which interfaces talk to each other: a router between a
/// site and the ocean has two interfaces, and both may be at the switch of its site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The interfaces, in groups of equal hosts.
    pub ports: Vec<Ports>,
}

/// One interface of each host of a range, with equal cables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The numbers of the hosts.
    pub hosts: Range<u32>,
    /// The index of the interface.
    pub index: u8,
    /// The cable of each interface.
    pub cable: Line,
}

/// A line between the switches of two sites.
///
/// Connections are spread evenly over parallel trunks; each stays on one, as with link aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// The numbers of the sites.
    pub between: (usize, usize),
    /// Its properties.
    pub line: Line,
}

/// A link that carries packets in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Rate in one direction including all headers, in Mbit/s.
    pub rate_mbps: u64,
    /// One-way delay.
    pub delay: Duration,
    /// Largest extra delay of a burst. The order within a connection is kept.
    pub jitter: Duration,
    /// Lost packets per billion.
    pub loss_ppb: u32,
    /// Queue limit in one direction, in bytes; packets beyond are dropped.
    pub queue: u64,
    /// Full or half duplex.
    pub duplex: Duplex,
}

/// Full or half duplex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// Each direction has the whole rate.
    Full,
    /// Both directions share it.
    Half,
}

/// The TCP settings of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Receive buffer in bytes, as the maximum of `tcp_rmem` allows. It is also the largest
    /// advertised window.
    pub read_buffer: u64,
    /// Send buffer in bytes, as the maximum of `tcp_wmem` allows: unsent and unacknowledged data.
    pub write_buffer: u64,
    /// The congestion control.
    pub congestion: Control,
    /// The longest IP packet, in bytes.
    pub mtu: u32,
    /// Initial congestion window, in packets. A very large one skips slow start.
    pub initial_window: u32,
    /// Whether a connection that was idle starts with a small window again
    /// (`tcp_slow_start_after_idle`).
    pub idle_restart: bool,
    /// What ends slow start before a loss.
    pub hystart: HyStart,
    /// Whether buffers begin small and grow with what the connection carries.
    pub autotune: bool,
    /// Whether single packets are acknowledged later.
    pub delayed_acks: bool,
    /// Whether a writer whose send buffer was full waits until a third of it is free.
    pub late_writers: bool,
}

/// What ends slow start before a loss: parts of HyStart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HyStart {
    /// Nothing.
    Off,
    /// Longer round trips.
    Delay,
    /// Acknowledgements without a gap for half of a round trip.
    Train,
    /// Either of them.
    Both,
}

impl HyStart {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Off, Self::Delay, Self::Train, Self::Both];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Delay => "delay",
            Self::Train => "train",
            Self::Both => "both",
        }
    }

    pub(crate) fn sees_delay(self) -> bool {
        matches!(self, Self::Delay | Self::Both)
    }

    pub(crate) fn sees_train(self) -> bool {
        matches!(self, Self::Train | Self::Both)
    }
}

/// A congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Half the window after a loss, one more packet in each round trip.
    Reno,
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic,
    /// Paced at the measured bottleneck rate; ignores single losses.
    Bbr,
}

impl Control {
    /// Returns the name that Linux uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// How streams are cut into bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Only by the window or the pace.
    Whole,
    /// Into random pieces of at most so many bytes (bulk data: a thousand times as many).
    Pieces(u64),
}

impl Line {
    /// Returns a line with this rate and one-way delay, without jitter, loss or queue limit.
    pub const fn new(rate_mbps: u64, delay: Duration) -> Self {
        Self {
            rate_mbps,
            delay,
            jitter: Duration::ZERO,
            loss_ppb: 0,
            queue: u64::MAX,
            duplex: Duplex::Full,
        }
    }

    /// Returns the transmission time of so many bytes.
    pub(crate) fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes.saturating_mul(8_000) / self.rate_mbps)
    }
}

impl Tcp {
    /// Returns the payload of a full packet: the MTU without the headers of IP and of TCP with
    /// timestamps.
    pub fn segment(&self) -> u64 {
        u64::from(self.mtu.saturating_sub(HEADERS)).max(1)
    }

    /// Returns the bytes of `payload` on Ethernet, where each packet has a header, a checksum, a
    /// preamble and an inter-frame gap.
    pub fn on_wire(&self, payload: u64) -> u64 {
        payload + self.packets(payload) * u64::from(HEADERS + ETHERNET)
    }

    /// Returns the number of packets for `payload`; at least one.
    pub fn packets(&self, payload: u64) -> u64 {
        payload.div_ceil(self.segment()).max(1)
    }
}

/// The laws of TCP with the defaults of Linux on Ethernet: 6 MiB receive and 4 MiB send buffer, CUBIC,
/// ten packets. What Linux does beyond them is off; see [`Tcp::linux`].
impl Default for Tcp {
    fn default() -> Self {
        Self {
            read_buffer: 6 << 20,
            write_buffer: 4 << 20,
            congestion: Control::Cubic,
            mtu: 1500,
            initial_window: 10,
            idle_restart: false,
            hystart: HyStart::Delay,
            autotune: false,
            delayed_acks: false,
            late_writers: false,
        }
    }
}

impl Tcp {
    /// Returns what a host of Linux does without settings. Half of a receive buffer is window.
    pub fn linux() -> Self {
        Self {
            read_buffer: 3 << 20,
            idle_restart: true,
            hystart: HyStart::Both,
            autotune: true,
            delayed_acks: true,
            late_writers: true,
            ..Self::default()
        }
    }

    /// Returns the same with both buffers of this size.
    pub fn with_buffers(self, bytes: u64) -> Self {
        Self { read_buffer: bytes, write_buffer: bytes, ..self }
    }
}

impl Network {
    /// Returns a network with all hosts at one switch, the same delay between any two, and the TCP
    /// defaults of Linux.
    pub fn even(rate_mbps: u64, delay: Duration) -> Self {
        let cable = Line::new(rate_mbps, Duration::ZERO);
        Self {
            topology: Topology::Mesh { cable, delay_min: delay, delay_max: delay },
            tcp: Tcp::default(),
            cut: Cut::Whole,
        }
    }

    /// Returns a network of sites and trunks, with the TCP defaults of Linux.
    pub fn sites(sites: Vec<Site>, trunks: Vec<Trunk>) -> Self {
        Self { topology: Topology::Sites { sites, trunks }, tcp: Tcp::default(), cut: Cut::Whole }
    }

    /// Draws a network for any number of hosts.
    pub(super) fn draw(rng: &mut Rng, calm: bool) -> Self {
        let delay_max = Duration::from_micros(*pick(rng, &[10, 200, 5_000, 50_000]));
        // Without faults nothing may time out, so the window must carry a megabyte in time.
        let window = if calm {
            *pick(rng, &[256 << 10, 1 << 20, 8 << 20])
        } else {
            *pick(rng, &[5_000, 64 << 10, 1 << 20, 8 << 20])
        };
        let cut = match rng.below(4) {
            0 => Cut::Whole,
            1 => Cut::Pieces(7),
            2 => Cut::Pieces(64),
            _ => Cut::Pieces(1460),
        };
        let rate_mbps = if calm { 10_000 } else { *pick(rng, &[50, 1_000, 10_000, 100_000]) };
        let jitter = delay_max / *pick(rng, &[1, 10, 1000]);
        let line = Line { jitter, ..Line::new(rate_mbps, delay_max) };
        let topology = if rng.one_in(3) {
            Topology::draw_sites(rng, calm, &line)
        } else {
            Topology::Mesh { cable: line, delay_min: delay_max / 4, delay_max }
        };
        Self { topology, tcp: Tcp::draw(rng).with_buffers(window), cut }
    }
}

impl Topology {
    /// Draws two sites with two trunks similar to `line`.
    fn draw_sites(rng: &mut Rng, calm: bool, line: &Line) -> Self {
        let cable = Line::new(10_000, Duration::from_micros(rng.between(1, 50)));
        let site = |hosts: Range<u32>| {
            let first = Site::of(hosts.clone(), cable.clone());
            (1..PORTS_MAX).fold(first, |site, n| site.and(hosts.clone(), n, cable.clone()))
        };
        let first = rng.between(1, 3) as u32;
        let sites = vec![site(0..first), site(first..u32::MAX)];
        let losses: &[u32] =
            if calm { &[0, 0, 10_000] } else { &[0, 10_000, 1_000_000, 10_000_000] };
        let queues = if calm { &[u64::MAX, 4 << 20] } else { &[u64::MAX, 256 << 10] };
        let mut trunk = || Trunk {
            between: (0, 1),
            line: Line {
                loss_ppb: *pick(rng, losses),
                queue: *pick(rng, queues),
                duplex: if rng.one_in(4) { Duplex::Half } else { Duplex::Full },
                ..line.clone()
            },
        };
        let trunks = vec![trunk(), trunk()];
        Self::Sites { sites, trunks }
    }
}

impl Tcp {
    /// Draws the TCP settings except buffers. Most runs skip slow start to save time.
    fn draw(rng: &mut Rng) -> Self {
        Self {
            congestion: *pick(rng, &[Control::Cubic, Control::Cubic, Control::Bbr, Control::Reno]),
            mtu: *pick(rng, &[1500, 9000]),
            initial_window: *pick(rng, &[10, 1_000, 1_000, 1_000]),
            ..Self::default()
        }
    }
}

impl Topology {
    /// Limits the delay between two hosts to `longest`, and sets the jitter to `late`.
    pub(super) fn spread(&mut self, longest: Duration, late: Duration) {
        match self {
            Self::Mesh { cable, delay_min, delay_max } => {
                (*delay_min, *delay_max) = (longest / 4, longest);
                cable.jitter = late;
            }
            Self::Sites { sites, trunks } => {
                for ports in sites.iter_mut().flat_map(|site| &mut site.ports) {
                    ports.cable.delay = longest / 4;
                }
                for Trunk { line, .. } in trunks {
                    (line.delay, line.jitter) = (longest / 2, late);
                }
            }
        }
    }
}

impl Site {
    /// Returns a site with the first interface of each host, with equal cables.
    pub fn of(hosts: Range<u32>, cable: Line) -> Self {
        Self { ports: vec![Ports { hosts, index: 0, cable }] }
    }

    /// Adds one more interface of some hosts.
    pub fn and(mut self, hosts: Range<u32>, index: u8, cable: Line) -> Self {
        self.ports.push(Ports { hosts, index, cable });
        self
    }

    /// Returns the cable of an interface, if it is connected to this switch.
    pub fn cable(&self, port: Port) -> Option<&Line> {
        let Port { host: HostId(host), index } = port;
        let found = self.ports.iter().find(|p| p.index == index && p.hosts.contains(&host));
        found.map(|ports| &ports.cable)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.topology {
            Topology::Mesh { cable, delay_min, delay_max } => {
                let (least, most) = (duration(*delay_min), duration(*delay_max));
                write!(f, "{cable}, between two nodes {least} to {most}")?;
            }
            Topology::Sites { sites, trunks } => {
                write!(f, "{} sites", sites.len())?;
                for ports in sites.iter().filter_map(|site| site.ports.first()) {
                    let Ports { hosts, cable, .. } = ports;
                    write!(f, "; from n{} on {cable}", hosts.start)?;
                }
                for Trunk { between: (one, other), line } in trunks {
                    write!(f, "; trunk {one}-{other} {line}")?;
                }
            }
        }
        let Tcp { read_buffer, write_buffer, congestion, mtu, initial_window, .. } = &self.tcp;
        write!(
            f,
            ", {}, buffers {read_buffer} and {write_buffer}, MTU {mtu}, initial window \
             {initial_window}, {}",
            congestion.name(),
            match self.cut {
                Cut::Whole => "not cut".to_owned(),
                Cut::Pieces(most) => format!("cut into pieces of up to {most}"),
            }
        )
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate_mbps, delay, jitter, loss_ppb, queue, duplex } = self;
        let (delay, jitter) = (duration(*delay), duration(*jitter));
        write!(f, "{rate_mbps} Mbit/s, delay {delay}, jitter {jitter}")?;
        if *loss_ppb > 0 {
            write!(f, ", loss {loss_ppb} ppb")?;
        }
        if *queue < u64::MAX {
            write!(f, ", queue {queue}")?;
        }
        if *duplex == Duplex::Half {
            write!(f, ", half duplex")?;
        }
        Ok(())
    }
}

/// Most interfaces of a host in a drawn network.
const PORTS_MAX: u8 = 8;
/// Headers of IPv4 and of TCP with timestamps.
const HEADERS: u32 = 20 + 32;
/// Header, checksum, preamble and gap.
const ETHERNET: u32 = 14 + 4 + 8 + 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_cost_one_percent_of_jumbo_packets_and_six_of_small_ones() {
        let jumbo = Tcp { mtu: 9000, ..Tcp::default() };
        assert_eq!((jumbo.segment(), jumbo.on_wire(8948), jumbo.on_wire(8949)), (8948, 9038, 9129));
        let plain = Tcp::default();
        assert_eq!((plain.segment(), plain.on_wire(1448), plain.on_wire(0)), (1448, 1538, 90));
        assert_eq!(plain.packets(1 << 20), 725);
    }

    #[test]
    fn an_interface_is_found_at_its_switch() {
        let fast = Line::new(100_000, Duration::ZERO);
        let slow = Line::new(10_000, Duration::ZERO);
        let site = Site::of(0..4, slow.clone()).and(3..4, 1, fast.clone());
        let port = |host, index| Port { host: HostId(host), index };
        assert_eq!(site.cable(port(3, 0)), Some(&slow));
        assert_eq!(site.cable(port(3, 1)), Some(&fast));
        assert_eq!(site.cable(port(2, 1)), None);
    }
}
