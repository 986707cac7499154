//! Bulk data that have a structure.

use fulmar_wire::{DecodeError, Order, Writer};
use serde::Serialize;

use super::{BATCH_REQUESTS, Buffer, DIRECTORY_PAGES, Format, INDEX_PAGES, NID_TABLE};
use crate::index::IndexPage;
use crate::mdt::BatchRequest;
use crate::{Content, Opcode};

/// The requests of a batch in bulk data: buffers of 4096 bytes, each with its own count.
/// Spec: mdt-ost §7.16.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct BatchRequests(pub Vec<BatchRequest>);

impl BatchRequests {
    /// The length of a buffer.
    pub const BUFFER_LEN: usize = 4096;
}

impl Content for BatchRequests {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let buffers = bytes.chunks(Self::BUFFER_LEN);
        buffers
            .map(|buffer| BatchRequest::decode(buffer, order))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.0.iter().for_each(|request| request.encode(w));
    }
}

impl Format {
    /// Returns the type of the bulk data of a request; `None` for the content of files.
    pub fn bulk(&self, data: &[u8]) -> Option<&'static dyn Buffer> {
        match self.opcode {
            Opcode::MDS_READPAGE => Some(&DIRECTORY_PAGES),
            Opcode::MDS_BATCH => Some(&BATCH_REQUESTS),
            Opcode::OBD_IDX_READ => Some(&INDEX_PAGES),
            // The kind of the table is in the request; the pages of nodemaps begin with their magic
            // number.
            Opcode::MGS_CONFIG_READ if data.starts_with(&IndexPage::MAGIC.to_le_bytes()) => {
                Some(&INDEX_PAGES)
            }
            Opcode::MGS_CONFIG_READ => Some(&NID_TABLE),
            _ => None,
        }
    }
}
