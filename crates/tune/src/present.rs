//! The throughput with present settings.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::advice::Site;
use crate::advice::plan::{Congestion, by_speed, connections, under_way, usual};
use crate::model::{
    Direction, Hold, Kind, Load, MESSAGE_BYTES_MAX, Path, Prediction, Settings, predict,
};

/// Present settings, by the names of [`crate::advice::Setting`]. Missing ones have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Present {
    /// The texts of the values.
    pub values: BTreeMap<String, String>,
    /// The speed of the device in bits per second, by which LNet chooses the number of connections;
    /// `None` if it tells none, or nothing was read.
    pub device_bits: Option<u64>,
}

impl Present {
    /// Stores a setting.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.values.insert(name.to_owned(), value.to_string());
    }

    /// Returns the value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str, usual: T) -> T {
        self.last(name).and_then(|text| text.parse().ok()).unwrap_or(usual)
    }

    /// Returns the last word: the limit of `tcp_rmem`, or a single number.
    fn last(&self, name: &str) -> Option<&str> {
        self.get(name)?.split_whitespace().last()
    }

    /// Returns the settings for the model, on the path of `site`.
    pub fn model(&self, site: &Site) -> Settings {
        let rmem = self.number("net.ipv4.tcp_rmem", usual::TCP_RMEM);
        let wmem = self.number("net.ipv4.tcp_wmem", usual::TCP_WMEM);
        let congestion = match self.get("net.ipv4.tcp_congestion_control") {
            Some("bbr") => Congestion::Bbr,
            _ => Congestion::Cubic,
        };
        let peer_credits = self.number("peer_credits", usual::PEER_CREDITS);
        let bulk_connections = match (self.number("conns_per_peer", 0), self.device_bits) {
            (0, Some(bits)) => by_speed(bits),
            (0, None) => connections(&Site { connections: None, ..*site }),
            (given, _) => given,
        };
        let cache = match (site.kind, site.direction) {
            (Kind::Selftest, _) => None,
            (Kind::Lustre, Direction::Write) => {
                let usual = usual::dirty_mb(site.memory);
                Some(u64::from(self.number("osc.*.max_dirty_mb", usual)) << 20)
            }
            (Kind::Lustre, Direction::Read) => {
                let usual = usual::READ_AHEAD_MB;
                Some(u64::from(self.number("llite.*.max_read_ahead_per_file_mb", usual)) << 20)
            }
        };
        let settings = Settings {
            peer_credits,
            credits: self.number("credits", usual::CREDITS),
            socket_buffer: under_way(site, congestion, bulk_connections, [rmem, wmem]),
            bulk_connections,
            hold: self.hold(site),
            cache,
            nic: None,
            routers: None,
        };
        let large = self.number("large_router_buffers", usual::LARGE_BUFFERS);
        let router_credits = match self.number("peer_buffer_credits", 0) {
            0 => peer_credits,
            given => given,
        };
        site.bounds(settings, router_credits, large)
    }

    /// By default kernel nodes request zero-copy acknowledgements, and Fulmar nodes do not.
    fn hold(&self, site: &Site) -> Hold {
        match self.get("zc_min_payload").and_then(|text| text.parse::<u64>().ok()) {
            Some(least) if least > MESSAGE_BYTES_MAX => Hold::Written,
            Some(1..) => Hold::RoundTrip,
            Some(0) | None => site.whose.hold(),
        }
    }

    /// Predicts the throughput of `load`; for the file system, with the default number of RPCs.
    pub fn predict(&self, site: &Site, load: &Load) -> Prediction {
        let mtu = self.number("mtu", site.mtu).min(site.mtu);
        let path = Path::of_line(site.line_bits, mtu, site.rtt);
        let load = match load.kind {
            Kind::Selftest => *load,
            Kind::Lustre => Load {
                concurrency: self.number("osc.*.max_rpcs_in_flight", usual::LUSTRE_RPCS),
                rpc_bytes: usual::RPC_BYTES,
                ..*load
            },
        };
        predict(&path, &load, &self.model(site))
    }
}
