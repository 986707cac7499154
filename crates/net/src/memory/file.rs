//! Ranges of files, moved straight into and out of memory.

use std::io;
use std::os::fd::AsFd;

use super::Memory;
use crate::sys::{self, Sinks, Sources};

impl Memory {
    /// Fills the memory from `file`, beginning at `offset` of it, without a copy by the program.
    /// Returns how many bytes there were; fewer than the memory has at the end of the file only.
    ///
    /// A file that was opened with `O_DIRECT` wants `offset` and every segment aligned to its
    /// blocks; buffers begin on a page.
    ///
    /// # Errors
    /// What the system said; EPERM if the memory is read-only.
    pub fn read_from(&self, file: impl AsFd, offset: u64) -> io::Result<usize> {
        if !self.is_writable() {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        self.transfer(|done| {
            let mut sinks = Sinks::new();
            sinks.push_memory(self, done);
            sys::read_file(file.as_fd(), &sinks, offset + done as u64)
        })
    }

    /// Writes the memory to `file`, beginning at `offset` of it, without a copy by the program.
    /// Returns how many bytes went, which is all unless the system takes no more.
    ///
    /// # Errors
    /// What the system said.
    pub fn write_to(&self, file: impl AsFd, offset: u64) -> io::Result<usize> {
        self.transfer(|done| {
            let mut sources = Sources::new();
            sources.push_memory(self, done);
            sys::write_file(file.as_fd(), &sources, offset + done as u64)
        })
    }

    /// Calls `call` with how many bytes are done, until none are left or it moves none.
    fn transfer(&self, mut call: impl FnMut(usize) -> io::Result<usize>) -> io::Result<usize> {
        let mut done = 0;
        while done < self.len() {
            match call(done) {
                Ok(0) => break,
                Ok(moved) => done += moved,
                // What is done is reported; the error comes again with the next call.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;

    use super::*;
    use crate::memory::{Buffer, PAGE};

    /// A file that goes with the test, on a file system that stores it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let directory = std::env::current_exe().unwrap().parent().unwrap().to_owned();
            Self(directory.join(format!("fulmar-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    /// `count` pages of several buffers, out of order.
    fn pages(count: usize) -> Memory {
        let buffers: Vec<Buffer> = (0..3).map(|_| Buffer::new(count * PAGE)).collect();
        let page = |n: usize| buffers[n % 3].slice((count - n - 1) * PAGE..(count - n) * PAGE);
        Memory::gather((0..count).map(page)).unwrap()
    }

    fn bytes_of(memory: &Memory) -> Vec<u8> {
        let mut bytes = vec![0; memory.len()];
        memory.read_at(0, &mut bytes);
        bytes
    }

    #[test]
    fn ranges_of_a_file_come_and_go_through_thousands_of_segments() {
        let scratch = Scratch::new("segments");
        let bytes: Vec<u8> = (0..3000 * PAGE).map(|n| (n / 7 % 253) as u8).collect();
        File::create(&scratch.0).unwrap().write_all(&bytes).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&scratch.0).unwrap();
        let memory = pages(2048);
        assert_eq!(memory.read_from(&file, 100).unwrap(), 2048 * PAGE);
        assert!(bytes_of(&memory) == bytes[100..][..2048 * PAGE]);
        assert_eq!(memory.write_to(&file, 50).unwrap(), 2048 * PAGE);
        let written = fs::read(&scratch.0).unwrap();
        assert!(written[..50] == bytes[..50]);
        assert!(written[50..][..2048 * PAGE] == bytes[100..][..2048 * PAGE]);
        let end = (3000 * PAGE - 10) as u64;
        assert_eq!(memory.read_from(&file, end).unwrap(), 10, "the file ends");
        assert_eq!(memory.read_from(&file, end + 10).unwrap(), 0);
    }

    #[test]
    fn buffers_are_aligned_for_direct_io() {
        let scratch = Scratch::new("direct");
        let bytes: Vec<u8> = (0..64 * PAGE).map(|n| (n / 5 % 251) as u8).collect();
        File::create(&scratch.0).unwrap().write_all(&bytes).unwrap();
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(libc::O_DIRECT);
        let file = match options.open(&scratch.0) {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let what = "NOT RUN: direct I/O: this file system has none";
                return writeln!(io::stderr(), "{what}").unwrap();
            }
            Err(error) => panic!("{error}"),
        };
        let memory = pages(16);
        assert_eq!(memory.read_from(&file, 8 * PAGE as u64).unwrap(), 16 * PAGE);
        assert!(bytes_of(&memory) == bytes[8 * PAGE..24 * PAGE]);
        assert_eq!(memory.write_to(&file, 0).unwrap(), 16 * PAGE);
        let written = fs::read(&scratch.0).unwrap();
        assert!(written[..16 * PAGE] == bytes[8 * PAGE..24 * PAGE]);
    }

    #[test]
    fn a_read_only_memory_is_not_filled() {
        let file = File::open("/proc/self/exe").unwrap();
        let memory = Memory::from(Buffer::new(8).read_only());
        let error = memory.read_from(&file, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
