//! A node sends only pings to an unknown peer. Checks invariant 26 of lnet-behaviour §17.

use std::collections::BTreeSet;

use fulmar_lnet_wire::{Body, Header, RESERVED_PORTAL};

use super::ledger::Ledger;
use super::rails::operation_of;
use super::{Verdict, require};
use crate::HostId;
use crate::signal::Signal;
use crate::world::World;

/// The pairs of nodes of which the first has pinged the second or received its push.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    known: BTreeSet<(HostId, HostId)>,
}

impl Discovery {
    pub(super) fn observe(&mut self, world: &World, ledger: &Ledger, signal: &Signal) -> Verdict {
        match signal {
            Signal::Wrote { host, header, .. } => {
                // Only the source and the target matter, not the routers between them.
                let ends = (world.host_of(header.source), world.host_of(header.target));
                match ends {
                    // The pushes of hostile hosts are not seen here.
                    (Some(_), Some(to)) if world.is_hostile(to) => Ok(()),
                    // What is for a hostile host goes to any NID that it lists.
                    _ if operation_of(ledger, header)
                        .is_some_and(|n| !ledger.operations[n].honest) =>
                    {
                        Ok(())
                    }
                    (Some(from), Some(to)) if from == *host => self.wrote(from, to, header),
                    _ => Ok(()),
                }
            }
            Signal::Crashed { host } => {
                self.known.retain(|(one, _)| one != host);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn wrote(&mut self, host: HostId, peer: HostId, header: &Header) -> Verdict {
        match header.body {
            Body::Get { portal: RESERVED_PORTAL, .. } => {
                self.known.insert((host, peer));
            }
            // A push carries the same information as a ping.
            Body::Put { portal: RESERVED_PORTAL, .. } => {
                self.known.insert((peer, host));
            }
            Body::Get { .. } | Body::Put { .. } => {
                let known = self.known.contains(&(host, peer));
                return require(known, "discovery", || {
                    format!("{host} has not pinged {peer}, but writes {header:?}")
                });
            }
            Body::Ack { .. } | Body::Reply { .. } => {}
        }
        Ok(())
    }
}
