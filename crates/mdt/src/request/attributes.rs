//! The attributes of files in replies. Spec: mdt-ost §3.3.

use fulmar_lustre_wire::acl::Acl;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{ACL, DEFAULT_LAYOUT, LAYOUT, MDT_BODY};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Content, Fid};
use fulmar_nodemap::{IdKind, View};
use fulmar_wire::Order;

use crate::Mdt;
use crate::inode::{Extra, Inode};
use crate::mode;

/// The size of the largest layout as long as there was none larger.
const LAYOUT_MIN: u32 = 128;

/// What a client wants to know of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeQuery {
    pub(crate) valid: Valid,
    /// The room for a layout or the target of a symbolic link.
    pub(crate) ea_size: u32,
    /// What was granted to the client.
    pub(crate) flags: ConnectFlags,
}

/// Returns the attributes that all files have, as a client sees them.
pub(crate) fn body(fid: Fid, inode: &Inode, view: &View) -> MdtBody {
    let of = &inode.attributes;
    let mut body = MdtBody {
        fid,
        valid: Valid::FLID
            | Valid::FLATIME
            | Valid::FLMTIME
            | Valid::FLCTIME
            | Valid::FLMODE
            | Valid::FLTYPE
            | Valid::FLUID
            | Valid::FLGID
            | Valid::FLFLAGS
            | Valid::FLNLINK
            | Valid::FLPROJID
            | Valid::FLBTIME,
        size: of.size,
        blocks: of.blocks,
        mtime: of.mtime,
        atime: of.atime,
        ctime: of.ctime,
        btime: of.btime,
        mode: of.mode,
        uid: view.to_client(IdKind::User, of.uid),
        gid: view.to_client(IdKind::Group, of.gid),
        flags: of.flags,
        rdev: of.rdev,
        nlink: of.nlink,
        projid: view.to_client(IdKind::Project, of.projid),
        ..MdtBody::default()
    };
    let sizes = Valid::FLSIZE | Valid::FLBLOCKS;
    match inode.som() {
        _ if !inode.is_regular() => body.valid = body.valid | sizes | Valid::FLRDEV,
        _ if inode.extra(Extra::Layout).is_empty() => {
            body.valid = body.valid | sizes;
            body.blocks = 0;
        }
        Some(som) => {
            body.valid = body.valid | Valid::FLLAZYSIZE | Valid::FLLAZYBLOCKS;
            (body.size, body.blocks) = (som.size, som.blocks);
        }
        None => {}
    }
    body
}

impl Mdt {
    /// Fills a reply with what a client wants to know of a file.
    pub(crate) fn fill(
        &self,
        reply: Message<'static>,
        fid: Fid,
        inode: &Inode,
        (asked, view): (AttributeQuery, &View),
    ) -> Message<'static> {
        let mut body = body(fid, inode, view);
        let mut reply = reply;
        if let Some((valid, value)) = shown_layout(inode, asked) {
            body.valid = body.valid | valid;
            body.ea_size = value.len() as u32;
            self.note_layout(value.len());
            reply = reply.with_bytes(&LAYOUT, value);
        }
        if asked.valid.has(Valid::FLMODEASIZE) {
            body.valid = body.valid | Valid::FLMODEASIZE;
            body.max_md_size = self.layout_max().max(LAYOUT_MIN);
        }
        let default = inode.extra(Extra::DefaultLmv);
        if inode.is_directory() && asked.valid.has(Valid::DEFAULT_MEA) && !default.is_empty() {
            body.valid = body.valid | Valid::FLDIREA | Valid::DEFAULT_MEA;
            let buffers = reply.format().reply;
            let has_place = buffers.iter().any(|buffer| buffer.name() == DEFAULT_LAYOUT.name());
            let place = default.to_vec();
            reply = if has_place {
                reply.with_bytes(&DEFAULT_LAYOUT, place)
            } else {
                reply.with_bytes(&LAYOUT, place)
            };
        }
        if asked.valid.has(Valid::FLACL) && asked.flags.has(ConnectFlags::ACL) {
            let acl = acl_to_client(inode.extra(Extra::Acl), view);
            body.valid = body.valid | Valid::FLACL;
            body.acl_size = acl.len() as u32;
            reply = reply.with_bytes(&ACL, acl);
        }
        reply.with(&MDT_BODY, &body)
    }
}

/// Returns a list as a client sees it.
pub(crate) fn acl_to_client(acl: &[u8], view: &View) -> Vec<u8> {
    match Acl::decode(acl, Order::Little) {
        Ok(acl) if !view.is_plain() => view.acl_to_client(&acl).to_bytes(),
        _ => acl.to_vec(),
    }
}

/// Returns what the buffer of layouts has for a client, and which bits say so.
fn shown_layout(inode: &Inode, asked: AttributeQuery) -> Option<(Valid, Vec<u8>)> {
    let valid = asked.valid;
    if asked.ea_size == 0 {
        return None;
    }
    let layout = inode.extra(Extra::Layout);
    match inode.kind() {
        mode::SYMLINK if valid.has(Valid::LINKNAME) => {
            let mut target = inode.extra(Extra::Symlink).to_vec();
            target.push(0);
            target.truncate(asked.ea_size as usize);
            Some((Valid::LINKNAME, target))
        }
        mode::REGULAR if valid.has(Valid::FLEASIZE) && !layout.is_empty() => {
            Some((Valid::FLEASIZE, layout.to_vec()))
        }
        // With this bit the layout of a striped directory is wanted.
        mode::DIRECTORY if valid.has(Valid::FLDIREA) && !valid.has(Valid::MEA) => {
            let bits = Valid::FLDIREA;
            (!layout.is_empty()).then(|| (bits, layout.to_vec()))
        }
        _ => None,
    }
}
