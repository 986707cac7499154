//! Reading directories. Spec: mdt-ost §9.3.

use fulmar_base::Errno;
use fulmar_lustre_wire::directory::{DirectoryPage, PageFlags};
use fulmar_lustre_wire::format::{MDT_BODY, READPAGE};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::{Content, Fid, Name, portal};
use fulmar_net::Buffer;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::import::Request;
use fulmar_wire::Order;

use super::caller::Caller;
use super::request::body;
use crate::machine::context::Context;
use crate::mounting::BODY_LEN;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryItem {
    /// The name; `.` and `..` are among them.
    pub name: Vec<u8>,
    /// The file.
    pub fid: Fid,
    /// The type of the file: `mode & 0o170_000`, 0 if it is not known.
    pub file_type: u32,
    /// Where to continue after it.
    pub next: u64,
}

/// The length of a page.
const PAGE: usize = 4096;
/// What entries are read with: FID and type.
const WANTED: u32 = 3;

impl Context {
    /// Returns names of a directory from a position on, 0 for the beginning, and the position after them;
    /// `None` at the end. One round trip for as many as fit into 1 MiB.
    pub(crate) async fn read_directory(
        &self,
        caller: &Caller,
        fid: Fid,
        from: u64,
    ) -> Result<(Vec<DirectoryItem>, Option<u64>), Errno> {
        if from >= DirectoryPage::END {
            return Ok((Vec::new(), None));
        }
        let mdt = self.mdt(fid).await?;
        let len = {
            let mut core = self.core();
            let granted = core.client().import(mdt).map_or(0, |one| one.granted().brw_size);
            (granted as usize / PAGE * PAGE).clamp(PAGE, 1 << 20)
        };
        let buffer = Buffer::new(len);
        let id = self.core().add_buffer(buffer.clone());
        let bulk = Bulk::new(Direction::ToClient, portal::MDS_BULK, (id, 0, len as u64), 0);
        let wanted = MdtBody {
            valid: Valid::FLID,
            size: from,
            nlink: len as u32,
            mode: WANTED,
            ..body(caller, fid, None)
        };
        let message = Message::request(&READPAGE).with(&MDT_BODY, &wanted);
        let request = Request::new(message, len_with(&[Body::LEN, BODY_LEN]));
        let request = request.at(portal::MDS_READPAGE).with_bulk(bulk);
        let done = self.request_with(mdt, request, Some(id)).await?;
        if let Some(errno) = done.result?.body.status.errno() {
            return Err(errno);
        }
        let moved = usize::try_from(done.moved).unwrap_or(0).min(len);
        let (items, next) = items(&buffer.to_vec(0, moved))?;
        if let Some(mount) = self.core().mounts.get_mut(&self.mount) {
            let names = items.iter().filter_map(|item| Name::new(item.name.clone()));
            mount.listed(fid, names, from == 0);
        }
        Ok((items, next))
    }
}

/// Returns the names in pages, and where to go on.
fn items(bytes: &[u8]) -> Result<(Vec<DirectoryItem>, Option<u64>), Errno> {
    let (mut items, mut next): (Vec<DirectoryItem>, _) = (Vec::new(), None);
    for page in bytes.chunks_exact(PAGE) {
        let page = DirectoryPage::decode(page, Order::Little).map_err(|_| Errno::EPROTO)?;
        for entry in &page.entries {
            // A position is the hash of the name that is next.
            if let Some(last) = items.last_mut() {
                last.next = entry.hash;
            }
            items.push(DirectoryItem {
                name: entry.name.clone(),
                fid: entry.fid,
                file_type: entry.file_type().unwrap_or(0).into(),
                next: page.hash_end,
            });
        }
        next = (page.hash_end < DirectoryPage::END).then_some(page.hash_end);
        if next.is_none() || page.flags.has(PageFlags::EMPTY) {
            return Ok((items, None));
        }
    }
    match next {
        // No page at all would be read for ever.
        None => Err(Errno::EPROTO),
        next => Ok((items, next)),
    }
}
