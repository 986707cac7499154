//! Files that are opened by handles (`open_by_handle_at`), also by those that the kernel has forgotten.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Error, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::rig::Rig;

const ESTALE: i32 = 116;
/// `AT_FDCWD`.
const HERE: c_int = -100;

/// `struct file_handle`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Handle {
    len: u32,
    kind: i32,
    bytes: [u8; Self::MAX],
}

impl Handle {
    const MAX: usize = 128;
}

unsafe extern "C" {
    fn name_to_handle_at(
        at: c_int,
        path: *const c_char,
        handle: *mut Handle,
        mount: *mut c_int,
        flags: c_int,
    ) -> c_int;
    fn open_by_handle_at(mount: c_int, handle: *mut Handle, flags: c_int) -> c_int;
}

fn handle(path: &Path) -> Handle {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut handle = Handle { len: Handle::MAX as u32, kind: 0, bytes: [0; Handle::MAX] };
    let mut mount = 0;
    // SAFETY: all pointers are valid, and the handle has the room that it says.
    let result = unsafe { name_to_handle_at(HERE, path.as_ptr(), &mut handle, &mut mount, 0) };
    assert_eq!(result, 0, "{}", Error::last_os_error());
    handle
}

fn open(top: &Path, mut handle: Handle) -> Result<File, i32> {
    let top = File::open(top).unwrap();
    // SAFETY: the handle is one of the kernel, and the descriptor is a new one.
    unsafe {
        match open_by_handle_at(top.as_raw_fd(), &mut handle, 0) {
            -1 => Err(Error::last_os_error().raw_os_error().unwrap()),
            descriptor => Ok(File::from_raw_fd(descriptor)),
        }
    }
}

#[test]
fn a_file_is_opened_by_a_handle_that_another_mount_has_made() {
    let Some(mut rig) = Rig::start("handle") else { return };
    let mounts = [rig.mount(""), rig.mount(""), rig.mount("")];
    let first = &mounts[0];
    fs::create_dir_all(first.join("a/b")).unwrap();
    for name in ["kept", "removed"] {
        fs::write(first.join("a/b").join(name), name).unwrap();
    }
    let handles = ["a/b/kept", "a/b/removed", "a/b", ""].map(|path| handle(&first.join(path)));
    let numbers = ["a/b", "a"].map(|path| fs::metadata(first.join(path)).unwrap().ino());
    // The kernel knows nothing of them there, as after it has forgotten them.
    let second = &mounts[1];
    let mut text = String::new();
    open(second, handles[0]).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "kept");
    let directory = open(second, handles[2]).unwrap();
    assert_eq!(directory.metadata().unwrap().ino(), numbers[0]);
    let above = rustix::fs::statat(&directory, "..", rustix::fs::AtFlags::empty()).unwrap();
    assert_eq!(above.st_ino, numbers[1]);
    assert!(open(second, handles[3]).unwrap().metadata().unwrap().is_dir());
    fs::remove_file(first.join("a/b/removed")).unwrap();
    fs::rename(first.join("a/b"), first.join("c")).unwrap();
    let third = &mounts[2];
    assert_eq!(open(third, handles[1]).unwrap_err(), ESTALE);
    let directory = open(third, handles[2]).unwrap();
    let path = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).unwrap();
    assert_eq!(path, third.join("c"), "it has another name now");
    drop(directory);
    rig.stop();
}
