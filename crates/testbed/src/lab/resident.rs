//! Nodes of this process whose sockets are in hosts.

use std::sync::Arc;

use fulmar_net::{Node, Options, Runtime};

use super::Host;
use crate::witness::{Terms, Witness};

/// A node whose sockets are on a host, while its memory and tables are in this process. A
/// [`Witness`] checks it continuously; it is stopped on drop.
#[derive(Debug)]
pub struct Resident {
    node: Node,
    witness: Arc<Witness>,
    /// Dropped after the node.
    _runtime: Runtime,
    /// Dropped after the node, which needs the namespace.
    host: Host,
}

impl Resident {
    /// Starts a node on a host, with its own thread.
    ///
    /// # Errors
    /// Why the node does not start.
    pub fn start(host: &Host, options: Options, terms: Terms) -> Result<Self, String> {
        let witness = Witness::new(terms);
        let options = Options { tap: Some(witness.clone()), ..options };
        let (runtime, node) = host.inside(|| {
            let runtime = Runtime::new(Some(1)).map_err(|error| error.to_string())?;
            let node = Node::start(&runtime, options).map_err(|error| error.to_string())?;
            Ok::<_, String>((runtime, node))
        })??;
        Ok(Self { node, witness, _runtime: runtime, host: host.clone() })
    }

    /// Returns its host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns its witness.
    pub fn witness(&self) -> &Arc<Witness> {
        &self.witness
    }

    /// Returns the node for reading. Calls that open connections must run on its host: see
    /// [`Resident::act`].
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Calls the node on its host.
    ///
    /// # Panics
    /// If its namespace cannot be entered.
    pub fn act<R>(&self, act: impl FnOnce(&Node) -> R) -> R {
        self.host.inside(|| act(&self.node)).expect("the host outlives its node")
    }

    /// Waits until the node is idle, and returns the invariants that were ever broken.
    pub fn judged(&self) -> Option<String> {
        self.witness.check_active(&self.node);
        self.witness.check_idle(&self.node);
        self.witness.found()
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.node.stop();
    }
}
