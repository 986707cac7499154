//! LNet on a connection: requests, hellos, frames and messages from chunks.
//!
//! A connection whose start was not captured is assumed to have version 3, or version 4 over IPv6,
//! and to start at a frame.

use fulmar_base::Time;
use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::header::{Header, HeaderForm};
use fulmar_lnet_wire::socklnd::{FrameHeader, FrameKind, Hello, Version};
use fulmar_wire::{DecodeError, Order};

use crate::tcp::{Chunk, Connection, Conversation, Direction, Start};
use crate::{Capture, CaptureError, decompress};

/// A unit of the protocol that one side sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The time of its last byte.
    pub time: Time,
    /// The sender.
    pub direction: Direction,
    /// Its bytes, without an LNet message's payload.
    pub bytes: Vec<u8>,
    /// Its kind and content.
    pub kind: Kind,
}

/// The kind and the content of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The connecting side names the target interface.
    ConnRequest(ConnRequest),
    /// The hello of a side.
    Hello(Hello),
    /// A frame.
    Frame {
        /// Its header.
        header: FrameHeader,
        /// The LNet message in it, and its payload.
        lnet: Option<(Header, Vec<u8>)>,
    },
    /// An incomplete item at the end of the capture.
    Incomplete,
    /// Invalid bytes. The rest of this direction is not decoded.
    Malformed(DecodeError),
}

/// Decodes all connections of a capture, whose file may be compressed.
///
/// # Errors
/// Why it cannot be read.
pub fn items(file: &[u8]) -> Result<Vec<Item>, CaptureError> {
    let file = decompress(file)?;
    let capture = Capture::read(&file)?;
    Ok(Conversation::of(&capture).connections.iter().flat_map(parse).collect())
}

/// Decodes both directions of a connection. Items are in the order of their last bytes.
pub fn parse(connection: &Connection<'_>) -> Vec<Item> {
    let is_ipv6 = connection.passive.is_ipv6();
    let older = connection.start == Start::Earlier;
    let side = |direction| Side {
        direction,
        buffer: Vec::new(),
        order: Order::Little,
        form: if is_ipv6 { HeaderForm::Large } else { HeaderForm::Small },
        expects: match direction {
            _ if older => Expects::Frame,
            Direction::FromActive => Expects::Request,
            Direction::FromPassive => Expects::Hello,
        },
    };
    let mut sides = [side(Direction::FromActive), side(Direction::FromPassive)];
    let mut items = Vec::new();
    for chunk in &connection.chunks {
        let side = &mut sides[chunk.direction.index()];
        side.handle_chunk(chunk, &mut items);
        // The answer decides the version of both sides.
        let (form, agreed) = (side.form, side.expects == Expects::Frame);
        if chunk.direction == Direction::FromPassive && agreed {
            sides[Direction::FromActive.index()].form = form;
        }
    }
    for side in sides.into_iter().filter(|side| !side.buffer.is_empty()) {
        let last = connection.chunks.iter().rfind(|chunk| chunk.direction == side.direction);
        let time = last.map_or(connection.opened, |chunk| chunk.time);
        let (direction, bytes) = (side.direction, side.buffer);
        items.push(Item { time, direction, bytes, kind: Kind::Incomplete });
    }
    items
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Request,
    Hello,
    Frame,
    /// A message of version 1, which has no frames and is not decoded.
    Unframed,
    /// Nothing, after malformed bytes.
    Nothing,
}

/// The bytes of one side that are not decoded yet: less than one item, which is limited by the
/// largest LNet message, and the rest of a chunk.
struct Side {
    direction: Direction,
    buffer: Vec<u8>,
    order: Order,
    form: HeaderForm,
    expects: Expects,
}

/// An item, the length of its bytes without payload, and with it.
type DecodedItem = (Kind, usize, usize);

impl Side {
    fn handle_chunk(&mut self, chunk: &Chunk<'_>, items: &mut Vec<Item>) {
        if self.expects == Expects::Nothing {
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(chunk.bytes);
        let mut used = 0;
        loop {
            let bytes = &buffer[used..];
            let (kind, len, whole) = match self.decode(bytes) {
                Ok(Some(decoded)) => decoded,
                Ok(None) => break,
                Err(error) => (Kind::Malformed(error), bytes.len(), bytes.len()),
            };
            self.advance(&kind);
            let bytes = bytes[..len].to_vec();
            items.push(Item { time: chunk.time, direction: self.direction, bytes, kind });
            used += whole;
        }
        buffer.drain(..used);
        self.buffer = buffer;
    }

    /// Decodes the item at the start of `bytes`; `None` while it is incomplete.
    fn decode(&mut self, bytes: &[u8]) -> Result<Option<DecodedItem>, DecodeError> {
        match self.expects {
            _ if bytes.is_empty() => Ok(None),
            Expects::Request => {
                let request = ConnRequest::decode(bytes)?;
                Ok(request.map(|(request, len)| (Kind::ConnRequest(request), len, len)))
            }
            Expects::Hello => {
                let Some((hello, order, len)) = Hello::decode(bytes)? else { return Ok(None) };
                self.order = order;
                Ok(Some((Kind::Hello(hello), len, len)))
            }
            Expects::Frame => decode_frame(bytes, self.order, self.form),
            Expects::Unframed => Err(DecodeError::Version { got: 1 }),
            Expects::Nothing => Ok(None),
        }
    }

    fn advance(&mut self, kind: &Kind) {
        self.expects = match kind {
            Kind::ConnRequest(_) => Expects::Hello,
            Kind::Hello(hello) if hello.version == Version::V1 => Expects::Unframed,
            Kind::Hello(hello) => {
                self.form = hello.version.header_form();
                Expects::Frame
            }
            Kind::Frame { .. } => Expects::Frame,
            Kind::Incomplete | Kind::Malformed(_) => Expects::Nothing,
        };
    }
}

fn decode_frame(
    bytes: &[u8],
    order: Order,
    form: HeaderForm,
) -> Result<Option<DecodedItem>, DecodeError> {
    let Some((frame, rest)) = bytes.split_at_checked(FrameHeader::LEN) else { return Ok(None) };
    let header = FrameHeader::decode(frame, order)?;
    match header.kind {
        FrameKind::NOOP => {
            let kind = Kind::Frame { header, lnet: None };
            return Ok(Some((kind, FrameHeader::LEN, FrameHeader::LEN)));
        }
        FrameKind::LNET => {}
        FrameKind(got) => {
            return Err(DecodeError::Range { field: "frame.kind", got: got.into() });
        }
    }
    let Some((lnet, rest)) = rest.split_at_checked(form.len()) else { return Ok(None) };
    let lnet = Header::decode(lnet, form)?;
    lnet.check()?;
    let Some(payload) = rest.get(..lnet.payload_len as usize) else { return Ok(None) };
    let len = FrameHeader::LEN + form.len();
    let whole = len + payload.len();
    let kind = Kind::Frame { header, lnet: Some((lnet, payload.to_vec())) };
    Ok(Some((kind, len, whole)))
}

#[cfg(test)]
mod tests;
