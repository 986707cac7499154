//! Nodemaps, as servers read them from the management service. Spec: ptlrpc-ldlm-mgs §32.4.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{CONFIG_BODY, CONFIG_READ, CONFIG_RESULT};
use fulmar_lustre_wire::index::IndexPage;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::mgs::{ConfigRead, ConfigReadKind, NodemapEntry};
use fulmar_lustre_wire::{Text, portal};
use fulmar_net::Buffer;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;
use fulmar_wire::{Order, Reader};

use crate::{Error, Session};

/// How many pages are read at once.
const PAGES: usize = 64;
/// The most records: as many as an administrator can make of ours.
const ENTRIES_MAX: usize = 1 << 22;
/// The length of a reply.
const RESULT_LEN: usize = 16;
/// The place after the last record.
const ENDS: [u64; 2] = [u64::MAX, u64::MAX - 1];
/// How often reading begins again since something has changed.
const ATTEMPTS: usize = 10;

impl Session {
    /// Reads all records of the nodemaps. None: the service has no nodemaps.
    ///
    /// # Errors
    /// [`Error::Request`] or [`Error::Invalid`].
    pub fn nodemaps(&self, mgs: ImportId) -> Result<Vec<NodemapEntry>, Error> {
        for _ in 0..ATTEMPTS {
            match self.read_nodemaps(mgs) {
                Ok(Some(entries)) => return Ok(entries),
                Ok(None) => {}
                Err(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok(vec![]),
                Err(errno) => {
                    return Err(Error::Request { what: "reading the nodemaps".to_owned(), errno });
                }
            }
        }
        let errno = Errno::EAGAIN;
        Err(Error::Request { what: "reading nodemaps that change all the time".to_owned(), errno })
    }

    /// The same; `None` if they have changed meanwhile.
    fn read_nodemaps(&self, mgs: ImportId) -> Result<Option<Vec<NodemapEntry>>, Errno> {
        let (mut entries, mut offset, mut pass) = (vec![], 0, 0);
        loop {
            let asked = ConfigRead {
                name: Text::new("nodemap").unwrap_or_default(),
                kind: ConfigReadKind::NODEMAP,
                offset,
                nid_size: pass,
                unit_bits: 12,
                units: PAGES as u32,
            };
            let request = Message::request(&CONFIG_READ).with(&CONFIG_BODY, &asked);
            let request = Request::new(request, len_with(&[Body::LEN, RESULT_LEN]));
            let (reply, data) = self.fetch(mgs, request, PAGES * IndexPage::LEN)?;
            let result = reply.require(&CONFIG_RESULT).map_err(|_| Errno::EPROTO)?;
            let before = entries.len();
            for page in data.chunks_exact(IndexPage::LEN) {
                // Nothing was stored behind the last page.
                let Ok((page, order)) = read_page(page) else { break };
                entries.extend(page.entries::<NodemapEntry>(order).map_err(|_| Errno::EPROTO)?);
            }
            if ENDS.contains(&result.offset) {
                return Ok(Some(entries));
            }
            if result.offset == 0 {
                return Ok(None);
            }
            if entries.len() == before || entries.len() > ENTRIES_MAX {
                return Err(Errno::EPROTO);
            }
            (offset, pass) = (result.offset, result.size as u8);
        }
    }

    /// Sends a request whose reply comes after bulk data of up to `len` bytes, and returns both. What was not
    /// stored is zero.
    fn fetch(
        &self,
        import: ImportId,
        request: Request,
        len: usize,
    ) -> Result<(Box<Message<'static>>, Vec<u8>), Errno> {
        let buffer = Arc::new(Buffer::new(len));
        buffer.fill(0);
        let id = self.lend(buffer.clone());
        let bulk = Bulk::new(Direction::ToClient, portal::MGS_BULK, (id, 0, len as u64), 0);
        let reply = self.call(import, request.with_bulk(bulk));
        self.take_back(id);
        Ok((reply?, buffer.to_vec(0, len)))
    }
}

/// Reads a page, in the byte order of its sender.
fn read_page(bytes: &[u8]) -> Result<(IndexPage, Order), Errno> {
    [Order::Little, Order::Big]
        .into_iter()
        .find_map(|order| {
            let page = fulmar_wire::Field::read(&mut Reader::new(bytes, order), "page").ok()?;
            Some((page, order))
        })
        .ok_or(Errno::EPROTO)
}
