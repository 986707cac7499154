//! The flags of files that `lsattr` and `chattr` know, and the projects that files count for.
//!
//! The kernel reads and sets them by requests of its own (`FUSE_IOCTL`), also those of `FS_IOC_FSGETXATTR`. It has checked
//! that a caller who sets them owns the file; the MDT checks all again, and who may do what to a file with such flags.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_client::{Attributes, Change};
use fuser::{INodeNo, Request};

use crate::caller::caller;
use crate::front::Front;
use crate::replies::Reply;
use crate::state::{State, found};

/// `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`: a word of flags.
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
/// `FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR`: the [`Words`].
const GET_WORDS: u32 = 0x801c_581f;
const SET_WORDS: u32 = 0x401c_5820;

/// `struct fsxattr`: flags, of their own kind, and in the fourth word the project.
type Words = [u32; 7];

/// The flags of that kind, each with the one of the file. They are those that cannot be changed, are appended to only, are
/// synchronous, keep their time of access, are not dumped, and give their project to what is made in them.
const KINDS: [(u32, u32); 6] =
    [(0x8, 0x10), (0x10, 0x20), (0x20, 0x8), (0x40, 0x80), (0x80, 0x40), (0x200, 0x2000_0000)];

impl Front {
    /// Reads or sets the flags of a file. All other requests of programs are refused.
    pub(crate) fn control(
        &self,
        request: &Request,
        number: INodeNo,
        (command, data): (u32, &[u8]),
        reply: fuser::ReplyIoctl,
    ) {
        let (caller, file) = (caller(request, 0), self.state.fid(number));
        match (command, data.first_chunk(), words(data)) {
            (GET_FLAGS | GET_WORDS, ..) => {
                let get = |state: Arc<State>| async move {
                    found(state.file_system.getattr(&caller, file?).await)
                };
                self.run(request, reply, get, move |reply, found| match command {
                    GET_FLAGS => reply.ioctl(0, &found.flags.to_ne_bytes()),
                    _ => reply.ioctl(0, &told(&found)),
                });
            }
            (SET_FLAGS, Some(flags), _) => {
                let flags = Some(u32::from_ne_bytes(*flags));
                let change = Change { flags, ..Change::default() };
                let set = |state: Arc<State>| async move {
                    found(state.file_system.setattr(&caller, file?, change).await)
                };
                self.run(request, reply, set, |reply, _| reply.ioctl(0, &[]));
            }
            (SET_WORDS, _, Some(words)) => {
                let set = |state: Arc<State>| async move {
                    let file = file?;
                    let before = found(state.file_system.getattr(&caller, file).await)?;
                    let change = wanted(&before, words)?;
                    found(state.file_system.setattr(&caller, file, change).await)
                };
                self.run(request, reply, set, |reply, _| reply.ioctl(0, &[]));
            }
            // Which the program sees as ENOTTY.
            _ => reply.fail(Errno::ENOSYS),
        }
    }
}

fn words(data: &[u8]) -> Option<Words> {
    let mut words =
        data.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap_or_default()));
    let words = [(); 7].map(|()| words.next());
    words.iter().all(Option::is_some).then(|| words.map(Option::unwrap_or_default))
}

/// Returns what a program reads.
fn told(found: &Attributes) -> Vec<u8> {
    let has = |(kind, flag): &(u32, u32)| if found.flags & flag == 0 { 0 } else { *kind };
    let flags = KINDS.iter().map(has).sum();
    let words: Words = [flags, 0, 0, found.project, 0, 0, 0];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Returns what a program changes. Flags that are not of its kind stay.
///
/// # Errors
/// EOPNOTSUPP for one that no file here can have, as direct access to memory.
fn wanted(before: &Attributes, [kinds, _, _, project, ..]: Words) -> Result<Change, Errno> {
    let unknown = KINDS.into_iter().fold(kinds, |left, (kind, _)| left & !kind);
    if unknown != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let set = |flags, (kind, flag): (u32, u32)| {
        if kinds & kind == 0 { flags & !flag } else { flags | flag }
    };
    let flags = KINDS.into_iter().fold(before.flags, set);
    Ok(Change {
        flags: (flags != before.flags).then_some(flags),
        project: (project != before.project).then_some(project),
        ..Change::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_can_be_set() {
        let before = Attributes { flags: 0x2000_0018, project: 7, ..Attributes::default() };
        let words = words(&told(&before)).unwrap();
        assert_eq!(words, [0x228, 0, 0, 7, 0, 0, 0]);
        assert_eq!(wanted(&before, words), Ok(Change::default()));
        let other = Attributes { flags: 0x100, ..Attributes::default() };
        let change = wanted(&other, words).unwrap();
        assert_eq!((change.flags, change.project), (Some(0x2000_0118), Some(7)));
        assert_eq!(super::words(&[0; 27]), None);
        assert_eq!(wanted(&other, [0x8000, 0, 0, 0, 0, 0, 0]), Err(Errno::EOPNOTSUPP));
    }
}
