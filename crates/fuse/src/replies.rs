//! Replies that tell of a failure.

use fulmar_base::Errno;

/// A reply that can be an error.
pub(crate) trait Reply: Send + 'static {
    /// Tells why something is not done.
    fn fail(self, errno: Errno);
}

/// Returns the number of an error for the kernel. It drops a reply with one of its own numbers, from 512 on,
/// and who has asked would wait for ever.
fn told(errno: Errno) -> i32 {
    match errno {
        Errno::ENOTSUPP => Errno::EOPNOTSUPP.0,
        Errno(1..=511) => errno.0,
        _ => Errno::EIO.0,
    }
}

macro_rules! replies {
    ($($name:ident),+) => {
        $( impl Reply for fuser::$name {
            fn fail(self, errno: Errno) {
                self.error(fuser::Errno::from_i32(told(errno)));
            }
        } )+
    };
}

replies!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyIoctl,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_only_numbers_that_it_takes() {
        let told = [Errno::ENOENT, Errno::ENOTSUPP, Errno::ERESTARTSYS, Errno(-1)].map(told);
        assert_eq!(told, [Errno::ENOENT.0, Errno::EOPNOTSUPP.0, Errno::EIO.0, Errno::EIO.0]);
    }
}
