//! The part of one node in a transaction.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;

use crate::rpc::CallId;

use super::api::{Measures, NodeAnswer, NodeError, NodeState};
use super::ask::{Ask, News};
use super::node::{Node, NodeId};

/// A request to a node, and its answer. It may outlive the node in the session.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) node: NodeId,
    pub(super) nid: Nid,
    pub(super) state: NodeState,
    /// How often the node may have to be requested to leave.
    makes: u32,
    /// Position in a series of requests: REMOVE_SESSIONs answered, or the first requested bucket.
    pub(super) step: u32,
    pub(super) news: News,
    pub(super) measures: Measures,
    /// The tag of the call in flight, and the call.
    pub(super) flight: Option<(u64, CallId)>,
    pub(super) result: Option<Result<(), NodeError>>,
}

impl Part {
    /// Creates the part of a node to query.
    pub(super) fn new(id: NodeId, node: &Node) -> Self {
        Self {
            node: id,
            nid: node.nid,
            state: node.state,
            makes: node.makes,
            step: 0,
            news: News::None,
            measures: Measures::default(),
            flight: None,
            result: None,
        }
    }

    /// Creates the part of a node that needs no request: already successful.
    pub(super) fn settled(id: NodeId, node: &Node) -> Self {
        Self { result: Some(Ok(())), ..Self::new(id, node) }
    }

    /// Handles a reply, and returns whether the node needs another request.
    ///
    /// # Errors
    /// EPROTO if the reply does not match the request.
    pub(super) fn proceed(&mut self, ask: &Ask, news: News) -> Result<bool, Errno> {
        match (ask, news) {
            // A node counts the requests to enter, and leaves after as many requests to leave.
            (Ask::Remove, _) if self.state == NodeState::Active && self.step + 1 < self.makes => {
                self.step += 1;
                Ok(true)
            }
            (Ask::Measure, News::Measured(said)) => {
                let next = self.measures.take(self.step, &said)?;
                self.step = next.unwrap_or(self.step);
                Ok(next.is_some())
            }
            (_, news) => {
                self.news = news;
                Ok(false)
            }
        }
    }

    /// Returns the answer of the node, with `said` reading its reply.
    pub(super) fn into_answer<T>(self, said: impl FnOnce(Self) -> T) -> NodeAnswer<T> {
        let (nid, state) = (self.nid, self.state);
        let result = self.result.expect("a transaction is over when all its parts are settled");
        NodeAnswer { nid, state, result: result.map(|()| said(self)) }
    }
}
