//! Assignment of servers to clients. Spec: lnet-selftest §14.

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::Destination;

/// How clients share servers: blocks of clients, each with a span of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Distribution {
    clients: usize,
    servers: usize,
    /// Clients in a block.
    block: usize,
    /// Servers of each client.
    span: usize,
}

impl Distribution {
    /// Returns the distribution `block:span` of at least one client over some servers.
    ///
    /// # Errors
    /// EINVAL if a part is zero, there are fewer servers than each client needs, or their list is
    /// longer than every node supports.
    pub(super) fn new(
        clients: usize,
        servers: usize,
        (block, span): (u32, u32),
    ) -> Result<Self, Errno> {
        if block == 0 || span == 0 || span > Destination::COUNT_MAX || span as usize > servers {
            return Err(Errno::EINVAL);
        }
        // A block of more clients than exist is a block of all.
        let block = (block as usize).min(clients);
        Ok(Self { clients, servers, block, span: span as usize })
    }

    /// Returns the number of servers of each client.
    pub(super) fn span(self) -> u32 {
        self.span as u32
    }

    /// Returns the servers of a client, both numbered in the order of their groups.
    pub(super) fn servers_of(self, client: usize) -> impl Iterator<Item = usize> {
        let start = client / self.block * self.span;
        (start..start + self.span).map(move |server| server % self.servers)
    }

    /// Returns how many RPCs of clients a server may have outstanding, with `concurrency` for each
    /// pair of a client and a server.
    pub(super) fn server_load(self, concurrency: u32) -> u32 {
        let blocks = self.clients.div_ceil(self.block);
        let spans = self.servers.div_ceil(self.span);
        let clients = blocks.div_ceil(spans) * self.block;
        u32::try_from(clients).unwrap_or(u32::MAX).saturating_mul(concurrency)
    }
}
