//! Updates that one server asks another one to do. Spec: ptlrpc-ldlm-mgs §11.2.
//!
//! ```text
//! header    0 magic  4 buffers  8 inline length  12 reply size  16 inline data
//! data      0 magic  4 count u16  8 updates
//! update    0 kind u16  2 parameters u16  4 result size  8 flags  16 batch  24 fid  40 parameters
//! parameter 0 length u16  8 data, filled to a multiple of 8
//! reply     0 magic  4 count u16  8 lengths u16, filled to a multiple of 8, results
//! result    0 status i32  4 length u16  8 data
//! ```

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use crate::content::{expect_magic, read_count, write_all};
use crate::{Bytes, Content, Fid, Padding};

wire_enum! {
    /// What an update does.
    #[doc(alias = "OUT")]
    pub struct UpdateKind(u16) {
        /// Nothing.
        START = 0,
        /// Create an object.
        CREATE = 1,
        /// Destroy an object.
        DESTROY = 2,
        /// Add a link.
        REF_ADD = 3,
        /// Remove a link.
        REF_DEL = 4,
        /// Set attributes.
        ATTR_SET = 5,
        /// Get attributes.
        ATTR_GET = 6,
        /// Set an extended attribute.
        XATTR_SET = 7,
        /// Get an extended attribute.
        XATTR_GET = 8,
        /// Look up a name.
        INDEX_LOOKUP = 9,
        /// Insert a name.
        INDEX_INSERT = 10,
        /// Delete a name.
        INDEX_DELETE = 11,
        /// Write data.
        WRITE = 12,
        /// Remove an extended attribute.
        XATTR_DEL = 13,
        /// Truncate.
        PUNCH = 14,
        /// Read data.
        READ = 15,
        /// Nothing.
        NOOP = 16,
        /// List extended attributes.
        XATTR_LIST = 17,
    }
}

wire_flags! {
    /// How an update is done.
    #[doc(alias = "UPDATE_FL")]
    pub struct UpdateFlags(u32) {
        /// From an OST.
        OST = 0x1,
        /// Reply when it is on the disk.
        SYNC = 0x2,
        COMMITTED = 0x4,
        NOLOG = 0x8,
        IGNORE_QUOTA = 0x10,
    }
}

/// The first buffer of a request: 16 bytes and the data of a small one.
#[doc(alias = "out_update_header")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct UpdateHeader {
    /// The number of data buffers.
    pub buffers: u32,
    pub inline_len: u32,
    /// The room for the reply in bytes.
    pub reply_size: u32,
    /// The data: an [`UpdateRequest`].
    pub data: Bytes,
}

impl UpdateHeader {
    /// The magic number.
    #[doc(alias = "OUT_UPDATE_HEADER_MAGIC")]
    pub const MAGIC: u32 = 0xbddf_0001;
}

impl Content for UpdateHeader {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        expect_magic(r, Self::MAGIC, "update.magic")?;
        Ok(Self {
            buffers: r.u32("UpdateHeader.buffers")?,
            inline_len: r.u32("UpdateHeader.inline_len")?,
            reply_size: r.u32("UpdateHeader.reply_size")?,
            data: Bytes::take_rest(r),
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(Self::MAGIC);
        w.u32(self.buffers);
        w.u32(self.inline_len);
        w.u32(self.reply_size);
        w.bytes(&self.data.0);
    }
}

wire_struct! {
    /// A data buffer that is transferred as bulk: 8 bytes.
    #[doc(alias = "out_update_buffer")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct UpdateBuffer {
        /// Bytes.
        pub size: u32,
        /// 0.
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
    }
}

/// A parameter of an update.
#[doc(alias = "object_update_param")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpdateParameter {
    /// 0.
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<6>,
    /// A name or a structure; fewer than 2¹⁶ bytes.
    pub data: Bytes,
    /// The bytes that fill it to a multiple of 8.
    #[serde(skip)]
    pub fill: Bytes,
}

impl Field for UpdateParameter {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let len = usize::from(r.u16("UpdateParameter.len")?);
        let padding = Field::read(r, "UpdateParameter.padding")?;
        let data = Bytes(r.take("UpdateParameter.data", len)?.to_vec());
        let fill = r.take("UpdateParameter.fill", len.next_multiple_of(8) - len)?;
        Ok(Self { padding, data, fill: Bytes(fill.to_vec()) })
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u16(self.data.0.len() as u16);
        self.padding.write(w);
        w.bytes(&self.data.0);
        w.bytes(&self.fill.0);
    }
}

/// A change of an object.
#[doc(alias = "object_update")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Update {
    pub kind: UpdateKind,
    /// The room for the result in bytes.
    pub result_size: u32,
    pub flags: UpdateFlags,
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<4>,
    /// The transaction of the server that asks.
    pub batch: u64,
    pub fid: Fid,
    /// Fewer than 2¹⁶.
    pub parameters: Vec<UpdateParameter>,
}

impl Field for Update {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let kind = Field::read(r, "Update.kind")?;
        let count = r.u16("Update.parameters")?;
        Ok(Self {
            kind,
            result_size: r.u32("Update.result_size")?,
            flags: Field::read(r, "Update.flags")?,
            padding: Field::read(r, "Update.padding")?,
            batch: r.u64("Update.batch")?,
            fid: Field::read(r, "Update.fid")?,
            parameters: read_count(r, count.into(), "Update.parameters")?,
        })
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.kind.write(w);
        w.u16(self.parameters.len() as u16);
        w.u32(self.result_size);
        self.flags.write(w);
        self.padding.write(w);
        w.u64(self.batch);
        self.fid.write(w);
        write_all(&self.parameters, w);
    }
}

/// The data of a request.
#[doc(alias = "object_update_request")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct UpdateRequest {
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<2>,
    /// Fewer than 2¹⁶.
    pub updates: Vec<Update>,
    /// Unused room.
    #[serde(skip)]
    pub rest: Bytes,
}

impl UpdateRequest {
    /// The magic number.
    #[doc(alias = "UPDATE_REQUEST_MAGIC")]
    pub const MAGIC: u32 = 0xbdde_0002;
}

impl Content for UpdateRequest {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        expect_magic(r, Self::MAGIC, "update.magic")?;
        let count = r.u16("UpdateRequest.count")?;
        let padding = Field::read(r, "UpdateRequest.padding")?;
        let updates = read_count(r, count.into(), "UpdateRequest.updates")?;
        Ok(Self { padding, updates, rest: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(Self::MAGIC);
        w.u16(self.updates.len() as u16);
        self.padding.write(w);
        write_all(&self.updates, w);
        w.bytes(&self.rest.0);
    }
}

/// The reply to updates: their results, each with a status and data.
#[doc(alias = "object_update_reply")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct UpdateReply {
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<2>,
    /// The lengths of the results in bytes; fewer than 2¹⁶.
    pub lens: Vec<u16>,
    /// The results, each at a multiple of 8 bytes from the start of the reply.
    pub results: Bytes,
}

/// The result of an update.
#[doc(alias = "object_update_result")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpdateResult {
    /// A negative error number, or 0 or more.
    pub status: i32,
    /// What was asked for.
    pub data: Bytes,
}

impl UpdateReply {
    /// The magic number.
    #[doc(alias = "UPDATE_REPLY_MAGIC")]
    pub const MAGIC: u32 = 0x00bd_0002;

    /// Returns the results; `order` is that of the message.
    ///
    /// # Errors
    /// If one is outside the reply.
    pub fn results(&self, order: Order) -> Result<Vec<UpdateResult>, DecodeError> {
        let r = &mut Reader::new(&self.results.0, order);
        let head = 8 + 2 * self.lens.len();
        r.take("UpdateReply.fill", head.next_multiple_of(8) - head)?;
        let result = |len: &u16| {
            let mut result = r.sub("UpdateReply.result", usize::from(*len))?;
            let status = Field::read(&mut result, "UpdateResult.status")?;
            let len = result.u16("UpdateResult.len")?;
            result.u16("UpdateResult.padding")?;
            let data = Bytes(result.take("UpdateResult.data", len.into())?.to_vec());
            Ok(UpdateResult { status, data })
        };
        self.lens.iter().map(result).collect()
    }
}

impl Content for UpdateReply {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        expect_magic(r, Self::MAGIC, "update.magic")?;
        let count = r.u16("UpdateReply.count")?;
        let padding = Field::read(r, "UpdateReply.padding")?;
        let lens = read_count(r, count.into(), "UpdateReply.lens")?;
        Ok(Self { padding, lens, results: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(Self::MAGIC);
        w.u16(self.lens.len() as u16);
        self.padding.write(w);
        write_all(&self.lens, w);
        w.bytes(&self.results.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_any, check_example};

    crate::testing::sizes! { UpdateBuffer = 8 }

    fn parameter(text: &[u8]) -> UpdateParameter {
        let fill = Bytes(vec![0; text.len().next_multiple_of(8) - text.len()]);
        UpdateParameter { padding: Padding::default(), data: Bytes(text.to_vec()), fill }
    }

    #[test]
    fn a_request_holds_updates_with_parameters() {
        let update = Update {
            kind: UpdateKind::INDEX_LOOKUP,
            result_size: 16,
            flags: UpdateFlags::NONE,
            padding: Padding::default(),
            batch: 0,
            fid: Fid::ROOT,
            parameters: vec![parameter(b"name\0"), parameter(b"12345678")],
        };
        let updates = vec![update; 2];
        let request = UpdateRequest { updates, rest: Bytes(vec![0; 4]), ..Default::default() };
        let bytes = request.to_bytes();
        assert_eq!(bytes.len(), 8 + 2 * (40 + 16 + 16) + 4);
        assert_eq!(check_example::<UpdateRequest>(&bytes), request);
        let inline_len = bytes.len() as u32;
        let header = UpdateHeader { buffers: 1, inline_len, reply_size: 4096, data: Bytes(bytes) };
        assert_eq!(check_example::<UpdateHeader>(&header.to_bytes()), header);
    }

    #[test]
    fn a_reply_holds_results() {
        let mut bytes = vec![2, 0, 0xbd, 0, 2, 0, 0, 0, 16, 0, 8, 0, 0, 0, 0, 0];
        bytes.extend([0, 0, 0, 0, 5, 0, 0, 0, b'v', b'a', b'l', b'u', b'e', 0, 0, 0]);
        bytes.extend([0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        let reply: UpdateReply = check_example(&bytes);
        let found = UpdateResult { status: 0, data: Bytes(b"value".to_vec()) };
        let missing = UpdateResult { status: -2, data: Bytes::default() };
        assert_eq!(reply.results(Order::Little), Ok(vec![found, missing]));
        for (at, byte) in [(8, 7), (10, 9), (20, 9)] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            let reply = UpdateReply::decode(&bytes, Order::Little).unwrap();
            assert!(reply.results(Order::Little).is_err(), "{at}");
        }
        check_any::<UpdateReply>(&[]);
    }
}
