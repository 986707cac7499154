//! Paths between our interfaces and the NIDs of peers.

/// The state of the path from one of our interfaces to a NID of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// There is a connection.
    Up,
    /// There is no connection, and none is being opened.
    Down,
    /// What is sent does not arrive, and no error says so. Connections are still tried.
    Stalled,
}
