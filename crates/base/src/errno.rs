//! Error numbers: what Lustre's tools and events call failures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A positive Linux error number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $number:literal $text:literal),+ $(,)?) => {
        impl Errno {
            $( #[doc = $text] pub const $name: Self = Self($number); )+

            /// Returns the symbol, such as `ETIMEDOUT`.
            pub fn name(self) -> Option<&'static str> {
                match self { $( Self::$name => Some(stringify!($name)), )+ _ => None }
            }

            /// Returns the text of the C library.
            pub fn text(self) -> Option<&'static str> {
                match self { $( Self::$name => Some($text), )+ _ => None }
            }
        }
    };
}

errnos! {
    EPERM = 1 "Operation not permitted",
    ENOENT = 2 "No such file or directory",
    ESRCH = 3 "No such process",
    EINTR = 4 "Interrupted system call",
    EIO = 5 "Input/output error",
    ENXIO = 6 "No such device or address",
    ENOMEM = 12 "Cannot allocate memory",
    EACCES = 13 "Permission denied",
    EBUSY = 16 "Device or resource busy",
    EEXIST = 17 "File exists",
    ENODEV = 19 "No such device",
    EINVAL = 22 "Invalid argument",
    ENOSPC = 28 "No space left on device",
    ERANGE = 34 "Numerical result out of range",
    EPROTO = 71 "Protocol error",
    EBADMSG = 74 "Bad message",
    EUSERS = 87 "Too many users",
    EOPNOTSUPP = 95 "Operation not supported",
    EADDRINUSE = 98 "Address already in use",
    EADDRNOTAVAIL = 99 "Cannot assign requested address",
    ENETDOWN = 100 "Network is down",
    ENETUNREACH = 101 "Network is unreachable",
    ECONNRESET = 104 "Connection reset by peer",
    ESHUTDOWN = 108 "Cannot send after transport endpoint shutdown",
    ETIMEDOUT = 110 "Connection timed out",
    ECONNREFUSED = 111 "Connection refused",
    EHOSTUNREACH = 113 "No route to host",
    EALREADY = 114 "Operation already in progress",
    ECANCELED = 125 "Operation canceled",
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(text),
            None => write!(f, "Unknown error {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl std::error::Error for Errno {}
