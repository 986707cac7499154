//! Several requests in one. Spec: mdt-ost §7.16.
//!
//! ```text
//! header    0 magic  4 buffers  8 inline length  12 reply size  16 requests  24 inline data
//! data      0 magic  4 count u16  8 messages
//! ```
//! A sub-request is a message without the RPC body; this module leaves the messages undecoded.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_struct};
use serde::Serialize;

use crate::content::expect_magic;
use crate::{Bytes, Content, Padding};

/// The first buffer of a batch: 24 bytes and the data of a small batch.
#[doc(alias = "but_update_header")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchHeader {
    /// The number of data buffers.
    pub buffers: u32,
    /// The bytes of data in this buffer: 0 if they are transferred as bulk.
    pub inline_len: u32,
    /// The size of the buffer for the reply in bytes.
    pub reply_size: u32,
    /// The number of sub-requests in all data buffers.
    pub requests: u32,
    /// 0.
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<4>,
    /// The data: a [`BatchRequest`].
    pub data: Bytes,
}

impl BatchHeader {
    /// The magic number.
    #[doc(alias = "BUT_HEADER_MAGIC")]
    pub const MAGIC: u32 = 0xbadf_0001;
}

impl Content for BatchHeader {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        expect_magic(r, Self::MAGIC, "batch.magic")?;
        Ok(Self {
            buffers: r.u32("BatchHeader.buffers")?,
            inline_len: r.u32("BatchHeader.inline_len")?,
            reply_size: r.u32("BatchHeader.reply_size")?,
            requests: r.u32("BatchHeader.requests")?,
            padding: Field::read(r, "BatchHeader.padding")?,
            data: Bytes::take_rest(r),
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(Self::MAGIC);
        w.u32(self.buffers);
        w.u32(self.inline_len);
        w.u32(self.reply_size);
        w.u32(self.requests);
        self.padding.write(w);
        w.bytes(&self.data.0);
    }
}

wire_struct! {
    /// A data buffer that is transferred as bulk: 8 bytes.
    #[doc(alias = "but_update_buffer")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct BatchBuffer {
        /// Bytes; 0 for inline data.
        pub size: u32,
        /// 0.
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
    }
}

macro_rules! batch_data {
    ($(#[$meta:meta])* $name:ident, $magic:literal) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct $name {
            /// The number of messages.
            pub count: u16,
            /// 0.
            #[serde(skip_serializing_if = "Padding::is_zero")]
            pub padding: Padding<2>,
            /// The messages, one after the other, each of a multiple of 8 bytes; then unused room.
            pub messages: Bytes,
        }

        impl $name {
            /// The magic number.
            pub const MAGIC: u32 = $magic;
        }

        impl Content for $name {
            fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
                let r = &mut Reader::new(bytes, order);
                expect_magic(r, Self::MAGIC, "batch.magic")?;
                Ok(Self {
                    count: r.u16(concat!(stringify!($name), ".count"))?,
                    padding: Field::read(r, concat!(stringify!($name), ".padding"))?,
                    messages: Bytes::take_rest(r),
                })
            }

            fn encode(&self, w: &mut Writer<'_>) {
                w.u32(Self::MAGIC);
                w.u16(self.count);
                self.padding.write(w);
                w.bytes(&self.messages.0);
            }
        }
    };
}

batch_data! {
    /// One data buffer of a batch. Sub-requests do not cross buffers.
    #[doc(alias = "batch_update_request")]
    BatchRequest, 0xbade_0001
}

batch_data! {
    /// The reply to a batch: the replies to the sub-requests that were completed.
    #[doc(alias = "batch_update_reply")]
    BatchReply, 0x00ad_0001
}

impl BatchRequest {
    /// The operation of a part: the attributes of a file by its name, as an intent.
    #[doc(alias = "BUT_GETATTR")]
    pub const GETATTR: u32 = 1;
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::{check_any, check_example};

    crate::testing::sizes! { BatchBuffer = 8 }

    #[test]
    fn a_small_batch_is_inline() {
        let bytes = hex("01 00 df ba 01 00 00 00 08 00 00 00 00 10 00 00 01 00 00 00 00 00 00 00
             01 00 de ba 01 00 00 00");
        let header: BatchHeader = check_example(&bytes);
        assert_eq!((header.buffers, header.inline_len, header.requests), (1, 8, 1));
        let request: BatchRequest = check_example(&header.data.0);
        assert_eq!((request.count, request.messages), (1, Bytes::default()));
        let wrong = BatchReply::decode(&header.data.0, Order::Little);
        assert_eq!(wrong, Err(DecodeError::Magic { got: BatchRequest::MAGIC }));
    }

    #[test]
    fn a_reply_holds_what_was_completed() {
        let reply: BatchReply = check_example(&hex("01 00 ad 00 02 00 00 00 aa bb"));
        assert_eq!((reply.count, reply.messages), (2, Bytes(vec![0xaa, 0xbb])));
        check_any::<BatchReply>(&[]);
    }
}
