//! The flags of files, and their projects.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use rustix::fs::{IFlags, Timespec, Timestamps, UTIME_NOW, ioctl_getflags, ioctl_setflags};
use rustix::ioctl::{Getter, Setter, ioctl};

use crate::rig::Rig;

const EPERM: Option<i32> = Some(1);
const EACCES: Option<i32> = Some(13);
/// Times of now, as `touch` asks for them.
const NOW: Timestamps = {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
};
/// `FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR`.
type GetWords = Getter<0x801c_581f, [u32; 7]>;
type SetWords = Setter<0x401c_5820, [u32; 7]>;

#[test]
fn the_flags_of_a_file_are_set_and_obeyed() {
    let Some(mut rig) = Rig::start("flags") else { return };
    let [lv, other] = ["", ""].map(|options| rig.mount(options));
    let path = lv.join("file");
    fs::write(&path, "one").unwrap();
    let set = |flags| ioctl_setflags(File::open(&path).unwrap(), flags).unwrap();
    let seen = || ioctl_getflags(File::open(other.join("file")).unwrap()).unwrap();
    assert_eq!(seen(), IFlags::empty());
    set(IFlags::IMMUTABLE | IFlags::NODUMP);
    assert_eq!(seen(), IFlags::IMMUTABLE | IFlags::NODUMP);
    assert_eq!(fs::write(&path, "two").unwrap_err().raw_os_error(), EACCES);
    assert_eq!(fs::remove_file(&path).unwrap_err().raw_os_error(), EPERM);
    set(IFlags::APPEND);
    assert_eq!(fs::write(&path, "two").unwrap_err().raw_os_error(), EPERM);
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    (&file).write_all(b" more").unwrap();
    rustix::fs::futimens(&file, &NOW).unwrap();
    let past = file.set_modified(std::time::UNIX_EPOCH).unwrap_err();
    assert_eq!(past.raw_os_error(), EPERM);
    set(IFlags::empty());
    assert_eq!(fs::read(&path).unwrap(), b"one more");
    fs::remove_file(&path).unwrap();
    rig.stop();
}

#[test]
fn a_directory_gives_its_project_to_what_is_made_in_it() {
    const NO_DUMP: u32 = 0x80;
    const INHERIT: u32 = 0x200;
    let Some(mut rig) = Rig::start("project") else { return };
    let lv = rig.mount("");
    fs::create_dir(lv.join("d")).unwrap();
    // SAFETY: the lengths are those of the requests.
    let read = |path| unsafe { ioctl(File::open(lv.join(path)).unwrap(), GetWords::new()) };
    // SAFETY: as above.
    let set = |words| unsafe { ioctl(File::open(lv.join("d")).unwrap(), SetWords::new(words)) };
    const DIRECT_TO_MEMORY: u32 = 0x8000;
    let refused = set([NO_DUMP | DIRECT_TO_MEMORY, 0, 0, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(refused, rustix::io::Errno::OPNOTSUPP);
    assert_eq!(ioctl_getflags(File::open(lv.join("d")).unwrap()).unwrap(), IFlags::empty());
    set([NO_DUMP, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(ioctl_getflags(File::open(lv.join("d")).unwrap()).unwrap(), IFlags::NODUMP);
    let project = [NO_DUMP | INHERIT, 0, 0, 4711, 0, 0, 0];
    let effective = rustix::thread::capabilities(None).unwrap().effective;
    if effective.contains(rustix::thread::CapabilitySet::SYS_RESOURCE) {
        set(project).unwrap();
        assert_eq!(read("d").unwrap(), project);
        fs::write(lv.join("d/file"), "file").unwrap();
        assert_eq!(read("d/file").unwrap()[3], 4711);
    } else {
        assert_eq!(set(project).unwrap_err().raw_os_error(), 1);
    }
    rig.stop();
}
