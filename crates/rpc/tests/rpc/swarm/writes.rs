//! Operations with data, which the server fetches before it executes them.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lustre_wire::portal;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::service::{Request, RequestId, Server};

use crate::node::Node;

const LEN: usize = 64;

/// What the server fetches.
#[derive(Default)]
pub(super) struct Writes {
    fetching: BTreeMap<RequestId, (BufferId, Box<Request>)>,
    buffers: u64,
}

impl Writes {
    /// Fetches the data of a request.
    pub(super) fn fetch(&mut self, now: Time, server: &mut Node<Server>, request: Box<Request>) {
        self.buffers += 1;
        let buffer = BufferId(self.buffers);
        server.buffers.insert(buffer, vec![0; LEN]);
        let id = request.id;
        self.fetching.insert(id, (buffer, request));
        server.service.transfer(now, id, bulk(buffer), 1);
    }

    /// Returns the request, and whether its data have arrived; they are those of its operation.
    pub(super) fn fetched(
        &mut self,
        server: &mut Node<Server>,
        id: RequestId,
        result: Result<u64, Errno>,
    ) -> (Box<Request>, bool) {
        let (buffer, request) = self.fetching.remove(&id).expect("it is fetched");
        let bytes = server.buffers.remove(&buffer).expect("the memory was there");
        if result.is_err() {
            return (request, false);
        }
        assert_eq!(bytes, content(request.message.body.project), "{request:?}");
        (request, true)
    }

    /// Forgets what a server was doing that has ended.
    pub(super) fn forget(&mut self) {
        self.fetching.clear();
    }
}

/// Returns the data of an operation.
pub(super) fn content(operation: u32) -> Vec<u8> {
    operation.to_le_bytes().into_iter().cycle().take(LEN).collect()
}

pub(super) fn bulk(buffer: BufferId) -> Bulk {
    Bulk::new(Direction::ToServer, portal::MDS_BULK, (buffer, 0, LEN as u64), 0)
}
