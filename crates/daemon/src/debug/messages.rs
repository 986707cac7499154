//! The messages of the node in the debug log.

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventDone, MdId, Op};
use fulmar_lnet_wire::{Body, Header};
use fulmar_net::Tap;
use fulmar_node::{Crossing, Node};
use tracing::trace;

/// The target of the events.
pub(super) const TARGET: &str = module_path!();

/// Writes a line for each message between the core and a network driver.
#[derive(Debug)]
pub(super) struct Messages;

impl Tap for Messages {
    fn posted(&self, _: &Op, _: Result<MdId, Errno>) {}

    fn crossing(&self, _: &Node, crossing: &Crossing) {
        match crossing {
            Crossing::Handed(request) => {
                let (id, next) = (request.message.0, request.next_hop);
                trace!("message {id}: {} by {next}", text(&request.header));
            }
            Crossing::Returned { message, sent: true } => trace!("message {} is sent", message.0),
            Crossing::Returned { message, .. } => trace!("message {} is not sent", message.0),
            Crossing::Received(received) => {
                trace!("received {} by {}", text(&received.header), received.from);
            }
        }
    }

    fn event(&self, _: &Event) {}

    fn handled(&self, _: EventDone) {}
}

/// Returns what a header says, such as `PUT 10.0.0.1@tcp->10.0.0.2@tcp portal 12 bits 0x5 length 352`.
fn text(header: &Header) -> String {
    let Header { source, target, payload_len, .. } = header;
    let ends = format!("{source}->{target}");
    match &header.body {
        Body::Put { portal, match_bits, .. } => {
            format!("PUT {ends} portal {portal} bits {match_bits:#x} length {payload_len}")
        }
        Body::Get { portal, match_bits, sink_len, .. } => {
            format!("GET {ends} portal {portal} bits {match_bits:#x} length {sink_len}")
        }
        Body::Ack { match_bits, accepted, .. } => {
            format!("ACK {ends} bits {match_bits:#x} length {accepted}")
        }
        Body::Reply { .. } => format!("REPLY {ends} length {payload_len}"),
    }
}
