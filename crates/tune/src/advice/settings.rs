//! All settings with their reasons, and warnings.

use fulmar_text::{bit_rate, bytes, count, duration, percent};

use super::plan::{self, Congestion, Plan, usual};
use super::{Advice, Place, Setting, Site, Without};
use crate::model::{Bound, Hold, Kind, Load, Settings, cubic_window, predict, segment_bytes};

/// Below this part of the line a warning gives the reason.
const FULL: f64 = 0.95;
/// Smaller differences are ignored.
const SAME: f64 = 0.98;

/// The list of settings and the values that it is computed from.
struct List<'a> {
    site: &'a Site,
    plan: &'a Plan,
    load: &'a Load,
    model: &'a Settings,
    settings: Vec<Setting>,
}

pub(super) fn all(site: &Site, plan: &Plan, load: &Load, model: &Settings) -> Vec<Setting> {
    let mut list = List { site, plan, load, model, settings: Vec::new() };
    list.interface();
    if site.routers > 0 {
        list.routers();
    }
    match site.kind {
        Kind::Selftest => list.selftest(),
        Kind::Lustre => list.lustre(),
    }
    list.tcp();
    list.device();
    list.settings
}

impl List<'_> {
    fn add(
        &mut self,
        place: Place,
        name: &'static str,
        usual: impl ToString,
        advised: impl ToString,
        why: impl Into<String>,
    ) -> &mut Setting {
        let (usual, advised) = (usual.to_string(), advised.to_string());
        self.settings.push(Setting { name, place, usual, advised, why: why.into(), without: None });
        self.settings.last_mut().expect("one was added")
    }

    /// Returns the prediction with other settings or another load, if it is lower.
    fn without(&self, model: Settings, load: Load) -> Option<Without> {
        let prediction = predict(&self.site.path(), &load, &model);
        let (bytes_per_second, bound) = (prediction.bytes_per_second, prediction.bound);
        (bytes_per_second < self.full_rate()).then_some(Without { bytes_per_second, bound })
    }

    /// Returns the limit below which a prediction is worse than that of the advice.
    fn full_rate(&self) -> f64 {
        predict(&self.site.path(), self.load, self.model).bytes_per_second * SAME
    }

    fn flight_text(&self) -> String {
        let Self { site, plan, .. } = self;
        let rate = bit_rate(8. * site.rate() as f64);
        let trips = plan.in_flight as f64 / plan::HEADROOM / site.rate().max(1) as f64;
        let time = duration(std::time::Duration::from_secs_f64(trips / plan.scale));
        let scale = if plan.scale < 1. { format!(" x {:.2}", plan.scale) } else { String::new() };
        format!("{rate} x {time} x {}{scale} = {}", plan::HEADROOM, bytes(plan.in_flight))
    }

    fn interface(&mut self) {
        let Self { site, plan, load, model, .. } = *self;
        let messages = u64::from(plan.concurrency) * load.messages();
        let less = Settings { peer_credits: usual::PEER_CREDITS, ..*model };
        let without = self.without(less, *load);
        let held = match model.hold {
            Hold::Written => "small messages must not wait for them",
            Hold::RoundTrip => "each holds its credit for a round trip",
        };
        let why = match site.routers {
            0 => format!("{} of 1 MiB to a peer: {held}", count(messages, "message")),
            routers => format!(
                "{} x {messages} messages over {routers} x {routers} routers: {held}",
                count(site.nodes.max(1), "pair")
            ),
        };
        let place = Place::Interface;
        self.add(place, "peer_credits", usual::PEER_CREDITS, plan.peer_credits, why).without =
            without;
        let without = self.without(Settings { credits: usual::CREDITS, ..*model }, *load);
        let hops = site.routers.max(1);
        let why = format!("{} peer_credits x {} at once", plan.peer_credits, count(hops, "peer"));
        self.add(place, "credits", usual::CREDITS, plan.credits, why).without = without;
        let mut why = match site.connections {
            Some(_) => "as given".to_owned(),
            None => "by speed, as LNet from 2.15 on; no window above 1 GiB".to_owned(),
        };
        let socket_buffer = plan::under_way(site, plan.congestion, 1, [plan.tcp_buffer; 2]);
        let one = Settings { bulk_connections: 1, socket_buffer, ..*model };
        let one = predict(&site.path(), load, &one);
        if one.bytes_per_second < self.full_rate() {
            why += &format!("; one would carry {}", bit_rate(8. * one.bytes_per_second));
        }
        self.add(place, "conns_per_peer", "by speed", plan.conns_per_peer, why);
        if plan::is_kernel(site) {
            let why = "one thread copies about 10 Gbit/s: a rule of thumb, for each CPU partition";
            self.add(place, "nscheds", "0 (auto)", plan.nscheds.max(6), why);
            let why = "16 KiB and more is sent without a copy, and its credit is held for a \
                       round trip; with 2097152 it is copied, and not held";
            self.add(place, "zc_min_payload", 16_384, 16_384, why);
            for name in ["tx_buffer_size", "rx_buffer_size"] {
                self.add(place, name, 0, 0, "TCP chooses the size, up to tcp_wmem, tcp_rmem");
            }
        }
    }

    fn routers(&mut self) {
        let Self { site, plan, load, .. } = *self;
        let why = "messages of a neighbour in a router: as many as it may send";
        self.add(Place::Interface, "peer_buffer_credits", 0, plan.peer_buffer_credits, why);
        let routers = count(site.routers, "router");
        let pairs = u64::from(site.nodes.max(1));
        let messages = pairs * u64::from(plan.concurrency) * load.messages();
        let small = format!("{messages} requests and replies, both ways / {}", routers);
        let place = Place::Lnet;
        self.add(place, "tiny_router_buffers", usual::TINY_BUFFERS, plan.tiny_buffers, &small[..]);
        self.add(place, "small_router_buffers", usual::SMALL_BUFFERS, plan.small_buffers, small);
        let why = format!("{} in flight / {routers}", bytes(plan.in_flight));
        let large = usual::LARGE_BUFFERS.min(plan.large_buffers);
        let less = site.bounds(*self.model, plan.peer_buffer_credits, large);
        let without = self.without(less, *load);
        self.add(place, "large_router_buffers", usual::LARGE_BUFFERS, plan.large_buffers, why)
            .without = without;
    }

    fn selftest(&mut self) {
        let Self { site, plan, load, model, .. } = *self;
        let need = self.flight_text();
        let pairs = count(site.nodes.max(1), "pair");
        let why = format!("{need} / {pairs} / {}", bytes(plan.rpc_bytes));
        let without = self.without(*model, Load { concurrency: 1, ..*load });
        self.add(Place::Load, "concurrency", 1, plan.concurrency, why).without = without;
        let without = self.without(*model, Load { rpc_bytes: 4096, message_bytes: 4096, ..*load });
        let why = "the largest message of LNet";
        self.add(Place::Load, "size", "4K", "1M", why).without = without;
    }

    fn lustre(&mut self) {
        let Self { site, plan, load, model, .. } = *self;
        let need = self.flight_text();
        let pairs = count(site.nodes.max(1), "pair");
        let why = format!("{need} / {pairs} / {}", bytes(plan.rpc_bytes));
        let rpcs = usual::LUSTRE_RPCS;
        let without = self.without(*model, Load { concurrency: rpcs, ..*load });
        let place = Place::Lustre;
        self.add(place, "osc.*.max_rpcs_in_flight", rpcs, plan.concurrency, why).without = without;
        let mib = plan.rpc_bytes >> 20;
        let why = "so that about 64 RPCs in flight suffice; servers must offer it by brw_size";
        let without = self.without(*model, Load { rpc_bytes: usual::RPC_BYTES, ..*load });
        self.add(place, "osc.*.max_pages_per_rpc", "4M", format!("{mib}M"), why).without = without;
        self.add(
            place,
            "obdfilter.*.brw_size",
            4,
            mib,
            "on servers, before clients connect, in MiB",
        );
        let flight = format!("{} RPCs x {mib} MiB of one target", plan.concurrency);
        let dirty = format!("{flight}, if that is more than the default");
        let usual_dirty = usual::dirty_mb(site.memory);
        self.add(place, "osc.*.max_dirty_mb", usual_dirty, plan.dirty_mb, &dirty[..]);
        let (file, usual_file) = (plan.read_ahead_mb, usual::READ_AHEAD_MB);
        self.add(place, "llite.*.max_read_ahead_per_file_mb", usual_file, file, dirty);
        let total = file.saturating_mul(2).max(1024);
        let why = "for two such files; at most half of the memory";
        self.add(place, "llite.*.max_read_ahead_mb", 1024, total, why);
    }

    fn tcp(&mut self) {
        let Self { site, plan, load, model, .. } = *self;
        let limit = plan.tcp_buffer;
        let place = Place::Sysctl;
        let why = format!(
            "{} x the {} of a pair alone / {}, and as much for kernel overhead",
            plan::windows(plan.congestion),
            bytes(plan::alone(site)),
            count(plan.conns_per_peer, "connection")
        );
        let window = |rmem, wmem| {
            let socket_buffer =
                plan::under_way(site, plan.congestion, plan.conns_per_peer, [rmem, wmem]);
            Settings { socket_buffer, ..*model }
        };
        let less = self.without(window(usual::TCP_RMEM, limit), *load);
        let (usual_rmem, rmem) = (usual::TCP_RMEM, format!("4096 131072 {limit}"));
        self.add(place, RMEM, format!("4096 131072 {usual_rmem}"), rmem, &why[..]).without = less;
        let less = self.without(window(limit, usual::TCP_WMEM), *load);
        let (usual_wmem, wmem) = (usual::TCP_WMEM, format!("4096 65536 {limit}"));
        let why = "the same for the sender";
        self.add(place, WMEM, format!("4096 16384 {usual_wmem}"), wmem, why).without = less;
        for name in ["net.core.rmem_max", "net.core.wmem_max"] {
            let why = "for programs that set their buffers, such as iperf3 -w";
            self.add(place, name, usual::CORE_MEM, limit, why);
        }
        let congestion = plan.congestion;
        let why = self.congestion_text(congestion);
        self.add(place, "net.ipv4.tcp_congestion_control", "cubic", congestion.name(), why);
        let why = "a queue for each flow, and packets spread over time instead of in bursts";
        self.add(place, "net.core.default_qdisc", "pfifo_fast", "fq", why);
        let why = format!("{} packets: those of 20 ms without a free processor", plan.backlog);
        self.add(place, "net.core.netdev_max_backlog", usual::BACKLOG, plan.backlog, why);
        let why = "detects paths that silently drop large packets";
        self.add(place, "net.ipv4.tcp_mtu_probing", 0, 1, why);
        let why = "a pause does not reset the window: opening it takes many round trips";
        self.add(place, "net.ipv4.tcp_slow_start_after_idle", 1, 0, why);
        let why = "earlier losses do not slow the next connection";
        self.add(place, "net.ipv4.tcp_no_metrics_save", 0, 1, why);
        for name in ["window_scaling", "timestamps", "sack"] {
            let (name, why) = match name {
                "window_scaling" => ("net.ipv4.tcp_window_scaling", "windows above 64 KiB"),
                "timestamps" => ("net.ipv4.tcp_timestamps", "sequence numbers wrap in a second"),
                _ => ("net.ipv4.tcp_sack", "several losses are repaired in one round trip"),
            };
            self.add(place, name, 1, 1, why);
        }
        self.tcp_memory();
    }

    fn congestion_text(&self, congestion: Congestion) -> String {
        let Self { site, plan, .. } = self;
        let needed = plan::alone(site) / u64::from(plan.conns_per_peer.max(1));
        let limit = plan::cubic_loss_max(site, needed);
        match (site.loss, congestion) {
            (Some(loss), Congestion::Bbr) => {
                let has = cubic_window(segment_bytes(site.mtu), site.rtt, loss);
                let (has, needed) = (bytes(has), bytes(needed));
                format!("with a loss of {loss:e} CUBIC keeps {has} in flight, of {needed} needed")
            }
            (None, Congestion::Bbr) => {
                let needed = bytes(needed);
                format!(
                    "CUBIC keeps {needed} in flight only below {limit:.1e} loss; without loss, \
                     use --loss 0: BBR needs some percent of the line for its probes"
                )
            }
            (Some(_), Congestion::Cubic) => format!("losses are below {limit:.1e}"),
            (None, Congestion::Cubic) => "the path is short".into(),
        }
    }

    /// Adds the kernel's limit of all sockets, about a tenth of the memory, if they may need more.
    fn tcp_memory(&mut self) {
        let Self { site, plan, .. } = *self;
        let flight = u64::from(plan.concurrency) * plan.rpc_bytes;
        let sockets = 2 * (u64::from(plan.conns_per_peer) * plan.tcp_buffer).min(2 * flight);
        if site.memory.is_none_or(|memory| sockets < memory / 16) {
            return;
        }
        let pages = 2 * sockets / 4096;
        let advised = format!("{} {pages} {}", pages / 4 * 3, pages / 2 * 3);
        let why = format!("pages: above the second, windows shrink; twice {}", bytes(sockets));
        self.add(Place::Sysctl, "net.ipv4.tcp_mem", "by memory", advised, why);
    }

    fn device(&mut self) {
        let Self { site, plan, .. } = *self;
        let why = match site.mtu {
            0..9000 => "as given; 9000 saves headers, and 5 of 6 packets for processors",
            _ => "also on every switch and router of the path",
        };
        self.add(Place::Device, "mtu", 1500, site.mtu, why);
        let why = "10 ms of packets, for interfaces without fq";
        self.add(Place::Device, "txqueuelen", usual::TX_QUEUE, plan.tx_queue, why);
        let why = "default_qdisc applies only to devices that are created later";
        self.add(Place::Device, "qdisc", "pfifo_fast", "fq", why);
    }
}

const RMEM: &str = "net.ipv4.tcp_rmem";
const WMEM: &str = "net.ipv4.tcp_wmem";

pub(super) fn warnings(advice: &Advice) -> Vec<String> {
    let Advice { site, plan, prediction, memory, path, .. } = advice;
    let mut warnings = Vec::new();
    let part = prediction.bytes_per_second / site.rate().max(1) as f64;
    if let Some(limit) = memory.limit
        && plan.scale < 1.
    {
        warnings.push(format!(
            "half of the memory is {}: all settings are reduced to {:.0} %, and the line \
             carries {}",
            bytes(limit),
            plan.scale * 100.,
            bit_rate(8. * prediction.bytes_per_second)
        ));
    } else if part < FULL && prediction.bound == Bound::Concurrency {
        let pairs = (f64::from(site.nodes.max(1)) / part).ceil();
        let (who, more) = match site.kind {
            Kind::Selftest => ("lst allows no more RPCs in flight for a pair", "pairs of nodes"),
            Kind::Lustre => ("a target allows no more RPCs in flight", "targets"),
        };
        let (n, part) = (plan.concurrency, percent(part));
        warnings.push(format!("{who} than {n}: {part} of the line; {pairs} {more} fill it"));
    } else if part < FULL {
        let (name, part) = (prediction.bound.name(), percent(part));
        warnings.push(format!("{name} leave {part} of the line"));
    }
    if site.rate() < path.rate {
        let (rate, line) = (bit_rate(8. * site.rate() as f64), bit_rate(8. * path.rate as f64));
        warnings.push(format!(
            "{}{} carry {rate} of the line's {line}: the advice is for that rate",
            count(site.nodes.max(1), "node"),
            match site.routers {
                0 => String::new(),
                routers => format!(" and {}", count(routers, "router")),
            }
        ));
    }
    if site.mtu < 9000 {
        warnings.push(format!(
            "packets of {} bytes cost {} of the line in headers, and much processor time",
            site.mtu,
            percent(1. - path.rate as f64 * 8. / site.line_bits.max(1) as f64)
        ));
    }
    warnings
}
