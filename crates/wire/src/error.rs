//! Decoding errors.

use thiserror::Error;

/// Why the bytes of a peer are not a message.
///
/// Every variant names the field, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum DecodeError {
    /// The message ends before the field does.
    #[error("{field} is cut off: {missing} more bytes needed")]
    Short { field: &'static str, missing: usize },
    /// Bytes are left over after the last field.
    #[error("{got} bytes too many after {message}")]
    Trailing { message: &'static str, got: usize },
    /// The magic number is unknown.
    #[error("unknown magic {got:#010x}")]
    Magic { got: u32 },
    /// The magic number is known, and the version is not.
    #[error("unsupported version {got}")]
    Version { got: u32 },
    /// The protocol does not allow the value of the field.
    #[error("{field} may not be {got:#x}")]
    Range { field: &'static str, got: u64 },
}
