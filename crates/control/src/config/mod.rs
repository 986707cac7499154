//! What a node is told: lnet.conf, the file of `fulmar node`, and module parameters.
//!
//! Everything is read with its place in the text, so that an error points at it.

mod cpts;
mod diagnostic;
mod globals;
mod interfaces;
mod lnet_conf;
mod model;
mod module_strings;
mod node;
mod parameters;
mod pattern;
mod rules;
pub(crate) mod yaml;

#[cfg(test)]
mod tests;

use fulmar_lnet_wire::Nid;

pub use cpts::Cores;
pub use diagnostic::{Diagnostic, Position, Source};
pub use globals::{GlobalKey, set, set_all};
pub use interfaces::{
    Interface, Interfaces, NiSpec, ResolveError, conns_for_speed, resolve, resolve_ip2nets,
};
pub use model::{
    BuffersConf, Ip2NetsConf, LndConf, LnetConf, NetConf, NiConf, PeerConf, QueryConf, RouteConf,
    TunablesConf,
};
pub use module_strings::{Ip2NetsRule, ModuleOptions};
pub use node::{NodeConfig, Role};
pub use parameters::{Module, Parameters};
pub use pattern::AddressPattern;
pub use rules::{FAULT_TYPES, FaultAction, FaultConf, HEALTH_ERRORS, UdspConf};

/// Reads NIDs between commas, each of which may stand for several: `10.0.0.[1-4]@tcp,10.1.0.1@tcp`.
///
/// # Errors
/// Points at the NID that cannot be understood.
pub fn nid_list(list: &str) -> Result<Vec<Nid>, Diagnostic> {
    let source = Source::new("NIDs", list);
    let mut nids = Vec::new();
    for word in module_strings::split_outside(source.whole(), |c| c == ',')? {
        for nid in pattern::expand(word.trim())? {
            nids.push(diagnostic::Text { s: &nid, ..word }.parse()?);
        }
    }
    Ok(nids)
}

/// Reads interfaces between commas, each with its CPU partitions or none: `eth0[0,1],eth1`.
///
/// # Errors
/// Points at the one that cannot be understood.
pub fn interface_list(list: &str) -> Result<Vec<NiConf>, Diagnostic> {
    module_strings::interface_specs(Source::new("interfaces", list).whole())
}

/// Reads CPU partitions: `[0,1]` or `[0-3]`.
///
/// # Errors
/// Points at the number that cannot be understood.
pub fn cpt_list(list: &str) -> Result<Vec<u32>, Diagnostic> {
    pattern::number_list(Source::new("CPT", list).whole(), lnet_conf::CPT_MAX)
}

/// Reads rules of `ip2nets` as for a node that runs: `tcp(eth0) 10.0.*.*; tcp1 10.1.*.*`.
///
/// # Errors
/// Points at the part that cannot be understood.
pub fn ip2nets_list(rules: &str) -> Result<Vec<Ip2NetsConf>, Diagnostic> {
    let mut entries = Vec::new();
    for rule in module_strings::ip2nets(Source::new("ip2nets", rules).whole())? {
        for NetConf { net, nis } in rule.nets {
            let ranges = || rule.patterns.clone();
            entries.extend(nis.into_iter().map(|ni| Ip2NetsConf { net, ni, ranges: ranges() }));
        }
    }
    Ok(entries)
}
