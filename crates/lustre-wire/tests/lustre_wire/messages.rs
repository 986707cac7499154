//! The messages in a capture, split into their buffers.

use fulmar_lnet_wire::header::Body;
use fulmar_trace::lnet::{Kind, parse};
use fulmar_trace::{Capture, Conversation, decompress};

/// What a node sent to a portal of another one.
pub(crate) struct Put {
    pub(crate) portal: u32,
    pub(crate) payload: Vec<u8>,
}

/// A message; its first buffer, the RPC body, is not in `buffers`.
pub(crate) struct Message<'a> {
    pub(crate) is_request: bool,
    pub(crate) opcode: u32,
    pub(crate) status: u32,
    pub(crate) buffers: Vec<&'a [u8]>,
}

/// Returns what the nodes of a trace sent, in the order of the connections.
pub(crate) fn puts(trace: &str) -> Vec<Put> {
    let path = format!("{}/../../testdata/traces/{trace}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file = decompress(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let capture = Capture::read(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let connections = Conversation::of(&capture).connections;
    let items = connections.iter().flat_map(parse);
    let put = |kind| match kind {
        Kind::Frame { lnet: Some((header, payload)), .. } => match header.body {
            Body::Put { portal, .. } => Some(Put { portal, payload }),
            _ => None,
        },
        _ => None,
    };
    items.filter_map(|item| put(item.kind)).collect()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Splits a message without the RPC body, as batches have it.
pub(crate) fn split(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    const MAGIC: u32 = 0x0bd0_0bd3;
    let count = word(bytes, 0)? as usize;
    if word(bytes, 8)? != MAGIC || count > 32 {
        return None;
    }
    let mut place = (32 + 4 * count).next_multiple_of(8);
    let mut buffers = Vec::new();
    for index in 0..count {
        let len = word(bytes, 32 + 4 * index)? as usize;
        buffers.push(bytes.get(place..place + len)?);
        place += len.next_multiple_of(8);
    }
    Some((buffers, place))
}

impl<'a> Message<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        let (mut buffers, _) = split(bytes)?;
        let body = (!buffers.is_empty()).then(|| buffers.remove(0))?;
        let is_request = match word(body, 8)? {
            4711 => true,
            4713 => false,
            _ => return None,
        };
        Some(Self { is_request, opcode: word(body, 16)?, status: word(body, 20)?, buffers })
    }
}
