//! States of files with respect to an archive. There is no coordinator: files are not moved.
//! Spec: mdt-ost §7.15.

use fulmar_base::Errno;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::format::{HSM_STATE, HSM_STATE_SET, MDT_BODY};
use fulmar_lustre_wire::mdt::{HsmStateSet, HsmStates, HsmUserState};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Status};
use fulmar_wire::{Field, Order, Reader, Writer, wire_struct};

use super::Answer;
use super::attributes::body;
use super::execute::body_of;
use crate::Mdt;
use crate::access::{Caller, Capabilities};
use crate::changelog::Note;
use crate::inode::{Extra, Inode};
use crate::mdt::Call;
use crate::records::Failure;

wire_struct! {
    /// The value of `trusted.hsm`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct HsmAttributes {
        compat: u32,
        states: HsmStates,
        archive: u64,
        version: u64,
    }
}

/// The states that users may change of their files.
const OF_USERS: HsmStates = HsmStates::NORELEASE.with(HsmStates::NOARCHIVE).with(HsmStates::DIRTY);
/// The states that there are.
const KNOWN: u64 = 0x1ff;
/// Which fields of a change count.
const SETS: u32 = 0x1;
const CLEARS: u32 = 0x2;
const NAMES_ARCHIVE: u32 = 0x4;

impl HsmAttributes {
    fn of(inode: &Inode) -> Self {
        let value = inode.extra(Extra::Hsm);
        Self::read(&mut Reader::new(value, Order::Little), "hsm").unwrap_or_default()
    }

    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![];
        self.write(&mut Writer::new(&mut bytes, Order::Little));
        bytes
    }

    /// Returns whether no state contradicts another one.
    fn is_consistent(&self) -> bool {
        let has = |state| self.states.has(state);
        let without_copy = has(HsmStates::DIRTY) && !has(HsmStates::EXISTS);
        let released = has(HsmStates::RELEASED);
        let not_archived = (released || has(HsmStates::LOST)) && !has(HsmStates::ARCHIVED);
        !(without_copy || not_archived || (released && has(HsmStates::DIRTY)))
    }
}

impl Inode {
    /// Returns whether an archive has a copy, or something of one.
    pub(crate) fn has_copy(&self) -> bool {
        HsmAttributes::of(self).states.has(HsmStates::EXISTS)
    }
}

impl Mdt {
    /// Executes HSM_STATE_GET.
    pub(crate) fn hsm_state(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let fid = body_of(call)?.fid;
        let inode = self.inode(fid)?;
        let HsmAttributes { states, archive, .. } = HsmAttributes::of(&inode);
        let state = HsmUserState { states, archive: archive as u32, ..HsmUserState::default() };
        let reply = Message::reply(call.message.format(), Status::OK);
        Ok(Answer::new(reply.with(&MDT_BODY, &body(fid, &inode)).with(&HSM_STATE, &state)))
    }

    /// Executes HSM_STATE_SET. Clients say of each file that they cut that it is dirty; without a copy that is
    /// refused, and they do not mind.
    pub(crate) fn set_hsm_state(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = body_of(call)?;
        let set = call.message.require(&HSM_STATE_SET).map_err(|_| Errno::EPROTO)?;
        let caller = self.caller(Caller::of_body(&asked));
        let result = self.change_hsm_state(call, asked.fid, set, &caller);
        let status = match result {
            Ok(()) => Status::OK,
            Err(failure) => Status::failed(failure.errno()),
        };
        Ok(Answer::new(Message::reply(call.message.format(), status)))
    }

    fn change_hsm_state(
        &self,
        call: &Call<'_>,
        fid: Fid,
        asked: HsmStateSet,
        caller: &Caller,
    ) -> Result<(), Failure> {
        let changed = asked.set | asked.clear;
        if changed & !KNOWN != 0 {
            return Err(Errno::EINVAL.into());
        }
        if changed & !u64::from(OF_USERS.0) != 0 && !caller.has(Capabilities::SYS_ADMIN) {
            return Err(Errno::EPERM.into());
        }
        let _locked = self.lock(&[fid]);
        self.commit(call, |change| {
            let mut inode = change.existing(fid)?;
            let mut hsm = HsmAttributes::of(&inode);
            if asked.valid & SETS != 0 {
                hsm.states = hsm.states.with(HsmStates(asked.set as u32));
            }
            if asked.valid & CLEARS != 0 {
                hsm.states = hsm.states.without(HsmStates(asked.clear as u32));
            }
            if asked.valid & NAMES_ARCHIVE != 0 && hsm.states.has(HsmStates::EXISTS) {
                hsm.archive = asked.archive.into();
            }
            if !hsm.is_consistent() {
                return Err(Errno::EINVAL.into());
            }
            let mut flags = 0;
            if hsm.states != HsmAttributes::of(&inode).states {
                let is_dirty = hsm.states.has(HsmStates::DIRTY);
                flags = Note::HSM_STATE | if is_dirty { Note::HSM_DIRTY } else { 0 };
            }
            inode.set_extra(Extra::Hsm, hsm.to_bytes());
            change.set(fid, inode)?;
            change.note(Note::new(ChangeKind::HSM, fid).with_flags(flags));
            Ok((Message::reply(call.message.format(), Status::OK), ()))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_contradict_each_other_are_refused() {
        type S = HsmStates;
        let is_good = |states| HsmAttributes { states, ..HsmAttributes::default() }.is_consistent();
        let copy = S::EXISTS | S::ARCHIVED;
        for good in [S::NONE, S::NORELEASE, S::EXISTS, copy, copy | S::DIRTY, copy | S::RELEASED] {
            assert!(is_good(good), "{good:?}");
        }
        for bad in [S::DIRTY, S::EXISTS | S::RELEASED, copy | S::RELEASED | S::DIRTY, S::LOST] {
            assert!(!is_good(bad), "{bad:?}");
        }
    }
}
