//! The plan of a file.

use std::path::Path;
use std::time::Duration;

use fulmar_control::config::{LinkConf, LoadConf, NodesConf, PathFile, Source};
use fulmar_sim::options::Line;
use fulmar_study::Credits;
use fulmar_study::path::{Group, Link, Load, Plan, Port};

use super::args::{Args, MEGABIT, line, work};

/// Reads a file, and returns its plan. Options of the command line that the file does not set keep their
/// values.
///
/// # Errors
/// Why the file cannot be read, or the place of an error in it.
pub(super) fn plan(args: &Args, file: &Path) -> Result<Plan, String> {
    let name = file.display();
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| {
        format!("cannot read {name}: {error}; give a YAML file as those in docs/paths")
    })?;
    let mut args = args.clone();
    let source = Source::new(name.to_string(), text);
    let conf = PathFile::parse(&source, |option, value| args.set(option, value));
    let conf = conf.map_err(|error| error.to_string())?;
    let sites = sites(&conf);
    let site = |name: &String| sites.iter().position(|site| site == name).unwrap_or_default();
    let links = conf.links.iter().map(|link| {
        let LinkConf { rate, rtt, loss, jitter, queue, .. } = *link;
        let between = (site(&link.between[0]), site(&link.between[1]));
        Link { between, line: line(rate, rtt, loss, jitter, queue) }
    });
    let loads = conf.loads.iter().map(|load| {
        let LoadConf { from, to, test, size, concurrency } = *load;
        Load { from, to, work: work(test, size), concurrency }
    });
    let (links, loads) = (links.collect(), loads.collect());
    let settings = args.settings();
    let zc_min_payload = conf.held.then_some(Credits::KERNEL_ZERO_COPY);
    Ok(Plan {
        groups: conf.nodes.iter().map(|nodes| group(nodes, &site)).collect(),
        credits: Credits { zc_min_payload, ..settings.credits },
        peer_buffer_credits: conf.peer_buffer_credits,
        sites,
        links,
        loads,
        ..settings
    })
}

/// Returns the names of all sites.
fn sites(conf: &PathFile) -> Vec<String> {
    let of_links = conf.links.iter().flat_map(|link| &link.between);
    let of_nodes = conf.nodes.iter().flat_map(|nodes| &nodes.interfaces).map(|one| &one.site);
    let mut all: Vec<String> = Vec::new();
    for site in of_links.chain(of_nodes) {
        if !all.contains(site) {
            all.push(site.clone());
        }
    }
    all
}

fn group(nodes: &NodesConf, site: &impl Fn(&String) -> usize) -> Group {
    let port = |one: &fulmar_control::config::InterfaceConf| Port {
        site: site(&one.site),
        net: one.net,
        cable: Line::new(one.rate / MEGABIT, Duration::ZERO),
    };
    Group {
        name: nodes.name.clone(),
        count: nodes.count,
        router: nodes.router,
        ports: nodes.interfaces.iter().map(port).collect(),
    }
}
