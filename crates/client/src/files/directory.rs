//! Reading directories, from the servers or from what is kept. Spec: mdt-ost §9.3, §9.4.

use fulmar_base::Errno;
use fulmar_lustre_wire::directory::DirectoryPage;
use fulmar_lustre_wire::format::{MDT_BODY, READPAGE};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::{Fid, Name, portal};
use fulmar_net::Buffer;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::import::Request;
use futures_util::future::join_all;

use super::caller::Caller;
use super::merge::{self, Part};
use super::request::body;
use super::shape::Stripes;
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

/// How much of a directory is read at once, of all its stripes together.
const READ_MAX: usize = 1 << 20;

impl Context {
    /// Returns names of a directory from a position on, 0 for the beginning, and the position after them;
    /// `None` at the end. One round trip for as many as fit into 1 MiB, and none for those that are kept.
    pub(crate) async fn read_directory(
        &self,
        caller: &Caller,
        fid: Fid,
        from: u64,
    ) -> Result<(Vec<DirectoryItem>, Option<u64>), Errno> {
        if from >= DirectoryPage::END {
            return Ok((Vec::new(), None));
        }
        let begun = self.core().now;
        let mut seen = self.seen(&[fid]);
        let (items, next) = loop {
            let shape = self.shape(caller, fid).await?;
            let read = match &shape.stripes {
                None => self.read_pages(caller, fid, (from, READ_MAX)).await.map(Part::items),
                Some(stripes) => self.read_stripes(caller, fid, stripes, from).await,
            };
            match read {
                Err(errno) if self.has_changed(caller, &mut seen, errno).await => {}
                read => break read?,
            }
        };
        let mut core = self.core();
        let taken = core.now.since(begun);
        if let Some(mount) = core.mounts.get_mut(&self.mount) {
            let names = items.iter().filter_map(|item| Name::new(item.name.clone()));
            // What is kept says how far away the servers are.
            let taken = taken.max(mount.pages.duration(fid));
            mount.listed(fid, names, (from == 0, taken));
        }
        Ok((items, next))
    }

    /// Returns names of a striped directory. One round trip.
    async fn read_stripes(
        &self,
        caller: &Caller,
        fid: Fid,
        stripes: &Stripes,
        from: u64,
    ) -> Result<(Vec<DirectoryItem>, Option<u64>), Errno> {
        let room = READ_MAX / stripes.all().count().max(1) / PAGE * PAGE;
        let wanted = (merge::start(from), room.max(PAGE));
        let read = stripes.all().map(|stripe| self.read_pages(caller, stripe, wanted));
        let mut parts = vec![self.own_names(fid, from)];
        let mut gone = None;
        for part in join_all(read).await {
            match part {
                Err(errno @ (Errno::ENOENT | Errno::ESTALE)) => gone = Some(errno),
                part => parts.push(part?.without_own_names()),
            }
        }
        match gone {
            // A directory that was removed has no names.
            Some(errno) if parts.len() > 1 => Err(errno),
            _ => merge::merged(parts),
        }
    }

    /// Returns the directory itself and the one that it is in: of those that stripes have, one is the directory.
    fn own_names(&self, fid: Fid, from: u64) -> Part {
        let above = {
            let core = self.core();
            core.mounts.get(&self.mount).and_then(|mount| mount.parent_of(fid))
        };
        Part::own_names(fid, above.unwrap_or(fid), from)
    }

    /// Returns names of a directory of an MDT from a position on, as many as fit. They are kept if a lock protects them
    /// from before they are read until after that.
    async fn read_pages(
        &self,
        caller: &Caller,
        fid: Fid,
        (from, room): (u64, usize),
    ) -> Result<Part, Errno> {
        let (begun, updates) = {
            let mut core = self.core();
            let begun = core.now;
            let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            let updates = mount.protected_names(fid);
            if updates.is_some()
                && let Some(found) = mount.pages.find(fid, caller, from)
            {
                return Ok(found);
            }
            (begun, updates)
        };
        let part = self.request_pages(caller, fid, (from, room)).await?;
        let mut core = self.core();
        let duration = core.now.since(begun);
        if let Some(mount) = core.mounts.get_mut(&self.mount)
            && updates.is_some()
            && updates == mount.protected_names(fid)
        {
            mount.pages.keep(fid, caller, (from, &part), duration);
        }
        Ok(part)
    }

    /// Asks for them.
    async fn request_pages(
        &self,
        caller: &Caller,
        fid: Fid,
        (from, room): (u64, usize),
    ) -> Result<Part, Errno> {
        let mdt = self.mdt(fid).await?;
        let len = {
            let mut core = self.core();
            let granted = core.client().import(mdt).map_or(0, |one| one.granted().brw_size);
            (granted as usize / PAGE * PAGE).clamp(PAGE, room)
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
        Part::decode(&buffer.to_vec(0, moved))
    }
}
