//! Extended attributes that clients read. Spec: mdt-ost §7.8, §8.6.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    ACL, EA_DATA, LAYOUT, LOCK_REPLY, MDT_BODY, NAME, XATTR_LENS, XATTR_NAMES, XATTR_VALUES,
};
use fulmar_lustre_wire::ldlm::{Disposition, LockReply};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{List, Status};
use fulmar_nodemap::View;

use super::attributes::acl_to_client;
use super::execute::body_of;
use super::{Answer, IntentReply};
use crate::Mdt;
use crate::access::Caller;
use crate::inode::Extra;
use crate::mdt::Call;
use crate::records::Failure;
use crate::tree::NAMES_LEN_MAX;

/// The room that the reply to an intent has for a layout and for a list, which are not in it.
const UNUSED: (usize, usize) = (56, 260);

impl Mdt {
    pub(crate) fn getxattr(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = body_of(call)?;
        self.caller(call, Caller::of_body(&asked))?;
        let view = self.view(call);
        let inode = self.inode(asked.fid)?;
        let value = match asked.valid.has(Valid::FLXATTR) {
            true => {
                let name = call.message.require(&NAME).map_err(|_| Errno::EPROTO)?;
                let value = self.xattr(asked.fid, &inode, name.as_bytes())?;
                shown(name.as_bytes(), value, &view)
            }
            false if asked.valid.has(Valid::FLXATTRLS) => {
                let mut names = Vec::new();
                for (name, _) in self.xattrs(asked.fid, &inode)? {
                    names.extend(name);
                    names.push(0);
                }
                names
            }
            false => return Err(Errno::EINVAL.into()),
        };
        let mut body = MdtBody { ea_size: value.len() as u32, ..MdtBody::default() };
        if asked.valid.has(Valid::FLXATTR) {
            body.valid = Valid::FLXATTR;
        }
        let reply = Message::reply(call.message.format(), Status::OK);
        let room = asked.ea_size as usize;
        let reply = match room {
            0 => reply,
            _ if value.len() > room => return Err(Errno::ERANGE.into()),
            _ => reply.with_bytes(&EA_DATA, value),
        };
        Ok(Answer::new(reply.with(&MDT_BODY, &body)))
    }

    /// Executes the intent GETXATTR: all extended attributes of a file.
    pub fn getxattr_intent(&self, call: &Call<'_>) -> IntentReply {
        let empty = Message::reply(call.message.format(), Status::OK)
            .with(&LOCK_REPLY, &LockReply::default())
            .with(&MDT_BODY, &MdtBody::default());
        let disposition = Disposition::NONE;
        match self.all_xattrs(call, empty.clone()) {
            Ok(reply) => IntentReply { reply, disposition, result: Ok(()) },
            Err(failure) => IntentReply { reply: empty, disposition, result: Err(failure.errno()) },
        }
    }

    fn all_xattrs(
        &self,
        call: &Call<'_>,
        reply: Message<'static>,
    ) -> Result<Message<'static>, Failure> {
        let asked = body_of(call)?;
        self.caller(call, Caller::of_body(&asked))?;
        let view = self.view(call);
        let inode = self.inode(asked.fid)?;
        let (mut names, mut values, mut lens) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in self.xattrs(asked.fid, &inode)? {
            let value = shown(&name, value, &view);
            names.extend(name);
            names.push(0);
            lens.push(value.len() as u32);
            values.extend(value);
        }
        let room = (asked.ea_size as usize).min(NAMES_LEN_MAX);
        if values.len() > room || names.len() > room {
            return Err(Errno::ERANGE.into());
        }
        let body = MdtBody {
            valid: Valid::FLXATTR,
            ea_size: names.len() as u32,
            acl_size: values.len() as u32,
            max_md_size: lens.len() as u32,
            ..MdtBody::default()
        };
        Ok(reply
            .with(&MDT_BODY, &body)
            .with_bytes(&LAYOUT, vec![0; UNUSED.0])
            .with_bytes(&ACL, vec![0; UNUSED.1])
            .with_bytes(&XATTR_NAMES, names)
            .with_bytes(&XATTR_VALUES, values)
            .with(&XATTR_LENS, &List(lens)))
    }
}

/// Returns the value of an extended attribute as a client sees it.
fn shown(name: &[u8], value: Vec<u8>, view: &View) -> Vec<u8> {
    match Extra::of_name(name) {
        Some(Extra::Acl | Extra::DefaultAcl) => acl_to_client(&value, view),
        _ => value,
    }
}
