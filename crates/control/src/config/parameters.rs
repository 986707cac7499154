//! Module parameters: `options lnet accept=all`. Spec: lnet-admin §18.2, §18.3.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lnd::NiTunables;
use fulmar_lnet::{Globals, RouterBuffers, RoutingConfig};
use fulmar_socklnd::{AcceptMode, AcceptNid};

use super::cpts::Pattern;
use super::diagnostic::{Diagnostic, Text};
use super::globals::{self, GlobalKey};

/// A kernel module whose parameters are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Module {
    Libcfs,
    Lnet,
    Ksocklnd,
    LnetSelftest,
}

impl Module {
    const ALL: [Self; 4] = [Self::Libcfs, Self::Lnet, Self::Ksocklnd, Self::LnetSelftest];

    fn name(self) -> &'static str {
        match self {
            Self::Libcfs => "libcfs",
            Self::Lnet => "lnet",
            Self::Ksocklnd => "ksocklnd",
            Self::LnetSelftest => "lnet_selftest",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|module| module.name() == name)
    }

    fn parameters(self) -> &'static [(&'static str, Kind)] {
        match self {
            Self::Libcfs => LIBCFS,
            Self::Lnet => LNET,
            Self::Ksocklnd => KSOCKLND,
            Self::LnetSelftest => LNET_SELFTEST,
        }
    }
}

/// The values of a parameter.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Number(i64, i64),
    OneOf(&'static [&'static str]),
    Cpts,
    AcceptNids,
    Any,
}

use Kind::{AcceptNids, Any, Cpts, Number, OneOf};

const FLAG: Kind = Number(0, 1);
const COUNT: Kind = Number(0, u32::MAX as i64);
const SOME: Kind = Number(1, u32::MAX as i64);
const PORT: Kind = Number(1, u16::MAX as i64);
const SIGNED: Kind = Number(i32::MIN as i64, i32::MAX as i64);

const LIBCFS: &[(&str, Kind)] = &[
    ("cpu_npartitions", COUNT),
    ("cpu_pattern", Cpts),
    ("libcfs_console_backoff", Any),
    ("libcfs_console_max_delay", Any),
    ("libcfs_console_min_delay", Any),
    ("libcfs_console_ratelimit", Any),
    ("libcfs_debug", Any),
    ("libcfs_debug_file_path", Any),
    ("libcfs_debug_mb", Any),
    ("libcfs_panic_on_lbug", Any),
    ("libcfs_printk", Any),
    ("libcfs_subsystem_debug", Any),
];

const LNET: &[(&str, Kind)] = &[
    ("accept", OneOf(&["secure", "all", "none"])),
    ("accept_nid", AcceptNids),
    ("accept_port", PORT),
    ("accept_port_bulk", PORT),
    ("accept_backlog", SOME),
    ("accept_timeout", SOME),
    ("alive_router_check_interval", SIGNED),
    ("auto_down", FLAG),
    ("avoid_asym_router_failure", FLAG),
    ("check_routers_before_use", FLAG),
    ("config_on_load", FLAG),
    ("cpu_npartitions", COUNT),
    ("cpu_pattern", Cpts),
    ("dead_router_check_interval", SIGNED),
    ("enable_sysctl_setup", FLAG),
    ("forwarding", OneOf(&["", "enabled", "disabled"])),
    ("large_router_buffers", COUNT),
    ("live_router_check_interval", SIGNED),
    ("lnet_drop_asym_route", FLAG),
    ("lnet_health_sensitivity", Number(0, 1000)),
    ("lnet_interfaces_max", COUNT),
    ("lnet_max_recovery_ping_interval", SOME),
    ("lnet_numa_range", COUNT),
    ("lnet_peer_discovery_disabled", FLAG),
    ("lnet_recovery_interval", SOME),
    ("lnet_recovery_limit", COUNT),
    ("lnet_response_tracking", Number(0, 3)),
    ("lnet_retry_count", COUNT),
    ("lnet_transaction_timeout", SOME),
    ("local_nid_dist_zero", FLAG),
    ("lock_prim_nid", FLAG),
    ("peer_buffer_credits", COUNT),
    ("portal_rotor", Number(0, 3)),
    ("rnet_htable_size", COUNT),
    ("router_ping_timeout", SOME),
    ("router_sensitivity_percentage", Number(0, 100)),
    ("small_router_buffers", COUNT),
    ("tiny_router_buffers", COUNT),
    ("use_tcp_bonding", FLAG),
];

const KSOCKLND: &[(&str, Kind)] = &[
    ("backoff_init", COUNT),
    ("backoff_max", COUNT),
    ("conns_per_peer", Number(0, 127)),
    ("credits", SOME),
    ("eager_ack", FLAG),
    ("enable_csum", FLAG),
    ("enable_irq_affinity", FLAG),
    ("inject_csum_error", FLAG),
    ("keepalive", COUNT),
    ("keepalive_count", COUNT),
    ("keepalive_idle", COUNT),
    ("keepalive_intvl", COUNT),
    ("max_reconnectms", SOME),
    ("min_bulk", COUNT),
    ("min_reconnectms", SOME),
    ("nagle", FLAG),
    ("nconnds", SOME),
    ("nconnds_max", SOME),
    ("nonblk_zcack", FLAG),
    ("nscheds", COUNT),
    ("peer_buffer_credits", COUNT),
    ("peer_credits", SOME),
    ("peer_timeout", SIGNED),
    ("protocol", Number(1, 4)),
    ("round_robin", FLAG),
    ("rx_buffer_size", COUNT),
    ("skip_mr_route_setup", FLAG),
    ("sock_timeout", COUNT),
    ("tos", Number(-1, 255)),
    ("tx_buffer_size", COUNT),
    ("typed_conns", FLAG),
    ("zc_min_payload", COUNT),
    ("zc_recv", FLAG),
    ("zc_recv_min_nfrags", COUNT),
];

const LNET_SELFTEST: &[(&str, Kind)] = &[
    ("brw_inject_errors", COUNT),
    ("brw_srv_workitems", COUNT),
    ("ping_srv_workitems", COUNT),
    ("rpc_timeout", COUNT),
    ("session_timeout", COUNT),
];

/// Parameters of a kernel that change nothing here: what they choose does not exist, or is not a
/// choice. Those of `libcfs` that begin with its name are about the kernel's log.
const UNUSED: [&str; 31] = [
    "accept_backlog",
    "backoff_init",
    "backoff_max",
    "brw_srv_workitems",
    "config_on_load",
    "eager_ack",
    "enable_irq_affinity",
    "enable_sysctl_setup",
    "inject_csum_error",
    "keepalive_count",
    "keepalive_idle",
    "keepalive_intvl",
    "local_nid_dist_zero",
    "lock_prim_nid",
    "nagle",
    "nconnds",
    "nconnds_max",
    "nonblk_zcack",
    "ping_srv_workitems",
    "portal_rotor",
    "protocol",
    "rnet_htable_size",
    "round_robin",
    "rx_buffer_size",
    "skip_mr_route_setup",
    "tx_buffer_size",
    "typed_conns",
    "use_tcp_bonding",
    "zc_recv",
    "zc_recv_min_nfrags",
    "lnet_recovery_interval",
];

/// The configured parameters, which have been checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    values: BTreeMap<(Module, &'static str), String>,
}

impl Parameters {
    /// Checks and stores a parameter; a later value replaces an earlier one.
    pub(crate) fn set(
        &mut self,
        module: Module,
        name: Text<'_>,
        value: Text<'_>,
    ) -> Result<(), Diagnostic> {
        let table = module.parameters();
        let Some((known, kind)) = table.iter().find(|(known, _)| *known == name.s) else {
            let names: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
            return Err(name.unknown("parameter", &names));
        };
        match kind {
            Number(min, max) => {
                value.number(known, *min, *max)?;
            }
            OneOf(words) if !words.contains(&value.s) => {
                return Err(value.unknown(&format!("value for {known}:"), words));
            }
            Cpts if !value.trim().s.is_empty() => drop(Pattern::parse(value)?),
            AcceptNids => {
                AcceptNid::parse_list(value.s).map_err(|error| value.error(error.to_string()))?;
            }
            OneOf(_) | Cpts | Any => {}
        }
        self.values.insert((module, known), value.s.to_owned());
        Ok(())
    }

    /// Returns those that have no effect on a node: `lnet config_on_load=1`.
    pub fn unused(&self) -> Vec<String> {
        let all = self.values.iter().map(|((module, name), value)| (module, *name, value));
        // Buffers of size 0 are those that the system chooses, as here.
        let is_default = |name: &str, value: &str| name.ends_with("x_buffer_size") && value == "0";
        let unused = all.filter(|(_, name, value)| {
            (UNUSED.contains(name) || name.starts_with("libcfs_")) && !is_default(name, value)
        });
        unused.map(|(module, name, value)| format!("{} {name}={value}", module.name())).collect()
    }

    /// Returns the text of a parameter.
    pub fn text(&self, module: Module, name: &str) -> Option<&str> {
        let mut of_module = self.values.iter().filter(|((m, _), _)| *m == module);
        of_module.find(|((_, n), _)| *n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the names and texts of all parameters.
    pub fn configured(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|((_, name), value)| (*name, value.as_str()))
    }

    /// Returns the number of a parameter.
    pub fn number(&self, module: Module, name: &str) -> Option<i64> {
        let text = self.text(module, name)?;
        match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// Returns the settings of the socket LND.
    pub fn socklnd(&self) -> fulmar_socklnd::Config {
        let lnet = |name| self.number(Module::Lnet, name);
        let sock = |name| self.number(Module::Ksocklnd, name);
        let seconds = |n: i64| Duration::from_secs(n.unsigned_abs());
        let millis = |n: i64| Duration::from_millis(n.unsigned_abs());
        let mut config = fulmar_socklnd::Config::default();
        match self.text(Module::Lnet, "accept") {
            Some("all") => config.accept = AcceptMode::All,
            Some("none") => config.accept = AcceptMode::None,
            _ => {}
        }
        let rules = self.text(Module::Lnet, "accept_nid").unwrap_or_default();
        config.accept_nid = AcceptNid::parse_list(rules).expect("checked when it was set");
        config.accept_port = lnet("accept_port").map_or(config.accept_port, |n| n as u16);
        config.accept_port_bulk = lnet("accept_port_bulk").map(|n| n as u16);
        config.accept_timeout = lnet("accept_timeout").map_or(config.accept_timeout, seconds);
        // 0 once meant that other settings decide.
        let timeout = sock("sock_timeout").filter(|n| *n > 0);
        config.timeout = timeout.map_or(config.timeout, seconds);
        config.reconnect_min = sock("min_reconnectms").map_or(config.reconnect_min, millis);
        config.reconnect_max = sock("max_reconnectms").map_or(config.reconnect_max, millis);
        config.keepalive = sock("keepalive").map_or(config.keepalive, seconds);
        config.min_bulk = sock("min_bulk").map_or(config.min_bulk, |n| n as u32);
        // A kernel also copies messages that are smaller than this.
        let zero_copy = |n: i64| (n as u32).max(ZC_MIN_PAYLOAD);
        config.zc_min_payload = sock("zc_min_payload").map(zero_copy);
        config.enable_csum = sock("enable_csum").map_or(config.enable_csum, |n| n != 0);
        config
    }

    /// Returns the settings of routing. [`NodeConfig::routing`](super::NodeConfig::routing) decides
    /// whether messages are forwarded.
    pub fn routing(&self) -> RoutingConfig {
        let lnet = |name| self.number(Module::Lnet, name);
        let flag = |name, default| lnet(name).map_or(default, |n| n != 0);
        // 0 means the default number.
        let count = |name, default| lnet(name).filter(|n| *n > 0).map_or(default, |n| n as u32);
        let usual = RoutingConfig::default();
        RoutingConfig {
            forwarding: false,
            buffers: RouterBuffers {
                tiny: count("tiny_router_buffers", usual.buffers.tiny),
                small: count("small_router_buffers", usual.buffers.small),
                large: count("large_router_buffers", usual.buffers.large),
            },
            peer_buffer_credits: count("peer_buffer_credits", usual.peer_buffer_credits),
            auto_down: flag("auto_down", usual.auto_down),
            check_routers_before_use: flag(
                "check_routers_before_use",
                usual.check_routers_before_use,
            ),
            avoid_asym_router_failure: flag(
                "avoid_asym_router_failure",
                usual.avoid_asym_router_failure,
            ),
            alive_router_check_interval: self
                .router_check_interval()
                .unwrap_or(usual.alive_router_check_interval),
            router_ping_timeout: count("router_ping_timeout", usual.router_ping_timeout),
        }
    }

    /// Returns the seconds between two checks of a router; `None` for 0 or less. The two older
    /// parameters, for live routers and for dead ones, are used if the current one is not set.
    fn router_check_interval(&self) -> Option<u32> {
        let given = |name| {
            let seconds = self.number(Module::Lnet, name)?;
            Some(u32::try_from(seconds).unwrap_or(0))
        };
        given("alive_router_check_interval").or_else(|| {
            let older = ["live_router_check_interval", "dead_router_check_interval"];
            older.into_iter().filter_map(given).min()
        })
    }

    /// Returns the settings of the selftest.
    pub fn selftest(&self) -> fulmar_selftest::Config {
        let value = |name| self.number(Module::LnetSelftest, name).map(i64::unsigned_abs);
        let mut config = fulmar_selftest::Config::default();
        let seconds = |name, default| value(name).map_or(default, Duration::from_secs);
        config.rpc_timeout = seconds("rpc_timeout", config.rpc_timeout);
        config.session_timeout = seconds("session_timeout", config.session_timeout);
        config.inject_errors = value("brw_inject_errors").map_or(0, |n| n as u32);
        config
    }

    /// Returns the default credits of an NI.
    pub fn tunables(&self) -> NiTunables {
        let sock = |name| self.number(Module::Ksocklnd, name);
        let mut tunables = NiTunables::default();
        tunables.peer_timeout = sock("peer_timeout").map_or(tunables.peer_timeout, |n| n as i32);
        tunables.peer_credits = sock("peer_credits").map_or(tunables.peer_credits, |n| n as u32);
        tunables.credits = sock("credits").map_or(tunables.credits, |n| n as u32);
        let router_credits = sock("peer_buffer_credits");
        tunables.peer_buffer_credits =
            router_credits.map_or(tunables.peer_buffer_credits, |n| n as u32);
        tunables
    }

    /// Returns the global values of these parameters.
    ///
    /// # Errors
    /// If a value conflicts with others.
    pub fn globals(&self) -> Result<Globals, String> {
        let given = |key: GlobalKey| {
            let number = self.number(Module::Lnet, key.parameter()?)? as u32;
            // The parameter is about the contrary.
            let is_off = key == GlobalKey::Discovery;
            Some((key, if is_off { u32::from(number == 0) } else { number }))
        };
        let mut values: Vec<(GlobalKey, u32)> =
            GlobalKey::ALL.into_iter().filter_map(given).collect();
        // A value that is too small means the default.
        values.retain(|(key, n)| *key != GlobalKey::MaxInterfaces || *n >= key.range().0);
        let mut result = Globals::default();
        globals::set_all(&mut result, &values)?;
        Ok(result)
    }
}
/// The minimum of `zc_min_payload`. Spec: lnet-wire §6.3.
const ZC_MIN_PAYLOAD: u32 = 2048;
