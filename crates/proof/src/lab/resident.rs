//! Nodes of this process that live in hosts.

use std::sync::Arc;

use fulmar_net::{Node, Options, Runtime};

use super::Host;
use crate::witness::{Terms, Witness};

/// A node whose sockets are on a host, while its memory and its tables are here. A [`Witness`] judges
/// it all its life; it is stopped when this goes.
#[derive(Debug)]
pub struct Resident {
    node: Node,
    witness: Arc<Witness>,
    /// After the node.
    _runtime: Runtime,
    /// Its namespace must not go before it.
    host: Host,
}

impl Resident {
    /// Starts a node on a host, with a thread of its own.
    ///
    /// # Errors
    /// Why it does not start.
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

    /// Returns where it lives.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns its judge.
    pub fn witness(&self) -> &Arc<Witness> {
        &self.witness
    }

    /// Returns the node, to look at. What makes it act is to be done on its host: see
    /// [`Resident::act`].
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Has the node do something, on its host.
    ///
    /// # Panics
    /// If its host is gone.
    pub fn act<R>(&self, act: impl FnOnce(&Node) -> R) -> R {
        self.host.inside(|| act(&self.node)).expect("the host of a node is there")
    }

    /// Waits until the node has nothing to do, and returns which invariants were broken in its life.
    pub fn judged(&self) -> Option<String> {
        self.witness.look(&self.node);
        self.witness.rest(&self.node);
        self.witness.found()
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.node.stop();
    }
}
