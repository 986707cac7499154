//! Loopback addresses and ports for tests, which no other test of this machine has at the same time.
//!
//! Tests run in many processes at once, and in several clones of the repository:
//!
//! ```text
//! fulmar_loopback::address()   127.64.0.1   an address for a node; its port may be a constant
//! fulmar_loopback::ports(2)    12000        the first of two ports, where the addresses are fixed
//! ```
//!
//! A process claims blocks of 1022 addresses and of 16 ports by abstract Unix sockets, whose names have the block's
//! number. The kernel gives such a name to one process at a time, and frees it when the process ends, however it ends.
//! All users of the machine share the names. Each network namespace has names of its own, as it has addresses.
//!
//! A claim takes one file descriptor, which stays open. A test that counts descriptors first calls [`address`].
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

/// 127.64.0.0, the first address of the first block. The last block ends before 127.255.0.0.
const FIRST_ADDRESS: u32 = 127 << 24 | 64 << 16;
const ADDRESS_BLOCKS: u32 = 191 << 6;
/// Hosts of a block of 1024 addresses, without its first and its last one.
const HOSTS: u32 = 1022;
/// Blocks of ports, below those that the kernel gives to connections.
const PORT_BLOCKS: u32 = 1250;
const PORTS: u32 = 16;
const FIRST_PORT: u32 = 12_000;

/// What this process has claimed of one kind.
struct Claims {
    kind: &'static str,
    blocks: u32,
    /// Numbers in a block.
    size: u32,
    /// The name of each block. It is free when the socket is closed.
    names: Vec<UnixDatagram>,
    block: u32,
    /// Numbers of the last block that are used.
    used: u32,
}

impl Claims {
    const fn new(kind: &'static str, blocks: u32, size: u32) -> Self {
        Self { kind, blocks, size, names: vec![], block: 0, used: size }
    }

    /// Returns a block and the first of `count` numbers in it.
    fn take(&mut self, count: u32) -> (u32, u32) {
        assert!(count <= self.size, "{count} {}s in a row: there are {}", self.kind, self.size);
        if self.used + count > self.size {
            self.claim();
        }
        self.used += count;
        (self.block, self.used - count)
    }

    fn claim(&mut self) {
        // Processes that began one after the other do not search the same blocks.
        let begin = std::process::id().wrapping_mul(7) % self.blocks;
        let found = (begin..self.blocks).chain(0..begin).find_map(|block| {
            let name = format!("fulmar-loopback-{}-{block}", self.kind);
            let name = SocketAddr::from_abstract_name(name).expect("it is short");
            match UnixDatagram::bind_addr(&name) {
                Ok(socket) => Some((block, socket)),
                Err(error) if error.kind() == ErrorKind::AddrInUse => None,
                Err(error) => panic!("a block of {}s cannot be claimed: {error}", self.kind),
            }
        });
        let (block, socket) =
            found.unwrap_or_else(|| panic!("tests have claimed every {}", self.kind));
        self.names.push(socket);
        (self.block, self.used) = (block, 0);
    }
}

/// Returns an address of 127.0.0.0/8 that no other test has.
///
/// # Panics
/// If thousands of processes test at once.
pub fn address() -> Ipv4Addr {
    static CLAIMS: Mutex<Claims> = Mutex::new(Claims::new("address", ADDRESS_BLOCKS, HOSTS));
    let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    let (block, first) = claims.take(1);
    Ipv4Addr::from_bits(FIRST_ADDRESS + block * (HOSTS + 2) + 1 + first)
}

/// Returns the first of `count` ports in a row, at most 16, that no other test has.
///
/// # Panics
/// If there are not so many.
pub fn ports(count: usize) -> u16 {
    static CLAIMS: Mutex<Claims> = Mutex::new(Claims::new("port", PORT_BLOCKS, PORTS));
    let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    let (block, first) = claims.take(u32::try_from(count).expect("a small number"));
    u16::try_from(FIRST_PORT + block * PORTS + first).expect("every block is below 65,536")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn addresses_and_ports_differ() {
        let addresses: BTreeSet<_> = (0..1500).map(|_| address()).collect();
        assert_eq!(addresses.len(), 1500);
        assert!(addresses.iter().all(|address| address.is_loopback() && address.octets()[1] >= 64));
        let starts: BTreeSet<_> = (0..40).map(|_| ports(2)).collect();
        assert_eq!(starts.len(), 40);
        assert!(starts.iter().all(|port| port % 2 == 0 && (12_000..32_000).contains(port)));
    }

    #[test]
    fn a_block_belongs_to_one_process() {
        let (mut one, mut other) = (Claims::new("test", 2, 4), Claims::new("test", 2, 4));
        let blocks = [one.take(4).0, other.take(1).0];
        assert_ne!(blocks[0], blocks[1]);
        drop(one);
        // What has ended leaves its block to others.
        assert_eq!((other.take(4).0, other.names.len()), (blocks[0], 2));
    }
}
