//! The NIs of a running node, as they were configured.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_control::config::{NiSpec, Parameters};
use fulmar_lnet_wire::Nid;
use fulmar_net::{NiAddress, NiOptions, Node, StartError};

/// What the node was told of its NIs and the machine does not keep.
pub(crate) struct Networks {
    /// What an NI gets that is told nothing else.
    pub(crate) parameters: Parameters,
    specs: Mutex<Vec<NiSpec>>,
}

impl Networks {
    /// Remembers what the node was started with.
    pub(crate) fn new(parameters: Parameters, specs: Vec<NiSpec>) -> Self {
        specs.iter().for_each(warn);
        Self { parameters, specs: Mutex::new(specs) }
    }

    /// Adds NIs to the running node: all, or none.
    pub(crate) fn add(&self, node: &Node, specs: &[NiSpec]) -> Result<(), StartError> {
        let mut known = self.specs();
        let before = known.len();
        for spec in specs {
            if let Err(error) = node.add_ni(options(spec)) {
                for added in known.drain(before..) {
                    // It was added a moment ago; if it is gone already, so much the better.
                    let _ = node.remove_ni(added.nid);
                }
                return Err(error);
            }
            warn(spec);
            known.push(spec.clone());
        }
        Ok(())
    }

    /// Removes an NI of the node.
    pub(crate) fn remove(&self, node: &Node, nid: Nid) -> Result<(), fulmar_base::Errno> {
        node.remove_ni(nid)?;
        self.specs().retain(|spec| spec.nid != nid);
        Ok(())
    }

    /// Changes what is known of an NI.
    pub(crate) fn update(&self, nid: Nid, change: impl FnOnce(&mut NiSpec)) {
        if let Some(spec) = self.specs().iter_mut().find(|spec| spec.nid == nid) {
            change(spec);
        }
    }

    /// Returns every NI, in the order of configuration.
    pub(crate) fn all(&self) -> Vec<NiSpec> {
        self.specs().clone()
    }

    fn specs(&self) -> MutexGuard<'_, Vec<NiSpec>> {
        self.specs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what was asked for and is not done.
fn warn(spec: &NiSpec) {
    if spec.tos >= 0 {
        tracing::warn!("{}: tos {} is not applied to sockets yet", spec.nid, spec.tos);
    }
    if spec.cpts.is_some() {
        tracing::warn!("{}: CPTs mean nothing here, threads are not bound", spec.nid);
    }
}

/// Returns what the driver is told of an NI.
pub(crate) fn options(spec: &NiSpec) -> NiOptions {
    let ip = spec.nid.ip().expect("an NI on tcp has an IP address");
    NiOptions {
        net: spec.nid.net(),
        address: NiAddress::Ip(ip),
        tunables: spec.tunables,
        conns_per_peer: spec.conns_per_peer,
    }
}
