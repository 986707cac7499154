//! The servers: OSTs and their management service, and an MDT if it is wanted, in directories.

use std::net::IpAddr;
use std::path::Path;

use fulmar_lnet_wire::{Net, Nid};
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, ServeOptions, Serving, TargetLabel};

use crate::Failure;
use crate::lnet::{runtime, start, wait_for_end_of_input};
use crate::rpc::server::ADDRESS;

/// The file system of the OSTs.
pub(crate) const FILE_SYSTEM: &str = "bench";

/// Serves until standard input ends. The directories are made if they do not exist.
pub(crate) fn run(port: u16, root: &Path, osts: u16, has_mdt: bool) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure(error.to_string());
    let nid = Nid::of_ip(Net::TCP, IpAddr::V4(ADDRESS));
    let target = |kind, index| {
        let address = format!("{nid}:/{FILE_SYSTEM}").parse().expect("it is an address");
        Label::Target(TargetLabel { kind, index, address })
    };
    let mut labels = vec![("mgs".to_owned(), Label::Mgs)];
    labels.extend((0..osts).map(|index| (format!("ost{index}"), target(TargetKind::Ost, index))));
    if has_mdt {
        labels.push(("mdt".to_owned(), target(TargetKind::Mdt, 0)));
    }
    for (name, label) in &labels {
        if !root.join(name).exists() {
            fulmar_server::format(&root.join(name), label).map_err(|error| failed(&error))?;
        }
    }
    let runtime = runtime()?;
    let node = start(&runtime, ADDRESS.into(), port)?;
    let directories = labels.iter().map(|(name, _)| root.join(name)).collect();
    let options = ServeOptions { directories, nids: vec![nid], port };
    let serving = Serving::start(&node, &options).map_err(|error| failed(&error))?;
    println!("ready");
    wait_for_end_of_input();
    serving.stop();
    node.stop();
    Ok(())
}
