//! Replies that tell of a failure.

use fulmar_base::Errno;

/// A reply that can be an error.
pub(crate) trait Reply: Send + 'static {
    /// Tells why something is not done.
    fn fail(self, errno: Errno);
}

macro_rules! replies {
    ($($name:ident),+) => {
        $( impl Reply for fuser::$name {
            fn fail(self, errno: Errno) {
                self.error(fuser::Errno::from_i32(errno.0));
            }
        } )+
    };
}

replies!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyEmpty,
    ReplyEntry,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);
