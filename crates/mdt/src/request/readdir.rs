//! Pages of directories. Spec: mdt-ost §7.5, §9.1 to §9.3.

use fulmar_base::Errno;
use fulmar_lustre_wire::directory::{DirectoryEntry, DirectoryPage};
use fulmar_lustre_wire::format::MDT_BODY;
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Content, Fid, Status};

use super::execute::body_of;
use crate::Mdt;
use crate::access::{AccessMode, Caller, check};
use crate::mdt::Call;
use crate::names::{self, DOT, DOT_DOT, Entry, ListEntry};
use crate::records::Failure;

/// More entries than a page has: the shortest takes 40 bytes.
const OF_PAGE: usize = 103;

/// A part of a directory for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Whole pages.
    pub bytes: Vec<u8>,
    /// The reply that follows them.
    pub reply: Message<'static>,
}

impl Mdt {
    /// Executes READPAGE.
    ///
    /// # Errors
    /// ENOENT if the directory does not exist, ENOTDIR, EACCES if the client has not opened it and the caller may not
    /// read it, EINVAL if less than a page is wanted.
    pub fn readpage(&self, call: &Call<'_>) -> Result<Pages, Errno> {
        self.read_pages(call).map_err(|failure| failure.errno())
    }

    fn read_pages(&self, call: &Call<'_>) -> Result<Pages, Failure> {
        let asked = body_of(call)?;
        self.export(call.export)?;
        let caller = self.caller(call, Caller::of_body(&asked))?;
        let room = asked.nlink.min(self.settings.brw_size) as usize / DirectoryPage::LEN;
        if room == 0 {
            return Err(Errno::EINVAL.into());
        }
        let inode = self.inode(asked.fid)?;
        if !inode.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        // Kernel clients do not open the root of a mount.
        if !self.opens().is_open_for(asked.fid, call.export) {
            check(&inode, &caller, AccessMode::READ)?;
        }
        let parent = inode.parent().unwrap_or(asked.fid);
        let is_dead = inode.attributes.nlink == 0;
        let mut bytes = Vec::new();
        let mut hash = asked.size;
        while bytes.len() < room * DirectoryPage::LEN {
            let entries =
                if is_dead { vec![] } else { self.entries_from(asked.fid, parent, hash)? };
            let (page, count) = DirectoryPage::fill(hash, &entries);
            bytes.extend(page.to_bytes());
            if page.hash_end == DirectoryPage::END || count == 0 {
                break;
            }
            hash = page.hash_end;
        }
        let reply = Message::reply(call.message.format(), Status::OK);
        Ok(Pages { bytes, reply: reply.with(&MDT_BODY, &MdtBody::default()) })
    }

    /// Returns the entries of a directory from a place on, more than a page of them if there are so many.
    fn entries_from(
        &self,
        directory: Fid,
        parent: Fid,
        hash: u64,
    ) -> Result<Vec<DirectoryEntry>, Failure> {
        let kind = crate::mode::DIRECTORY;
        let own = [(DOT, &b"."[..], directory), (DOT_DOT, b"..", parent)];
        let own = own.into_iter().filter(|(place, ..)| *place >= hash);
        let own = own.map(|(hash, name, fid)| {
            let entry = Entry::new(fid, kind);
            ListEntry { hash, name: name.to_vec(), entry }
        });
        let listed = names::list(&self.store, directory, hash, OF_PAGE)?;
        let shown = listed.into_iter().filter(|listed| !Self::is_hidden(directory, &listed.name));
        let shown = own.chain(shown).map(|ListEntry { hash, name, entry }| {
            DirectoryEntry::new(entry.fid, hash, &name, entry.kind)
        });
        Ok(shown.collect())
    }
}
