//! The rules for the requests of a connected client.

use std::sync::Arc;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::connect::ConnectFlags2;
use fulmar_lustre_wire::message::{Body, Flavor, MessageFlags};

use super::{Export, SlotCheck};

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is executed.
    Execute,
    /// It was executed, and this reply is sent again.
    Answer(Arc<[u8]>),
    /// Its client has given it up, and waits for no reply.
    Drop,
    /// It is answered with an error.
    Refuse(Errno),
}

impl Export {
    /// Returns whether a message is protected as the connection is.
    pub fn has_flavor(&self, flavor: Flavor) -> bool {
        self.flavor.word() == flavor.word()
    }

    /// Notes that a request came, of whatever kind.
    pub fn heard(&mut self, now: Time) {
        self.last_request = now;
        self.is_used = true;
    }

    /// Returns whether a request is of an earlier connection than the present one.
    pub fn is_outdated(&self, body: &Body) -> bool {
        body.connection_count < self.connection_count
    }

    /// Applies what a request says about earlier ones, and checks its own XID.
    ///
    /// # Errors
    /// EPROTO if the client has said that it has the reply. Spec: ptlrpc-ldlm-mgs §6.5.
    pub fn check_xid(&mut self, xid: u64, body: &Body) -> Result<(), Errno> {
        self.last_xid = self.last_xid.max(body.last_xid);
        self.replies.release(self.last_xid);
        if xid <= self.last_xid && !body.flags.has(MessageFlags::REPLAY) {
            Err(Errno::EPROTO)
        } else {
            Ok(())
        }
    }

    /// Handles a request whose XID is valid, which is not in progress, before it is executed.
    /// Spec: ptlrpc-ldlm-mgs §6.6, §6.7.
    pub fn begin(&mut self, xid: u64, body: &Body) -> Verdict {
        let in_order = self.flags2.has(ConnectFlags2::INC_XID);
        let is_replay = body.flags.has(MessageFlags::REPLAY);
        let is_repeated = is_replay || body.flags.has(MessageFlags::RESENT);
        match self.replies.begin(body.tag, xid, in_order, is_replay) {
            SlotCheck::New => Verdict::Execute,
            SlotCheck::Answered(reply) if is_repeated => Verdict::Answer(reply),
            SlotCheck::Answered(_) => Verdict::Refuse(Errno::ENOTCONN),
            SlotCheck::Stale => Verdict::Drop,
            SlotCheck::TooMany => Verdict::Refuse(Errno::EPROTO),
        }
    }

    /// Saves the reply to a request that has changed something.
    pub fn save(&mut self, xid: u64, tag: u16, is_replay: bool, reply: Arc<[u8]>) {
        self.replies.save(tag, xid, is_replay, reply);
    }

    /// Saves a reply of an earlier start of the target.
    pub fn restore(&mut self, xid: u64, tag: u16, reply: Arc<[u8]>) {
        self.replies.restore(tag, xid, reply);
    }

    /// Returns how many replies are saved, and their length in bytes.
    pub fn saved(&self) -> (usize, usize) {
        self.replies.saved()
    }
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::Opcode;
    use fulmar_lustre_wire::{Handle, Uuid};

    use super::super::TargetId;
    use super::*;

    fn export(flags2: ConnectFlags2) -> Export {
        let peer = fulmar_lnet_wire::ProcessId::ANY;
        Export {
            connection: Handle(1),
            flags2,
            connection_count: 1,
            ..Export::new(Time::ZERO, TargetId(0), Uuid::default(), peer)
        }
    }

    fn body(last_xid: u64, tag: u16, flags: MessageFlags) -> Body {
        Body { last_xid, tag, flags, ..Body::request(Opcode::MDS_REINT) }
    }

    #[test]
    fn a_request_that_its_client_has_given_up_is_refused() {
        let mut export = export(ConnectFlags2::NONE);
        assert_eq!(export.check_xid(256, &body(128, 0, MessageFlags::NONE)), Ok(()));
        assert_eq!(export.check_xid(128, &body(0, 0, MessageFlags::NONE)), Err(Errno::EPROTO));
        assert_eq!(export.check_xid(128, &body(0, 0, MessageFlags::REPLAY)), Ok(()));
        let none = body(u64::MAX, 0, MessageFlags::RESENT);
        assert_eq!(export.check_xid(u64::MAX, &none), Err(Errno::EPROTO));
    }

    #[test]
    fn a_resent_request_is_answered_and_a_repeated_xid_is_not() {
        let mut export = export(ConnectFlags2::NONE);
        let (fresh, resent) = (body(0, 1, MessageFlags::NONE), body(0, 1, MessageFlags::RESENT));
        let reply: Arc<[u8]> = vec![1, 2, 3].into();
        assert_eq!(export.begin(128, &fresh), Verdict::Execute);
        export.save(128, 1, false, reply.clone());
        assert_eq!(export.begin(128, &resent), Verdict::Answer(reply));
        assert_eq!(export.begin(128, &fresh), Verdict::Refuse(Errno::ENOTCONN));
        assert_eq!(export.saved(), (1, 3));
        export.check_xid(256, &body(128, 0, MessageFlags::NONE)).unwrap();
        assert_eq!(export.saved(), (0, 0));
    }

    #[test]
    fn a_stale_request_of_a_slot_is_dropped_if_xids_increase() {
        for (flags2, verdict) in
            [(ConnectFlags2::INC_XID, Verdict::Drop), (ConnectFlags2::NONE, Verdict::Execute)]
        {
            let mut export = export(flags2);
            let fresh = body(0, 1, MessageFlags::NONE);
            assert_eq!(export.begin(512, &fresh), Verdict::Execute);
            assert_eq!(export.begin(256, &fresh), verdict);
        }
    }
}
