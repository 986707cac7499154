//! Why bytes are not a message.

use thiserror::Error;

/// What is wrong with the bytes of a peer.
///
/// Every variant names the field, so that a log line says where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum DecodeError {
    /// The message ends before the field does.
    #[error("{field} is cut off: {missing} more bytes needed")]
    Short { field: &'static str, missing: usize },
    /// Bytes are left over after the last field.
    #[error("{got} bytes too many after {message}")]
    Trailing { message: &'static str, got: usize },
    /// The magic number belongs to no protocol that we know.
    #[error("unknown magic {got:#010x}")]
    Magic { got: u32 },
    /// The magic is known, and the version is not.
    #[error("unsupported version {got}")]
    Version { got: u32 },
    /// The field holds a value that the protocol does not allow.
    #[error("{field} may not be {got:#x}")]
    Range { field: &'static str, got: u64 },
}
