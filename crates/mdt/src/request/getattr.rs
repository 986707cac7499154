//! Attributes of files. Spec: mdt-ost §7.3, §7.4, §8.2.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::ConnectFlags2;
use fulmar_lustre_wire::format::{LOCK_REPLY, MDT_BODY, NAME};
use fulmar_lustre_wire::ldlm::{Disposition, LockReply, ResourceId};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::ObdoFlags;
use fulmar_lustre_wire::{Fid, Status};

use super::attributes::AttributeQuery;
use super::execute::body_of;
use super::{Answer, IntentReply};
use crate::Mdt;
use crate::access::{AccessMode, Caller, check};
use crate::inode::{Extra, Inode};
use crate::layout::{composite_generation, is_overstriped};
use crate::mdt::{Call, Export};
use crate::names::NAME_MAX;
use crate::records::Failure;

/// Checks that a client can read the layout of a file.
///
/// # Errors
/// EOPNOTSUPP if not.
pub(crate) fn check_shown(export: &Export, inode: &Inode) -> Result<(), Errno> {
    let knows_all = export.client.flags2.has(ConnectFlags2::OVERSTRIPING);
    if !knows_all && inode.is_regular() && is_overstriped(inode.extra(Extra::Layout)) {
        Err(Errno::EOPNOTSUPP)
    } else {
        Ok(())
    }
}

/// Returns the version of the data of a file, and of its layout.
///
/// # Errors
/// EBADF if it has no data.
fn data_version(inode: &Inode) -> Result<MdtBody, Errno> {
    if !inode.is_regular() {
        return Err(Errno::EBADF);
    }
    let (valid, version) = (Valid::FLDATAVERSION | Valid::FLFLAGS, inode.attributes.version);
    // Clients write their data first.
    let body = MdtBody { valid, version, flags: ObdoFlags::FLUSH.0, ..MdtBody::default() };
    Ok(match composite_generation(inode.extra(Extra::Layout)) {
        Some(layout_generation) => {
            MdtBody { valid: valid | Valid::LAYOUT_VERSION, layout_generation, ..body }
        }
        None => body,
    })
}

impl Mdt {
    pub(crate) fn getattr(&self, call: &Call<'_>, export: &Export) -> Result<Answer, Failure> {
        let asked = body_of(call)?;
        self.caller(call, Caller::of_body(&asked))?;
        let inode = self.inode(asked.fid)?;
        let reply = Message::reply(call.message.format(), Status::OK);
        if asked.valid.has(Valid::FLDATAVERSION) {
            return Ok(Answer::new(reply.with(&MDT_BODY, &data_version(&inode)?)));
        }
        check_shown(export, &inode)?;
        let wanted = AttributeQuery {
            valid: asked.valid,
            ea_size: asked.ea_size,
            flags: export.client.flags,
        };
        Ok(Answer::new(self.fill(reply, asked.fid, &inode, (wanted, &self.view(call)))))
    }

    pub(crate) fn getattr_name(&self, call: &Call<'_>, export: &Export) -> Result<Answer, Failure> {
        let asked = body_of(call)?;
        let caller = self.caller(call, Caller::of_body(&asked))?;
        let name = call.message.require(&NAME).map_err(|_| Errno::EPROTO)?;
        let fid = self.lookup(asked.fid, name.as_bytes(), &caller)?.ok_or(Errno::ENOENT)?;
        let reply = Message::reply(call.message.format(), Status::OK);
        if asked.valid == Valid::FLID {
            let body = MdtBody { fid, valid: Valid::FLID, ..MdtBody::default() };
            return Ok(Answer::new(reply.with(&MDT_BODY, &body)));
        }
        let inode = self.inode(fid)?;
        check_shown(export, &inode)?;
        let wanted = AttributeQuery {
            valid: asked.valid,
            ea_size: asked.ea_size,
            flags: export.client.flags,
        };
        Ok(Answer::new(self.fill(reply, fid, &inode, (wanted, &self.view(call)))))
    }

    /// Returns the file of a name; `None` if there is none.
    ///
    /// # Errors
    /// ENOENT if the directory does not exist, ENOTDIR, EACCES, ENAMETOOLONG.
    pub fn lookup(
        &self,
        directory: Fid,
        name: &[u8],
        caller: &Caller,
    ) -> Result<Option<Fid>, Failure> {
        let parent = self.inode(directory)?;
        if !parent.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        check(&parent, caller, AccessMode::EXECUTE)?;
        match name {
            b"." => return Ok(Some(directory)),
            b".." => return Ok(Some(parent.parent().unwrap_or(directory))),
            _ if directory == Fid::BY_FID => return self.by_fid(name),
            _ => {}
        }
        Ok(self.entry(directory, name)?.map(|entry| entry.fid))
    }

    /// Returns the resource of the locks on a name in a directory, which operations take for each other.
    pub fn name_resource(&self, directory: Fid, name: &[u8]) -> ResourceId {
        let [seq, object, ..] = ResourceId::of_fid(directory).name;
        // It is never that of the locks of applications.
        ResourceId { name: [seq, object, 0, self.names.sum(name) | 1 << 63] }
    }

    /// Returns the file whose FID is a name of `.lustre/fid`.
    fn by_fid(&self, name: &[u8]) -> Result<Option<Fid>, Failure> {
        let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let parse = || {
            let text = std::str::from_utf8(name).ok()?;
            let text = text.strip_prefix('[').map_or(Some(text), |text| text.strip_suffix(']'))?;
            let mut parts = text.splitn(3, ':').map(number);
            let mut next = || parts.next().flatten();
            let (seq, oid, version) = (next()?, next()?, next()?);
            let (oid, version) = (u32::try_from(oid).ok()?, u32::try_from(version).ok()?);
            Some(Fid { seq, oid, version })
        };
        let fid = parse().ok_or(Errno::EINVAL)?;
        match self.inode(fid) {
            Ok(_) => Ok(Some(fid)),
            Err(Failure::Refused(Errno::ENOENT)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Executes the intent LOOKUP or GETATTR about a file that was found; `None`: there is none of this
    /// name.
    pub fn getattr_intent(&self, call: &Call<'_>, child: Option<Fid>) -> IntentReply {
        let executed = Disposition::IT_EXECD | Disposition::LOOKUP_EXECD;
        let reply = Message::reply(call.message.format(), Status::OK)
            .with(&LOCK_REPLY, &LockReply::default())
            .with(&MDT_BODY, &MdtBody::default());
        let Some(fid) = child else {
            let disposition = executed | Disposition::LOOKUP_NEG;
            return IntentReply { reply, disposition, result: Ok(()) };
        };
        let disposition = executed | Disposition::LOOKUP_POS;
        let filled = || {
            let asked = body_of(call)?;
            self.caller(call, Caller::of_body(&asked))?;
            let export = self.export(call.export)?;
            let inode = self.inode(fid)?;
            check_shown(&export, &inode)?;
            let flags = export.client.flags;
            let wanted = AttributeQuery { valid: asked.valid, ea_size: asked.ea_size, flags };
            Ok(self.fill(reply.clone(), fid, &inode, (wanted, &self.view(call))))
        };
        match filled() {
            Ok(reply) => IntentReply { reply, disposition, result: Ok(()) },
            Err::<_, Failure>(failure) => {
                IntentReply { reply, disposition, result: Err(failure.errno()) }
            }
        }
    }
}
