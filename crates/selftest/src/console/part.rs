//! One node's part in a transaction.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;

use crate::rpc::CallId;

use super::api::{Measures, NodeAnswer, NodeError, NodeState};
use super::ask::{Ask, News};
use super::node::{Node, NodeId};

/// A node that is asked something, and what it says. It outlives the node's stay in the session.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) node: NodeId,
    pub(super) nid: Nid,
    pub(super) state: NodeState,
    /// How often the node may have to be asked to leave.
    makes: u32,
    /// How far a series of questions is: REMOVE_SESSIONs answered, or the first bucket asked for.
    pub(super) step: u32,
    pub(super) news: News,
    pub(super) measures: Measures,
    /// The tag of the call in flight, and the call.
    pub(super) flight: Option<(u64, CallId)>,
    pub(super) result: Option<Result<(), NodeError>>,
}

impl Part {
    /// The part of a node that is to be asked.
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

    /// The part of a node that need not be asked: all is well.
    pub(super) fn settled(id: NodeId, node: &Node) -> Self {
        Self { result: Some(Ok(())), ..Self::new(id, node) }
    }

    /// Takes news, and returns whether the node must be asked again.
    ///
    /// # Errors
    /// EPROTO if the node says what it was not asked.
    pub(super) fn proceed(&mut self, ask: &Ask, news: News) -> Result<bool, Errno> {
        match (ask, news) {
            // A node counts how often it was asked to enter, and leaves when it was as often
            // asked to leave.
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

    /// Says what the node said, with `said` reading its news.
    pub(super) fn into_answer<T>(self, said: impl FnOnce(Self) -> T) -> NodeAnswer<T> {
        let (nid, state) = (self.nid, self.state);
        let result = self.result.expect("a transaction is over when all its parts are settled");
        NodeAnswer { nid, state, result: result.map(|()| said(self)) }
    }
}
