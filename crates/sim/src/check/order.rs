//! Messages on one connection are received in the order in which they were sent.
//! Checks invariant 17 of lnet-behaviour §17.

use std::collections::BTreeMap;

use fulmar_lnet::{Event, EventKind};
use fulmar_lnet_wire::selftest::{BULK_PORTAL, REQUEST_PORTAL};
use fulmar_lnet_wire::{Body, RESERVED_PORTAL};

use super::ledger::Ledger;
use super::{Verdict, require};
use crate::signal::Signal;
use crate::{HostId, TcpId};

const CHECKER: &str = "order";

/// The PUTs on each direction of each connection.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// By operation: the connection on which it was written, the writer, and a sequence number.
    written: BTreeMap<usize, (TcpId, HostId, u64)>,
    count: u64,
    /// The sequence number of the last one received.
    received: BTreeMap<(TcpId, HostId), u64>,
}

impl Order {
    pub(super) fn observe(&mut self, ledger: &Ledger, signal: &Signal) -> Verdict {
        match signal {
            Signal::Wrote { host, tcp, header, .. } => {
                let Body::Put { header_data, portal, .. } = header.body else { return Ok(()) };
                // Services of the nodes write these, and do not guarantee an order.
                if matches!(portal, RESERVED_PORTAL | REQUEST_PORTAL..=BULK_PORTAL) {
                    return Ok(());
                }
                let Some(number) = ledger.put_of(header_data) else {
                    return require(false, CHECKER, || format!("{host} writes {header:?}"));
                };
                self.count += 1;
                self.written.insert(number, (*tcp, *host, self.count));
                Ok(())
            }
            Signal::Event { event, .. } if event.kind == EventKind::Put => {
                self.received(ledger, event)
            }
            _ => Ok(()),
        }
    }

    fn received(&mut self, ledger: &Ledger, event: &Event) -> Verdict {
        let Some(number) = ledger.put_of(event.header_data) else { return Ok(()) };
        let Some(&(tcp, from, count)) = self.written.get(&number) else {
            let loopback = ledger.operations[number].loopback;
            return require(loopback, CHECKER, || {
                format!("operation {number} is received, but was not sent")
            });
        };
        let last = self.received.insert((tcp, from), count);
        require(last.is_none_or(|last| last < count), CHECKER, || {
            format!("operation {number} was overtaken on {tcp}")
        })
    }
}
