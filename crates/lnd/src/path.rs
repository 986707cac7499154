//! Paths between local interfaces and the NIDs of peers.

/// The state of the path from a local interface to a NID of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// There is a connection.
    Up,
    /// There is no connection, and none is being opened.
    Down,
    /// Sent data do not arrive, without an error. New connections are tried.
    Stalled,
}
