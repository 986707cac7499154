//! Configuration: lnet.conf, the file of `fulmar node`, module parameters, and the file of
//! `fulmar sim path`.
//!
//! Errors point at their place in the text.

mod cpts;
mod diagnostic;
mod globals;
mod interfaces;
mod lnet_conf;
mod model;
mod module_strings;
mod node;
mod parameters;
mod path_file;
mod pattern;
mod rules;
pub(crate) mod yaml;

#[cfg(test)]
mod tests;

use fulmar_lnet_wire::Nid;

pub use cpts::Cores;
pub use diagnostic::{Diagnostic, Position, Source, nearest};
pub use globals::{GlobalKey, lenient, set, set_all};
pub use interfaces::{Interfaces, NiSpec, ResolveError, resolve, resolve_ip2nets};
pub use model::{
    BuffersConf, Ip2NetsConf, LndConf, LnetConf, NetConf, NiConf, PeerConf, QueryConf, RouteConf,
    TunablesConf, fit_cpts,
};
pub use module_strings::{Ip2NetsRule, ModuleOptions};
pub use node::{NodeConfig, Role};
pub use parameters::{Module, Parameters};
pub use path_file::{
    InterfaceConf, LinkConf, LoadConf, NodesConf, PathFile, TestConf, line_rate, round_trip,
    transfer,
};
pub use pattern::AddressPattern;
pub use rules::{FAULT_TYPES, FaultAction, FaultConf, HEALTH_ERRORS, UdspConf};

/// Parses NIDs and patterns between commas: `10.0.0.[1-4]@tcp,10.1.0.1@tcp`.
///
/// # Errors
/// Points at the invalid NID.
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

/// Parses interfaces between commas, with optional CPU partitions: `eth0[0,1],eth1`.
///
/// # Errors
/// Points at the invalid interface.
pub fn interface_list(list: &str) -> Result<Vec<NiConf>, Diagnostic> {
    module_strings::interface_specs(Source::new("interfaces", list).whole())
}

/// Parses CPU partitions: `[0,1]` or `[0-3]`.
///
/// # Errors
/// Points at the invalid number.
pub fn cpt_list(list: &str) -> Result<Vec<u32>, Diagnostic> {
    pattern::number_list(Source::new("CPT", list).whole(), lnet_conf::CPT_MAX)
}

/// Parses rules of `ip2nets`: `tcp(eth0) 10.0.*.*; tcp1 10.1.*.*`.
///
/// # Errors
/// Points at the invalid part.
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
