//! `fulmar node --check`: what a start would find, without one.

use fulmar_base::Errno;
use fulmar_control::config::NodeConfig;
use fulmar_lnet::RouteConfig;
use fulmar_lnet_wire::Nid;

use crate::{DaemonError, Host, cpts, fit_cpts, no_route};

/// What a start of a node would find.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// What would keep it from starting.
    pub problems: Vec<DaemonError>,
    /// What it would leave out.
    pub notes: Vec<String>,
}

/// Compares a configuration with this machine: its interfaces, its CPUs, and the networks that a node
/// can be on.
pub fn check(config: &NodeConfig) -> CheckReport {
    let mut checked = CheckReport { notes: config.unused(), ..CheckReport::default() };
    let problems = config.problems(&Host).into_iter();
    checked.problems.extend(problems.map(|error| DaemonError::Resolve { error }));
    let count = match cpts(config) {
        Ok(cpts) => u32::try_from(cpts.len().max(1)).unwrap_or(u32::MAX),
        Err(error) => {
            checked.problems.push(error);
            return checked;
        }
    };
    // Without its networks nothing else of a node can be judged.
    let Ok(mut specs) = config.nis(&Host) else { return checked };
    let notes = specs.iter_mut().filter_map(|spec| {
        let note = fit_cpts(&mut spec.cpts, count)?;
        Some(format!("{}: {note}", spec.nid))
    });
    checked.notes.extend(notes);
    let own: Vec<Nid> = specs.iter().map(|spec| spec.nid).collect();
    check_peers(config, &own, &mut checked);
    let refused = config.lnet.routes.iter().filter_map(|route| {
        let errno = RouteConfig::from(route).check(own.iter().copied()).err()?;
        Some(no_route(route, errno))
    });
    checked.problems.extend(refused);
    checked
}

fn check_peers(config: &NodeConfig, own: &[Nid], checked: &mut CheckReport) {
    for peer in &config.lnet.peers {
        if own.contains(&peer.primary) {
            checked.notes.push(format!("peer {} is this node itself", peer.primary));
        } else if let Some(nid) = peer.nids.iter().find(|nid| own.contains(nid)) {
            let what = format!("peer {}, of which {nid} is a NID of this node", peer.primary);
            checked.problems.push(DaemonError::Configure { what, error: Errno::EINVAL });
        }
    }
}
