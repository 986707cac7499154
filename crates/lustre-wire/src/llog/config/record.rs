//! The form of configuration records.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};
use serde::Serialize;

use super::ConfigCommand;
use crate::{Bytes, Content};

/// A buffer of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConfigBuffer {
    /// A text with its NUL, or a structure.
    pub data: Bytes,
    /// The bytes that fill it to a multiple of 8, which real nodes send as zero.
    #[serde(skip)]
    pub padding: Bytes,
}

impl ConfigBuffer {
    /// Returns a buffer of `data`, filled with zeros.
    pub fn new(data: Vec<u8>) -> Self {
        let padding = Bytes(vec![0; data.len().next_multiple_of(8) - data.len()]);
        Self { data: Bytes(data), padding }
    }

    /// Returns a text with its NUL.
    pub fn text(text: &str) -> Self {
        Self::new([text.as_bytes(), b"\0"].concat())
    }

    /// Returns the text, if the buffer is one: valid UTF-8 that ends with its only NUL.
    pub fn as_text(&self) -> Option<&str> {
        let (nul, text) = self.data.0.split_last()?;
        let text = std::str::from_utf8(text).ok()?;
        (*nul == 0 && !text.contains('\0')).then_some(text)
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.data.0.is_empty()
    }
}

/// The form of every configuration record.
///
/// ```text
/// 0 version  4 command  8 number  12 flags  16 nid u64  24 nal  28 count  32 lengths, buffers
/// ```
/// The lengths, and each buffer, are filled to a multiple of 8 bytes. Spec: ptlrpc-ldlm-mgs §30.
#[doc(alias = "lustre_cfg")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct ConfigRecord {
    pub command: ConfigCommand,
    pub number: u32,
    pub flags: u32,
    /// A NID of 4 bytes, or 0.
    pub nid: u64,
    /// 0.
    pub nal: u32,
    /// The bytes that fill the lengths, which real nodes send as zero.
    #[serde(skip)]
    pub padding: Bytes,
    /// The first one is mostly the name of a device.
    pub buffers: Vec<ConfigBuffer>,
}

impl ConfigRecord {
    /// The version, which shows the byte order.
    #[doc(alias = "LUSTRE_CFG_VERSION")]
    pub const VERSION: u32 = 0x1cf6_0001;
    /// The most buffers of a record.
    #[doc(alias = "LUSTRE_CFG_MAX_BUFCOUNT")]
    pub const BUFFERS_MAX: u32 = 8;

    /// Returns a record of these buffers whose numbers are 0.
    pub fn new(command: ConfigCommand, buffers: Vec<ConfigBuffer>) -> Self {
        let padding = Bytes(vec![0; 4 * (buffers.len() % 2)]);
        Self { command, number: 0, flags: 0, nid: 0, nal: 0, padding, buffers }
    }
}

impl Content for ConfigRecord {
    /// Decodes the body of a log record, whose order is that of the log.
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        match r.u32("ConfigRecord.version")? {
            Self::VERSION => {}
            got => return Err(DecodeError::Version { got }),
        }
        let command = Field::read(r, "ConfigRecord.command")?;
        let number = r.u32("ConfigRecord.number")?;
        let flags = r.u32("ConfigRecord.flags")?;
        let nid = r.u64("ConfigRecord.nid")?;
        let nal = r.u32("ConfigRecord.nal")?;
        let count = r.u32("ConfigRecord.count")?;
        if count > Self::BUFFERS_MAX {
            return Err(DecodeError::Range { field: "ConfigRecord.count", got: count.into() });
        }
        let lens = crate::content::read_count::<u32>(r, count as usize, "ConfigRecord.lengths")?;
        let padding = Bytes(r.take("ConfigRecord.padding", 4 * (lens.len() % 2))?.to_vec());
        let mut buffers = Vec::new();
        for len in lens {
            let len = len as usize;
            let data = Bytes(r.take("ConfigRecord.buffer", len)?.to_vec());
            let padding = r.take("ConfigRecord.buffer", len.next_multiple_of(8) - len)?;
            buffers.push(ConfigBuffer { data, padding: Bytes(padding.to_vec()) });
        }
        r.finish("ConfigRecord")?;
        Ok(Self { command, number, flags, nid, nal, padding, buffers })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(Self::VERSION);
        self.command.write(w);
        w.u32(self.number);
        w.u32(self.flags);
        w.u64(self.nid);
        w.u32(self.nal);
        w.u32(self.buffers.len() as u32);
        for buffer in &self.buffers {
            w.u32(buffer.data.0.len() as u32);
        }
        w.bytes(&self.padding.0);
        for buffer in &self.buffers {
            w.bytes(&buffer.data.0);
            w.bytes(&buffer.padding.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::{check_any, check_example};

    /// Record 13 of a client's log without its frame, ptlrpc-ldlm-mgs §39.6.
    const ADD_UUID: &str = "01 00 f6 1c 05 f0 0c 00 00 00 00 00 00 00 00 00
        02 00 63 0a 00 00 02 00 00 00 00 00 02 00 00 00
        00 00 00 00 0e 00 00 00
        31 30 2e 39 39 2e 30 2e 32 40 74 63 70 00 00 00";

    #[test]
    fn a_record_has_a_command_and_buffers() {
        let record: ConfigRecord = check_example(&hex(ADD_UUID));
        let buffers = vec![ConfigBuffer::default(), ConfigBuffer::text("10.99.0.2@tcp")];
        let expected = ConfigRecord::new(ConfigCommand::ADD_UUID, buffers);
        assert_eq!(record, ConfigRecord { nid: 0x0002_0000_0a63_0002, ..expected });
        assert_eq!(record.buffers[1].as_text(), Some("10.99.0.2@tcp"));
        assert_eq!(record.buffers[0].as_text(), None);
        assert!(record.buffers[0].is_empty() && record.command.is_required());
    }

    #[test]
    fn an_odd_number_of_lengths_is_filled() {
        let record =
            ConfigRecord::new(ConfigCommand::DETACH, vec![ConfigBuffer::text("lv-clilov")]);
        let bytes = record.to_bytes();
        assert_eq!((bytes.len(), check_example::<ConfigRecord>(&bytes)), (32 + 8 + 16, record));
    }

    #[test]
    fn a_record_is_bounded() {
        check_any::<ConfigRecord>(&[]);
        let mut bytes = hex(ADD_UUID);
        bytes[28] = 9;
        let error = ConfigRecord::decode(&bytes, Order::Little).unwrap_err();
        assert_eq!(error, DecodeError::Range { field: "ConfigRecord.count", got: 9 });
        (bytes[28], bytes[39]) = (2, 0xff);
        let error = ConfigRecord::decode(&bytes, Order::Little).unwrap_err();
        assert!(matches!(error, DecodeError::Short { .. }), "{error}");
    }
}
