//! Operations as data. Each has a line of text that parses back: a verb and its arguments.

use std::fmt;
use std::str::FromStr;

use super::words::{Access, Acl, Flags, How, Layout, Mode, Owner, Slot, Target, Value, What};

/// An operation by a client: `1 write h0 4096 100 7`, or `1& write h0 4096 100 7` at the same time as the ones beside it that
/// have an `&` too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The client, from 0.
    pub client: u8,
    /// Whether it is executed at the same time as such ones of other clients before and behind it.
    pub is_together: bool,
    /// What it does.
    pub operation: Operation,
}

impl Step {
    /// Returns an operation that is executed alone.
    pub fn alone(client: u8, operation: Operation) -> Self {
        Self { client, is_together: false, operation }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let together = if self.is_together { "&" } else { "" };
        write!(f, "{}{together} {}", self.client, self.operation)
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (client, operation) =
            line.split_once(' ').ok_or_else(|| format!("{line:?} has no client and verb"))?;
        let (number, is_together) = match client.strip_suffix('&') {
            Some(number) => (number, true),
            None => (client, false),
        };
        let number =
            number.parse().map_err(|_| format!("{client:?} is not the number of a client"))?;
        Ok(Self { client: number, is_together, operation: operation.parse()? })
    }
}

/// Reads a list of steps, one in a line. Empty lines and those that begin with `#` are left out.
///
/// # Errors
/// The first line that is not a step, and why.
pub fn parse(text: &str) -> Result<Vec<Step>, String> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let steps = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    steps
        .map(|(number, line)| line.parse().map_err(|error| format!("line {number}: {error}")))
        .collect()
}

macro_rules! operations {
    ($( $(#[doc = $doc:literal])+ $name:ident = $verb:literal { $($field:ident: $type:ty),* } )+) => {
        /// An operation of a program on a file system. Paths begin with `/`, the directory of the run. Files are open in
        /// slots of their client.
        #[allow(missing_docs)]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Operation { $( $(#[doc = $doc])+ $name { $($field: $type),* }, )+ }

        impl Operation {
            /// Returns the word by which the text begins.
            pub fn verb(&self) -> &'static str {
                match self { $( Self::$name { .. } => $verb, )+ }
            }
        }

        impl fmt::Display for Operation {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.verb())?;
                match self { $( Self::$name { $($field),* } => { $( write!(f, " {}", $field)?; )* } )+ }
                Ok(())
            }
        }

        impl FromStr for Operation {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let mut words = text.split(' ');
                let found = match words.next().unwrap_or_default() {
                    $( $verb => Self::$name { $( $field: word(&mut words, $verb, stringify!($field))? ),* }, )+
                    other => return Err(format!("{other:?} is not an operation")),
                };
                match words.next() {
                    None => Ok(found),
                    Some(more) => Err(format!("{more:?} is too much for {}", found.verb())),
                }
            }
        }
    };
}

/// Reads the next argument of an operation.
fn word<'a, T: FromStr>(
    words: &mut impl Iterator<Item = &'a str>,
    verb: &str,
    field: &str,
) -> Result<T, String> {
    let word = words.next().ok_or_else(|| format!("{verb} has no {field}"))?;
    word.parse().map_err(|_| format!("{word:?} is not the {field} of {verb}"))
}

operations! {
    /// Opens a file in a slot, which is closed before; a new file gets the layout.
    Open = "open" { slot: Slot, path: String, access: Access, layout: Layout }
    /// Closes a slot.
    Close = "close" { slot: Slot }
    /// Reads bytes.
    Read = "read" { slot: Slot, at: u64, len: u64 }
    /// Writes bytes of a pattern; at the end, if the file is open to append.
    Write = "write" { slot: Slot, at: u64, len: u64, pattern: u64 }
    /// Stores bytes of a pattern in a shared mapping, where the file has some.
    Store = "store" { slot: Slot, at: u64, len: u64, pattern: u64 }
    /// Loads bytes from a shared mapping, where the file has some.
    Load = "load" { slot: Slot, at: u64, len: u64 }
    /// Stores bytes of a pattern in a private mapping, where the file has some, and loads the pages in which they are.
    Private = "private" { slot: Slot, at: u64, len: u64, pattern: u64 }
    /// Copies bytes of an open file to another one of the same client.
    Copy = "copy" { slot: Slot, at: u64, len: u64, to: Slot, start: u64 }
    /// Sets the length of an open file.
    Cut = "cut" { slot: Slot, size: u64 }
    /// Sets the length of a file.
    Truncate = "truncate" { path: String, size: u64 }
    /// Allocates space, or frees it.
    Allocate = "allocate" { slot: Slot, at: u64, len: u64, how: How }
    /// Looks for data, or for a hole.
    Seek = "seek" { slot: Slot, at: u64, what: What }
    /// Has what was written be on disk.
    Sync = "sync" { slot: Slot }
    /// Reads the attributes of an open file.
    StatOpen = "fstat" { slot: Slot }
    /// Reads the attributes of a name, also of a symbolic link.
    Stat = "stat" { path: String }
    /// Makes a directory.
    MakeDirectory = "mkdir" { path: String, mode: Mode }
    /// Removes an empty directory.
    RemoveDirectory = "rmdir" { path: String }
    /// Removes a name.
    Unlink = "unlink" { path: String }
    /// Renames a file or a directory.
    Rename = "rename" { from: String, to: String }
    /// Gives a file one more name.
    Link = "link" { from: String, to: String }
    /// Makes a symbolic link.
    Symlink = "symlink" { path: String, target: String }
    /// Reads a symbolic link.
    ReadLink = "readlink" { path: String }
    /// Reads a directory: this many names, and the rest after a seek to where they end.
    List = "list" { path: String, skip: u64 }
    /// Sets the permissions.
    Chmod = "chmod" { path: String, mode: Mode }
    /// Sets the owner and the group.
    Chown = "chown" { path: String, uid: u32, gid: u32 }
    /// Sets the times of the last read and the last write, in seconds since 1970.
    Utimes = "utimes" { path: String, atime: i64, mtime: i64 }
    /// Sets an extended attribute.
    SetXattr = "setxattr" { path: String, name: String, value: Value, flags: Flags }
    /// Reads an extended attribute.
    GetXattr = "getxattr" { path: String, name: String }
    /// Lists the extended attributes of users.
    ListXattrs = "listxattr" { path: String }
    /// Removes an extended attribute.
    RemoveXattr = "removexattr" { path: String, name: String }
    /// Sets the access control list.
    SetAcl = "setacl" { path: String, acl: Acl }
    /// Sets the access control list that new files in a directory get.
    SetDefault = "setdefault" { path: String, acl: Acl }
    /// Reads the access control list; without one, what the mode says.
    GetAcl = "getacl" { path: String }
    /// Reads the one that new files get.
    GetDefault = "getdefault" { path: String }
    /// Removes the one that new files get.
    RemoveDefault = "removedefault" { path: String }
    /// Locks a range without waiting: with `w` alone, otherwise with others that read.
    Lock = "lock" { slot: Slot, owner: Owner, share: Access, start: u64, len: u64 }
    /// Unlocks a range.
    Unlock = "unlock" { slot: Slot, owner: Owner, start: u64, len: u64 }
    /// Returns whether a lock would be refused.
    TestLock = "testlock" { slot: Slot, owner: Owner, share: Access, start: u64, len: u64 }
    /// Restarts servers.
    Restart = "restart" { target: Target }
    /// Closes the connections between a client and the servers, so many milliseconds later.
    Disconnect = "disconnect" { after: u64 }
    /// Has all servers evict a client.
    Evict = "evict" { }
    /// Kills the client, and mounts it again.
    Kill = "kill" { }
    /// Has servers have no more room for clients than what these were granted.
    Fill = "fill" { target: Target }
    /// Has them have room again.
    Drain = "drain" { target: Target }
}

impl Operation {
    /// Returns whether it is a fault: what happens to servers or clients.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Restart { .. }
                | Self::Disconnect { .. }
                | Self::Evict {}
                | Self::Kill {}
                | Self::Fill { .. }
                | Self::Drain { .. }
        )
    }

    /// Returns the slot that the operation uses.
    pub fn slot(&self) -> Option<Slot> {
        match self {
            Self::Open { slot, .. }
            | Self::Close { slot }
            | Self::Read { slot, .. }
            | Self::Write { slot, .. }
            | Self::Store { slot, .. }
            | Self::Load { slot, .. }
            | Self::Private { slot, .. }
            | Self::Copy { slot, .. }
            | Self::Cut { slot, .. }
            | Self::Allocate { slot, .. }
            | Self::Seek { slot, .. }
            | Self::Sync { slot }
            | Self::StatOpen { slot }
            | Self::Lock { slot, .. }
            | Self::Unlock { slot, .. }
            | Self::TestLock { slot, .. } => Some(*slot),
            _ => None,
        }
    }
}

/// Returns the bytes of a pattern for a range. They depend on their place, so that none can be in another one unnoticed, and none is
/// zero, so that a hole is none.
pub fn bytes(pattern: u64, at: u64, len: u64) -> Vec<u8> {
    let start = at / 8;
    let end = (at + len).div_ceil(8);
    let mut bytes = Vec::with_capacity((end - start) as usize * 8);
    for place in start..end {
        let mixed = (place ^ pattern.wrapping_mul(0x9e37_79b9)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (mixed ^ mixed >> 29) | 0x0101_0101_0101_0101;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.drain(..(at % 8) as usize);
    bytes.truncate(len as usize);
    bytes
}

/// The length of a page.
pub(super) const PAGE: u64 = 4096;

/// Returns where the pages of a range begin, and their length.
pub(super) fn pages(at: u64, len: u64) -> (u64, u64) {
    let start = at / PAGE * PAGE;
    (start, (at + len).next_multiple_of(PAGE) - start)
}

/// Returns what a program sees of the pages of a range, whose bytes in the file are given, when it has stored a pattern in a
/// private mapping of them.
pub(super) fn seen_privately(mut file: Vec<u8>, at: u64, len: u64, pattern: u64) -> Vec<u8> {
    let from = ((at % PAGE) as usize).min(file.len());
    let stored = bytes(pattern, at, len);
    file[from..].iter_mut().zip(stored).for_each(|(byte, own)| *byte = own);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_text_that_parses_back() {
        for line in [
            "0 open h0 /d0/f1 rwctx parts",
            "1 write h0 4096 100 7",
            "2& write h0 4096 100 7",
            "2 allocate h1 0 65536 punch",
            "2 copy h1 0 65536 h2 4095",
            "2 private h1 4095 2 7",
            "0 open h1 /f0 rwds default",
            "0 lock h1 flock r 0 1",
            "0 chmod /f0 0644",
            "0 utimes /f0 -300000000 5000000000",
            "0 setxattr /f0 user.a = create",
            "0 setxattr /f0 user.a =value any",
            "0 setacl /f0 u::rwx,u:5:r--,g::r-x,m::rwx,o::---",
            "1 lock h0 ofd rw 0 10",
            "0 restart all",
            "0 restart ost2",
            "2 disconnect 20",
            "1 evict",
            "0 fill ost1",
            "0 drain all",
        ] {
            let step: Step = line.parse().unwrap();
            assert_eq!(step.to_string(), line);
        }
        for (line, error) in [
            ("0 read h0 1", "read has no len"),
            ("0 read h0 1 2 3", "\"3\" is too much for read"),
            ("0 fly", "\"fly\" is not an operation"),
            ("x read", "\"x\" is not the number of a client"),
            ("0 seek h0 0 gold", "\"gold\" is not the what of seek"),
        ] {
            assert_eq!(line.parse::<Step>().unwrap_err(), error);
        }
    }

    #[test]
    fn a_private_store_is_seen_within_the_file_only() {
        assert_eq!(pages(4095, 2), (0, 8192));
        assert_eq!(pages(4096, 1), (4096, 4096));
        let stored = bytes(7, 4098, 3);
        assert_eq!(seen_privately(vec![0; 4], 4098, 3, 7), [0, 0, stored[0], stored[1]]);
        assert_eq!(seen_privately(vec![0; 2], 4099, 3, 7), [0, 0]);
    }

    #[test]
    fn patterns_have_no_zeros_and_depend_on_the_place() {
        let some = bytes(7, 1000, 5000);
        assert!(some.iter().all(|byte| *byte != 0));
        assert_eq!(some[1..], bytes(7, 1001, 4999));
        assert_ne!(some[..64], bytes(7, 1001, 64));
        assert_ne!(some[..64], bytes(8, 1000, 64));
    }
}
