//! The type and the permissions of a file, as POSIX has them.

/// The bits of the type.
pub const FORMAT: u32 = 0o170_000;
/// A socket.
pub const SOCKET: u32 = 0o140_000;
/// A symbolic link.
pub const SYMLINK: u32 = 0o120_000;
/// A regular file.
pub const REGULAR: u32 = 0o100_000;
/// A block device.
pub const BLOCK: u32 = 0o060_000;
/// A directory.
pub const DIRECTORY: u32 = 0o040_000;
/// A character device.
pub const CHARACTER: u32 = 0o020_000;
/// A pipe.
pub const FIFO: u32 = 0o010_000;

/// Execution sets the user.
pub const SUID: u32 = 0o4000;
/// Execution sets the group; files of a directory inherit its group.
pub const SGID: u32 = 0o2000;
/// Files of a directory are removed by their owner only.
pub const STICKY: u32 = 0o1000;
/// All but the type.
pub const PERMISSIONS: u32 = 0o7777;
/// The group may execute.
pub const GROUP_EXECUTE: u32 = 0o010;
/// Somebody may execute.
pub const EXECUTE: u32 = 0o111;

/// Returns the type of a file for an entry of a directory.
pub(crate) fn file_type(mode: u32) -> u16 {
    (mode & FORMAT) as u16
}
