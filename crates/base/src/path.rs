//! What LNDs and the core tell each other of ways to peers.

/// What has become of the way from one of our interfaces to a NID of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathNews {
    /// There is a connection.
    Up,
    /// There is none, and none is being opened.
    Down,
    /// What is sent does not arrive, though nothing says so. Connections are still tried.
    Stalled,
}
