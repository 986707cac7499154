//! Nodes that enter the session on their own request. Spec: lnet-selftest §5.7.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{FEATURES, JoinReply, JoinRequest, Name, SessionId};
use fulmar_lnet_wire::{Nid, ProcessId};

use super::Console;
use super::api::NodeState;
use super::group::Group;
use super::limits::NODES_MAX;
use super::session::Session;

impl Console {
    /// Answers a node that requests to enter the session: the reply, and its features.
    pub(crate) fn join(
        &mut self,
        now: Time,
        features: u32,
        from: ProcessId,
        request: &JoinRequest,
    ) -> (JoinReply, u32) {
        let Ok(session) = self.session_mut() else {
            let status = Errno::ESRCH.0 as u32;
            let (session, name) = (SessionId::INVALID, Name::EMPTY);
            return (JoinReply { status, session, timeout: 0, name }, FEATURES);
        };
        let result = session.join(now, features, from.nid, request);
        let reply = JoinReply {
            status: result.map_or_else(|errno| errno.0 as u32, |()| 0),
            session: session.id,
            timeout: session.timeout,
            name: session.name,
        };
        (reply, session.features)
    }
}

impl Session {
    fn join(
        &mut self,
        now: Time,
        features: u32,
        nid: Nid,
        request: &JoinRequest,
    ) -> Result<(), Errno> {
        if features != self.features {
            return Err(Errno::EPROTO);
        }
        if request.session.is_valid() && request.session != self.id {
            return Err(Errno::EBUSY);
        }
        let name = str::from_utf8(request.group.bytes()).map_err(|_| Errno::EINVAL)?;
        if self.is_in_test(name) {
            return Err(Errno::EBUSY);
        }
        if nid.is_large() {
            return Err(Errno::EINVAL);
        }
        let known = self.nodes.find(nid);
        let is_member = |group: &Group| known.is_some_and(|id| group.nodes.contains(&id));
        if self.group(name).is_ok_and(is_member) {
            return Err(Errno::EEXIST);
        }
        if known.is_none() && self.nodes.len() >= NODES_MAX {
            return Err(Errno::ENOMEM);
        }
        if self.group(name).is_err() {
            self.add_group(name)?;
        }
        let group = self.free_group(name)?;
        let id = known.unwrap_or_else(|| self.nodes.create(now, nid));
        self.enlist(group, id);
        let timeout = self.timeout;
        let node = self.nodes.get_mut(id).expect("the node has just joined");
        node.state = NodeState::Active;
        node.heard = now;
        node.timeout = timeout;
        Ok(())
    }
}
