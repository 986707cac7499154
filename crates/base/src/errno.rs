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
    E2BIG = 7 "Argument list too long",
    EBADF = 9 "Bad file descriptor",
    EAGAIN = 11 "Resource temporarily unavailable",
    ENOMEM = 12 "Cannot allocate memory",
    EACCES = 13 "Permission denied",
    EFAULT = 14 "Bad address",
    EBUSY = 16 "Device or resource busy",
    EEXIST = 17 "File exists",
    EXDEV = 18 "Invalid cross-device link",
    ENODEV = 19 "No such device",
    ENOTDIR = 20 "Not a directory",
    EISDIR = 21 "Is a directory",
    EINVAL = 22 "Invalid argument",
    EMFILE = 24 "Too many open files",
    ETXTBSY = 26 "Text file busy",
    EFBIG = 27 "File too large",
    ENOSPC = 28 "No space left on device",
    EROFS = 30 "Read-only file system",
    EMLINK = 31 "Too many links",
    ERANGE = 34 "Numerical result out of range",
    EDEADLK = 35 "Resource deadlock avoided",
    ENAMETOOLONG = 36 "File name too long",
    ENOSYS = 38 "Function not implemented",
    ENOTEMPTY = 39 "Directory not empty",
    ELOOP = 40 "Too many levels of symbolic links",
    EBADE = 52 "Invalid exchange",
    EBADR = 53 "Invalid request descriptor",
    ENODATA = 61 "No data available",
    ETIME = 62 "Timer expired",
    EREMOTE = 66 "Object is remote",
    EPROTO = 71 "Protocol error",
    EBADMSG = 74 "Bad message",
    EOVERFLOW = 75 "Value too large for defined data type",
    EBADFD = 77 "File descriptor in bad state",
    EILSEQ = 84 "Invalid or incomplete multibyte or wide character",
    EUSERS = 87 "Too many users",
    EOPNOTSUPP = 95 "Operation not supported",
    EADDRINUSE = 98 "Address already in use",
    EADDRNOTAVAIL = 99 "Cannot assign requested address",
    ENETDOWN = 100 "Network is down",
    ENETUNREACH = 101 "Network is unreachable",
    ECONNRESET = 104 "Connection reset by peer",
    ENOTCONN = 107 "Transport endpoint is not connected",
    ESHUTDOWN = 108 "Cannot send after transport endpoint shutdown",
    ETIMEDOUT = 110 "Connection timed out",
    ECONNREFUSED = 111 "Connection refused",
    EHOSTUNREACH = 113 "No route to host",
    EALREADY = 114 "Operation already in progress",
    EINPROGRESS = 115 "Operation now in progress",
    ESTALE = 116 "Stale file handle",
    EDQUOT = 122 "Disk quota exceeded",
    ECANCELED = 125 "Operation canceled",
    ERESTARTSYS = 512 "Interrupted system call should be restarted",
    ENOTSUPP = 524 "Operation is not supported",
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
