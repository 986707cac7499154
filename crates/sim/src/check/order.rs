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
            // A message whose connection ended in the middle of it may come again on another.
            Signal::Event { event, .. } if event.kind == EventKind::Put && event.status.is_ok() => {
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

#[cfg(test)]
mod tests {
    use fulmar_base::Errno;
    use fulmar_lnet::MdId;
    use fulmar_lnet_wire::{Handle, Header, Nid, Pid};

    use super::*;

    const PORTAL: u32 = 12;

    fn wrote(tcp: usize, header_data: u64) -> Signal {
        let (ack, match_bits, offset) = (Handle::NONE, 1, 0);
        let header = Header {
            target: Nid::ANY,
            source: Nid::ANY,
            target_pid: Pid::LUSTRE,
            source_pid: Pid::LUSTRE,
            payload_len: 10,
            body: Body::Put { ack, match_bits, header_data, portal: PORTAL, offset },
        };
        let (host, peer, ni, peer_ni) = (HostId(0), HostId(1), Nid::ANY, Nid::ANY);
        Signal::Wrote { host, peer, ni, peer_ni, tcp: TcpId(tcp), header, info: None }
    }

    fn arrived(header_data: u64, status: Result<(), Errno>) -> Signal {
        let base = Event::unlinked(MdId(1), 0);
        let event = Event { kind: EventKind::Put, status, header_data, ..base };
        Signal::Event { host: HostId(1), event }
    }

    #[test]
    fn a_message_that_ended_halfway_and_comes_again_is_not_overtaken() {
        let ledger = Ledger::with_puts(&[7]);
        let mut order = Order::default();
        let signals =
            [wrote(1, 7), wrote(2, 7), arrived(7, Err(Errno::ECONNRESET)), arrived(7, Ok(()))];
        for signal in signals {
            order.observe(&ledger, &signal).unwrap();
        }
    }

    #[test]
    fn a_later_message_of_a_connection_does_not_come_first() {
        let ledger = Ledger::with_puts(&[7, 8]);
        let mut order = Order::default();
        for signal in [wrote(1, 7), wrote(1, 8), arrived(8, Ok(()))] {
            order.observe(&ledger, &signal).unwrap();
        }
        assert!(order.observe(&ledger, &arrived(7, Ok(()))).is_err());
    }
}
