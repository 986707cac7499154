//! `/metrics`: the counters of a node, for Prometheus.

use std::fmt;

use fulmar_base::Errno;
use fulmar_lnet::views::{ByType, PeerNi, Pool, Quantiles, Traffic, Transit};
use fulmar_top::Target;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::error::AdminError;
use super::live;
use super::operations::{
    Admin, Counters, NetShow, PeerShow, RouteShow, RoutersShow, RoutingShow, StatsShow,
};
use crate::show::{Net, Ni, POOLS, Peer, Route, Router, Routing, SocklndCounters, Stats};

/// The content type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How many NIDs of peers have metrics of their own: those of the peers that have been known
/// longest. What one NID has is 3 kB of text.
const PEER_NIDS_MAX: usize = 4096;

/// Returns all metrics of the node; of one that has failed only that.
pub(super) fn scrape(admin: &dyn Admin) -> Result<String, AdminError> {
    if admin.failure().is_some() {
        return encoded(FailureMetrics);
    }
    let scrape = Scrape {
        nets: admin.net_show(NetShow::default())?,
        peers: admin.peer_show(PeerShow::default())?,
        stats: admin.stats_show(StatsShow {})?,
        routes: admin.route_show(RouteShow {})?,
        routers: admin.routers_show(RoutersShow {})?,
        routing: admin.routing_show(RoutingShow {})?,
        socklnd: admin.socklnd_counters(Counters {})?,
        targets: live::targets(admin)?,
        resident_bytes: resident_bytes(),
    };
    // The failure may have been in the middle of that.
    if admin.failure().is_some() { encoded(FailureMetrics) } else { encoded(scrape) }
}

fn encoded(metrics: impl Collector) -> Result<String, AdminError> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .map_err(|error| AdminError::new(Errno::EIO, format!("cannot write metrics: {error}")))?;
    Ok(text)
}

/// Returns the resident memory of this process, if it is known.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The metrics of a node that has failed.
#[derive(Debug)]
struct FailureMetrics;

impl Collector for FailureMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        Out { encoder }.failed(true)
    }
}

#[derive(Debug)]
struct Scrape {
    nets: Vec<Net>,
    peers: Vec<Peer>,
    stats: Stats,
    routes: Vec<Route>,
    routers: Vec<Router>,
    routing: Routing,
    socklnd: SocklndCounters,
    targets: Vec<Target>,
    resident_bytes: Option<u64>,
}

/// Labels with their values.
type Labels = Vec<(&'static str, String)>;
/// The name of a gauge, its description, and its value.
type Gauge<T> = (&'static str, &'static str, fn(&T) -> i64);

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out { encoder };
        out.failed(false)?;
        self.node(&mut out)?;
        self.nis(&mut out)?;
        self.peer_nis(&mut out)?;
        self.routes(&mut out)?;
        self.router(&mut out)?;
        self.targets(&mut out)?;
        for (name, help, value) in self.socklnd.named() {
            out.counters(&format!("fulmar_socklnd_{name}"), help.trim(), [(vec![], value)])?;
        }
        if let Some(bytes) = self.resident_bytes {
            let one = [(vec![], bytes as i64)];
            out.gauges("process_resident_memory_bytes", "Resident memory of the process.", one)?;
        }
        Ok(())
    }
}

impl Scrape {
    fn node(&self, out: &mut Out<'_>) -> fmt::Result {
        let s = &self.stats;
        out.gauges(
            "fulmar_messages_active",
            "Messages in flight.",
            [(vec![], s.msgs_alloc as i64)],
        )?;
        let max = [(vec![], s.msgs_max as i64)];
        out.gauges("fulmar_messages_active_max", "The most messages ever in flight.", max)?;
        let by = |direction: &str, n| (vec![("direction", direction.to_owned())], n);
        let messages =
            [("sent", s.send_count), ("received", s.recv_count), ("routed", s.route_count)];
        out.counters("fulmar_messages", "Messages.", messages.map(|(d, n)| by(d, n)))?;
        let bytes =
            [("sent", s.send_length), ("received", s.recv_length), ("routed", s.route_length)];
        out.counters("fulmar_payload_bytes", "Payload bytes.", bytes.map(|(d, n)| by(d, n)))?;
        out.counters("fulmar_dropped_messages", "Messages dropped.", [(vec![], s.drop_count)])?;
        out.counters("fulmar_dropped_bytes", "Payload bytes dropped.", [(vec![], s.drop_length)])?;
        out.counters("fulmar_message_errors", "Messages that failed.", [(vec![], s.errors)])?;
        let lost = [(vec![], s.response_timeout_count)];
        out.counters("fulmar_response_timeouts", "Responses that did not arrive in time.", lost)?;
        out.counters("fulmar_resends", "Messages sent again.", [(vec![], s.resend_count)])
    }

    fn nis(&self, out: &mut Out<'_>) -> fmt::Result {
        let nis = || self.nets.iter().flat_map(|net| &net.nis);
        let labels = |ni: &Ni| vec![("nid", ni.view.nid.to_string())];
        let gauges: [Gauge<Ni>; 5] = [
            ("fulmar_ni_up", "1 if the interface is up.", |ni| ni.view.up.into()),
            ("fulmar_ni_credits", "Free credits; if negative, waiting messages.", |ni| {
                ni.view.credits
            }),
            ("fulmar_ni_credits_min", "The fewest free credits ever.", |ni| ni.view.credits_min),
            ("fulmar_ni_credits_max", "The credits of the interface.", |ni| ni.view.credits_max),
            ("fulmar_ni_health", "The health of the interface, 1000 at best.", |ni| {
                ni.view.health.value.into()
            }),
        ];
        for (name, help, value) in gauges {
            out.gauges(name, help, nis().map(|ni| (labels(ni), value(ni))))?;
        }
        let failures = nis().flat_map(|ni| {
            let h = &ni.view.health;
            let classes = [
                ("interrupt", h.interrupts),
                ("dropped", h.dropped),
                ("aborted", h.aborted),
                ("no_route", h.no_route),
                ("timeout", h.timeouts),
                ("error", h.error),
            ];
            classes.map(|(class, n)| of_class(labels(ni), class, n))
        });
        out.counters("fulmar_ni_failures", "Failures attributed to the interface.", failures)?;
        out.traffic("fulmar_ni", || nis().map(|ni| (labels(ni), &ni.view.traffic)))
    }

    fn peer_nis(&self, out: &mut Out<'_>) -> fmt::Result {
        let all = || self.peers.iter().flat_map(|peer| peer.nis.iter().map(move |ni| (peer, ni)));
        let count = all().count() as i64;
        let help = "NIDs of peers. Those beyond 4096 have no other metrics.";
        out.gauges("fulmar_peer_nids", help, [(vec![], count)])?;
        let nis = || all().take(PEER_NIDS_MAX);
        let labels = |(peer, ni): (&Peer, &PeerNi)| {
            vec![("peer", peer.primary.to_string()), ("nid", ni.nid.to_string())]
        };
        let gauges: [Gauge<PeerNi>; 6] = [
            ("fulmar_peer_credits", "Free credits; if negative, waiting messages.", |ni| {
                ni.credits
            }),
            ("fulmar_peer_credits_min", "The fewest free credits ever.", |ni| ni.credits_min),
            ("fulmar_peer_credits_max", "The credits of the peer.", |ni| ni.credits_max),
            (
                "fulmar_peer_router_credits",
                "Messages that may be forwarded from the peer; if negative, waiting ones.",
                |ni| ni.router_credits,
            ),
            ("fulmar_peer_queued_bytes", "Bytes in flight to the peer or waiting.", |ni| {
                ni.queued_bytes as i64
            }),
            ("fulmar_peer_health", "The health of the peer, 1000 at best.", |ni| {
                ni.health.value.into()
            }),
        ];
        for (name, help, value) in gauges {
            out.gauges(name, help, nis().map(|both| (labels(both), value(both.1))))?;
        }
        let failures = nis().flat_map(|both| {
            let h = &both.1.health;
            let classes = [
                ("dropped", h.dropped),
                ("timeout", h.timeouts),
                ("error", h.error),
                ("network_timeout", h.network_timeout),
            ];
            classes.map(|(class, n)| of_class(labels(both), class, n))
        });
        out.counters("fulmar_peer_failures", "Failures attributed to the peer.", failures)?;
        out.traffic("fulmar_peer", || nis().map(|both| (labels(both), &both.1.traffic)))
    }

    fn routes(&self, out: &mut Out<'_>) -> fmt::Result {
        let labels = |route: &Route| {
            vec![("net", route.net.to_string()), ("gateway", route.gateway.to_string())]
        };
        let routes = || self.routes.iter();
        let up = routes().map(|route| (labels(route), route.up.into()));
        out.gauges("fulmar_route_up", "1 if the route is usable.", up)?;
        let messages = routes().map(|route| (labels(route), route.messages));
        out.counters("fulmar_route_messages", "Messages sent on the route.", messages)?;
        let help = "The time from request to response on the route in nanoseconds.";
        let latency = routes().map(|route| (labels(route), &route.latency));
        out.delays("fulmar_route_latency_nanoseconds", help, latency)?;
        let alive = self.routers.iter();
        let alive = alive.map(|r| (vec![("nid", r.nid.to_string())], r.alive.into()));
        out.gauges("fulmar_router_alive", "1 if the gateway is alive.", alive)
    }

    /// The metrics of a router; none for a node that never was one.
    fn router(&self, out: &mut Out<'_>) -> fmt::Result {
        if !self.routing.is_known() {
            return Ok(());
        }
        let on = [(vec![("state", self.routing.state.to_string())], 1)];
        out.gauges("fulmar_routing_state", "Whether messages for others are forwarded.", on)?;
        let gauges: [Gauge<Pool>; 4] = [
            ("fulmar_router_buffers", "The maximum number of router buffers.", |pool| {
                pool.buffers.into()
            }),
            ("fulmar_router_buffers_allocated", "Router buffers that have memory.", |pool| {
                pool.allocated.into()
            }),
            (
                "fulmar_router_buffer_credits",
                "Free router buffers; if negative, waiting messages.",
                |pool| pool.credits,
            ),
            ("fulmar_router_buffer_credits_min", "The fewest free router buffers ever.", |pool| {
                pool.credits_min
            }),
        ];
        for (name, help, value) in gauges {
            let pools = POOLS.into_iter().zip(&self.routing.pools);
            let labelled =
                pools.map(|(pool, counts)| (vec![("pool", pool.to_owned())], value(counts)));
            out.gauges(name, help, labelled)?;
        }
        let labels = |t: &Transit| vec![("from", t.from.to_string()), ("to", t.to.to_string())];
        let transits = || self.routing.transits.iter();
        let messages = transits().map(|t| (labels(t), t.messages));
        out.counters("fulmar_forwarded_messages", "Messages forwarded.", messages)?;
        let bytes = transits().map(|t| (labels(t), t.bytes));
        out.counters("fulmar_forwarded_bytes", "Payload bytes forwarded.", bytes)?;
        let help = "The time from receiving to sending a forwarded message in nanoseconds.";
        let latency = transits().map(|t| (labels(t), &t.latency));
        out.delays("fulmar_forwarding_latency_nanoseconds", help, latency)
    }
}

/// Targets, named as in `lctl dl`.
impl Scrape {
    fn targets(&self, out: &mut Out<'_>) -> fmt::Result {
        let labels = |one: &Target| vec![("target", one.name.clone())];
        let gauges: [Gauge<Target>; 7] = [
            ("fulmar_target_served", "1 if the target is served.", |one| {
                one.error.is_none().into()
            }),
            ("fulmar_target_clients", "Clients that are connected, also other targets.", |one| {
                one.clients as i64
            }),
            ("fulmar_target_requests", "Requests that are executed.", |one| one.in_hand as i64),
            ("fulmar_target_requests_queued", "Requests that wait to be executed.", |one| {
                one.queued as i64
            }),
            ("fulmar_target_locks", "Locks that are granted or waited for.", |one| {
                one.locks.unwrap_or(0) as i64
            }),
            ("fulmar_target_locks_waiting", "Locks that are waited for.", |one| {
                one.locks_waiting().unwrap_or(0) as i64
            }),
            ("fulmar_target_granted_bytes", "What clients may write without asking.", |one| {
                one.granted as i64
            }),
        ];
        for (name, help, value) in gauges {
            out.gauges(name, help, self.targets.iter().map(|one| (labels(one), value(one))))?;
        }
        let sizes: [Gauge<Target>; 2] = [
            ("fulmar_target_size_bytes", "The size of the target.", |one| one.size_kib as i64),
            ("fulmar_target_free_bytes", "What of it is free.", |one| one.free_kib as i64),
        ];
        for (name, help, kib) in sizes {
            let with_size = self.targets.iter().filter(|one| one.size_kib > 0);
            out.gauges(
                name,
                help,
                with_size.map(|one| (labels(one), kib(one).saturating_mul(1024))),
            )?;
        }
        let counted = |with_bytes: bool| {
            let all =
                self.targets.iter().flat_map(|one| one.counters.iter().map(move |n| (one, n)));
            all.filter(move |(_, counter)| counter.name.ends_with("_bytes") == with_bytes)
        };
        let bytes = counted(true).map(|(one, counter)| {
            let direction = counter.name.trim_end_matches("_bytes").to_owned();
            ([labels(one), vec![("direction", direction)]].concat(), counter.sum)
        });
        out.counters("fulmar_target_bytes", "Bytes read and written by clients.", bytes)?;
        let operations = counted(false).map(|(one, counter)| {
            ([labels(one), vec![("operation", counter.name.clone())]].concat(), counter.samples)
        });
        out.counters("fulmar_target_operations", "Operations for clients.", operations)?;
        let times = counted(false).map(|(one, counter)| {
            ([labels(one), vec![("operation", counter.name.clone())]].concat(), counter.sum)
        });
        out.counters("fulmar_target_microseconds", "The time that they took.", times)
    }
}

fn of_class(mut labels: Labels, class: &str, n: u32) -> (Labels, u64) {
    labels.push(("class", class.to_owned()));
    (labels, n.into())
}

struct Out<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Out<'_> {
    fn failed(&mut self, failed: bool) -> fmt::Result {
        let help = "1 if the node has failed: then its process is about to end.";
        self.gauges("fulmar_node_failed", help, [(vec![], failed.into())])
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, i64)>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            if labels.is_empty() {
                return ConstGauge::new(value).encode(metric);
            }
            ConstGauge::new(value).encode(metric.encode_family(&labels.as_slice())?)?;
        }
        Ok(())
    }

    /// The encoder adds `_total` to the name.
    fn counters(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            if labels.is_empty() {
                return ConstCounter::new(value).encode(metric);
            }
            ConstCounter::new(value).encode(metric.encode_family(&labels.as_slice())?)?;
        }
        Ok(())
    }

    /// Quantiles of a latency.
    fn delays<'d>(
        &mut self,
        name: &str,
        help: &str,
        all: impl Iterator<Item = (Labels, &'d Quantiles)>,
    ) -> fmt::Result {
        let quantiles = all.flat_map(|(labels, d)| {
            [("0.5", d.p50_nsec), ("0.9", d.p90_nsec), ("0.99", d.p99_nsec), ("1", d.max_nsec)].map(
                |(quantile, nsec)| {
                    let mut labels = labels.clone();
                    labels.push(("quantile", quantile.to_owned()));
                    (labels, nsec as i64)
                },
            )
        });
        self.gauges(name, help, quantiles)
    }

    /// Messages by direction and type, and latencies.
    fn traffic<'t, I>(&mut self, prefix: &str, all: impl Fn() -> I) -> fmt::Result
    where
        I: Iterator<Item = (Labels, &'t Traffic)>,
    {
        let direction = |labels: &Labels, name: &str, counts: &ByType| {
            let with = |(kind, n): (&str, u64)| {
                let mut labels = labels.clone();
                labels.push(("direction", name.to_owned()));
                labels.push(("type", kind.to_owned()));
                (labels, n)
            };
            counts.named().map(with)
        };
        let messages = all().flat_map(|(labels, traffic)| {
            [
                ("sent", &traffic.sent),
                ("received", &traffic.received),
                ("dropped", &traffic.dropped),
            ]
            .map(|(name, counts)| direction(&labels, name, counts))
            .into_iter()
            .flatten()
        });
        self.counters(&format!("{prefix}_messages"), "Messages by direction and type.", messages)?;
        let latencies = |traffic: &Traffic| {
            [
                ("put_egress", traffic.put_egress),
                ("get_rtt", traffic.get_rtt),
                ("put_ack", traffic.put_ack),
            ]
        };
        let averages = all().flat_map(|(labels, traffic)| {
            latencies(traffic).map(|(operation, latency)| {
                let mut labels = labels.clone();
                labels.push(("operation", operation.to_owned()));
                (labels, latency.avg_nsec() as i64)
            })
        });
        let help = "The mean time of an operation in nanoseconds; 0 before the first.";
        self.gauges(&format!("{prefix}_latency_nanoseconds"), help, averages)
    }
}
