//! Results of requests.

use std::fmt;

use fulmar_base::Errno;
use fulmar_wire::{DecodeError, Field, Reader, Writer};
use serde::{Serialize, Serializer};

/// The result of a request: 0, a negative Linux error number, or a positive result of an operation,
/// such as a number of bytes. Spec: ptlrpc-ldlm-mgs §1.5.
///
/// In a request the field is the sender's process id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub i32);

impl Status {
    /// Success.
    pub const OK: Self = Self(0);

    /// The status of a reply to an enqueue that has no lock and is not an error. Spec:
    /// ptlrpc-ldlm-mgs §18.3.
    #[doc(alias = "ELDLM_LOCK_ABORTED")]
    pub const LOCK_ABORTED: Self = Self(301);

    /// The answer to a glimpse of a client that has the lock, but no object.
    #[doc(alias = "ELDLM_NO_LOCK_DATA")]
    pub const NO_LOCK_DATA: Self = Self(-303);

    /// Returns the status of a failure.
    pub const fn failed(errno: Errno) -> Self {
        Self(-errno.0)
    }

    /// Returns the error number of a failure.
    pub fn errno(self) -> Option<Errno> {
        (self.0 < 0).then(|| Errno(self.0.saturating_neg()))
    }
}

impl Field for Status {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        Field::read(r, name).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.0.write(w);
    }
}

impl fmt::Display for Status {
    /// Writes the symbol of a known error, such as `ENOENT`, or the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno().and_then(Errno::name) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.errno().and_then(Errno::name) {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_i32(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_shown_by_its_symbol() {
        let texts = [0, -2, 301, -107, -9999, i32::MIN].map(|n| Status(n).to_string());
        assert_eq!(texts, ["0", "ENOENT", "301", "ENOTCONN", "-9999", "-2147483648"]);
        assert_eq!(Status::failed(Errno::ENOENT), Status(-2));
    }
}
