//! Which file descriptors the connections of LNet may take, so that others always remain for the
//! control socket, files and links.
//!
//! The kernel gives a new descriptor the lowest free number. So a socket with a number at or above
//! a limit shows that every number below it is in use, and the numbers above the limit remain.
//!
//! ```text
//! 0 ... incoming connections ... | ... own connections ... | ... everything else ... limit
//!                            accepted                    dialled
//! ```
//!
//! A new connection is accepted up to the second limit, so that the machine can decide which other
//! one gives way. It usually does so earlier, since it knows about how many there may be.

use std::os::fd::{AsRawFd, RawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits of the numbers of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// That of accepted connections.
    accepted: RawFd,
    /// That of dialled connections.
    dialled: RawFd,
}

impl Descriptors {
    /// Divides the limit of the process, which an administrator may change while it runs.
    pub(crate) fn of_process() -> Self {
        Self::new(getrlimit(Resource::Nofile).current)
    }

    /// Divides a limit of open files; `None` for none.
    fn new(limit: Option<u64>) -> Self {
        let limit = limit.and_then(|limit| RawFd::try_from(limit).ok()).unwrap_or(RawFd::MAX);
        let dialled = limit - RESERVED.min(limit / 2);
        Self { accepted: dialled - dialled / OWN_PART, dialled }
    }

    /// Returns whether another incoming connection must give way to an accepted one.
    pub(crate) fn is_full(self, socket: &impl AsRawFd) -> bool {
        socket.as_raw_fd() >= self.accepted
    }

    /// Returns whether a connection may keep its descriptor.
    pub(crate) fn may_keep(self, socket: &impl AsRawFd) -> bool {
        socket.as_raw_fd() < self.dialled
    }

    /// Returns how many incoming connections there may be.
    pub(crate) fn incoming_max(self) -> usize {
        let others = OTHERS.min(self.accepted / 4);
        usize::try_from(self.accepted - others).map_or(1, |most| most.max(1))
    }
}

/// Raises the limit of the process as far as it may be: thousands of peers have three connections
/// each.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // A failure is reported when descriptors run out.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Descriptors that no connection of LNet takes, or half of all if there are few: the control
/// socket and the metrics port have up to 72 clients.
const RESERVED: RawFd = 128;
/// Low numbers that are in use by others: threads, listeners, clients of the control socket.
const OTHERS: RawFd = 64;
/// Incoming connections leave this part of the others to connections that the node opens itself.
const OWN_PART: RawFd = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incoming_connections_leave_descriptors_to_the_node_and_all_connections_to_the_rest() {
        let of = |limit| Descriptors::new(Some(limit));
        assert_eq!(of(1024), Descriptors { accepted: 784, dialled: 896 });
        assert_eq!(of(256), Descriptors { accepted: 112, dialled: 128 });
        assert_eq!(of(64), Descriptors { accepted: 28, dialled: 32 });
        assert_eq!(of(256).incoming_max(), 84);
        assert_eq!(of(1024).incoming_max(), 720);
        for limit in [None, Some(u64::MAX)] {
            assert!(Descriptors::new(limit).accepted > 1 << 30, "{limit:?}");
        }
        assert_eq!(of(0).incoming_max(), 1);
    }

    #[test]
    fn a_number_below_the_limit_is_kept() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        let limits = Descriptors { accepted: number, dialled: number + 1 };
        assert!(limits.is_full(&file) && limits.may_keep(&file));
        let limits = Descriptors { accepted: number, dialled: number };
        assert!(!limits.may_keep(&file));
    }
}
