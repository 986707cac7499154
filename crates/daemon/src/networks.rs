//! The configuration of the NIs of a running node.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_control::config::{NiSpec, Parameters};
use fulmar_lnet_wire::Nid;
use fulmar_net::{Admin, NiAddress, NiOptions, StartError};

/// The configuration of NIs, of which the machine keeps only a part.
pub(crate) struct Networks {
    /// The defaults of an NI.
    pub(crate) parameters: Parameters,
    specs: Mutex<Vec<NiSpec>>,
}

impl Networks {
    /// Stores the configuration with which the node was started.
    pub(crate) fn new(parameters: Parameters, specs: Vec<NiSpec>) -> Self {
        Self { parameters, specs: Mutex::new(specs) }
    }

    /// Adds NIs to the running node: all or none.
    pub(crate) fn add(&self, node: &Admin, specs: &[NiSpec]) -> Result<(), StartError> {
        let mut known = self.specs();
        let before = known.len();
        for spec in specs {
            if let Err(error) = node.add_ni(options(spec)) {
                for added in known.drain(before..) {
                    // It was just added; it may already have been removed.
                    let _ = node.remove_ni(added.nid);
                }
                return Err(error);
            }
            known.push(spec.clone());
        }
        Ok(())
    }

    /// Removes an NI of the node.
    pub(crate) fn remove(&self, node: &Admin, nid: Nid) -> Result<(), fulmar_base::Errno> {
        node.remove_ni(nid)?;
        self.specs().retain(|spec| spec.nid != nid);
        Ok(())
    }

    /// Changes the stored configuration of an NI.
    pub(crate) fn update(&self, nid: Nid, change: impl FnOnce(&mut NiSpec)) {
        if let Some(spec) = self.specs().iter_mut().find(|spec| spec.nid == nid) {
            change(spec);
        }
    }

    /// Returns all NIs, in the order of configuration.
    pub(crate) fn all(&self) -> Vec<NiSpec> {
        self.specs().clone()
    }

    fn specs(&self) -> MutexGuard<'_, Vec<NiSpec>> {
        self.specs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the options of an NI for the driver.
pub(crate) fn options(spec: &NiSpec) -> NiOptions {
    let ip = spec.nid.ip().expect("an NI on tcp has an IP address");
    NiOptions {
        net: spec.nid.net(),
        address: NiAddress::Ip(ip),
        tunables: spec.tunables,
        conns_per_peer: spec.conns_per_peer,
        cpts: spec.cpts.iter().flatten().map(|cpt| *cpt as usize).collect(),
        tos: u8::try_from(spec.tos).ok(),
        timeout: spec.timeout,
    }
}
