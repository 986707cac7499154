//! What programs expect of one mount.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{OFlags, RenameFlags, XattrFlags};

use crate::rig::{Rig, TIMEOUT};

/// A user without any rights of its own.
const USER: u32 = 4711;

fn errno<T>(result: std::io::Result<T>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// Runs a command of a shell in a directory as the user, and returns whether it succeeds.
fn as_user(directory: &Path, command: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(directory).uid(USER).gid(USER);
    shell.output().unwrap().status.success()
}

#[test]
fn names_links_and_renames() {
    let Some(mut rig) = Rig::start("names") else { return };
    let lv = rig.mount("");
    fs::create_dir(lv.join("a")).unwrap();
    fs::write(lv.join("a/one"), "one").unwrap();
    assert_eq!(fs::create_dir(lv.join("a")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(errno(fs::remove_dir(lv.join("a"))), 39);
    assert_eq!(errno(fs::remove_file(lv.join("a"))), 21);
    assert_eq!(errno(fs::remove_dir(lv.join("a/one"))), 20);

    fs::hard_link(lv.join("a/one"), lv.join("link")).unwrap();
    let (one, link) =
        (fs::metadata(lv.join("a/one")).unwrap(), fs::metadata(lv.join("link")).unwrap());
    assert_eq!((one.ino(), one.nlink(), link.nlink()), (link.ino(), 2, 2));
    symlink("a/one", lv.join("soft")).unwrap();
    assert_eq!(fs::read_link(lv.join("soft")).unwrap(), Path::new("a/one"));
    assert_eq!(fs::read_to_string(lv.join("soft")).unwrap(), "one");

    // Over a file that is open.
    fs::write(lv.join("target"), "old").unwrap();
    let mut open = File::open(lv.join("target")).unwrap();
    fs::rename(lv.join("link"), lv.join("target")).unwrap();
    let mut old = String::new();
    open.read_to_string(&mut old).unwrap();
    assert_eq!(
        (old.as_str(), fs::read_to_string(lv.join("target")).unwrap().as_str()),
        ("old", "one")
    );
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    assert_eq!(errno(fs::rename(lv.join("a"), lv.join("a/below"))), 22);
    let (from, to) = (File::open(&lv).unwrap(), File::open(&lv).unwrap());
    let refused =
        rustix::fs::renameat_with(&from, "target", &to, "new", RenameFlags::NOREPLACE).unwrap_err();
    assert_eq!(refused.raw_os_error(), 22);

    let long = "n".repeat(255);
    fs::write(lv.join(&long), "long").unwrap();
    assert_eq!(errno(fs::write(lv.join("n".repeat(256)), "")), 36);
    let mut listed: Vec<_> =
        fs::read_dir(&lv).unwrap().map(|one| one.unwrap().file_name()).collect();
    listed.sort();
    assert_eq!(listed, ["a", long.as_str(), "soft", "target"]);
    rig.stop();
}

#[test]
fn a_file_that_is_removed_lives_until_it_is_closed() {
    let Some(mut rig) = Rig::start("removed") else { return };
    let lv = rig.mount("");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(lv.join("file")).unwrap();
    fs::remove_file(lv.join("file")).unwrap();
    file.write_all_at(b"still", 0).unwrap();
    assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().nlink()), (5, 0));
    let mut data = [0; 5];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(&data, b"still");
    assert_eq!(errno(File::open(lv.join("file"))), 2);
    rig.stop();
}

#[test]
fn modes_owners_and_times() {
    let Some(mut rig) = Rig::start("modes") else { return };
    let lv = rig.mount("");
    let path = lv.join("file");
    OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode(), 0o100_640);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode(), 0o104_755);
    std::os::unix::fs::chown(&path, Some(USER), Some(USER)).unwrap();
    let owned = fs::metadata(&path).unwrap();
    assert_eq!((owned.uid(), owned.gid(), owned.mode()), (USER, USER, 0o100_755));
    let past = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let times = fs::FileTimes::new().set_accessed(past).set_modified(past);
    File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.mtime(), found.atime()), (1_000_000, 1_000_000));
    let before = UNIX_EPOCH - Duration::from_secs(315_619_200);
    let before = fs::FileTimes::new().set_accessed(before).set_modified(before);
    File::options().write(true).open(&path).unwrap().set_times(before).unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.mtime(), found.atime()), (-315_619_200, -315_619_200), "1960");

    // A second user.
    fs::create_dir(lv.join("private")).unwrap();
    fs::set_permissions(lv.join("private"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(lv.join("private/secret"), "secret").unwrap();
    fs::write(lv.join("read-only"), "text").unwrap();
    assert!(!as_user(&lv, "cat private/secret") && !as_user(&lv, "ls private"));
    assert!(as_user(&lv, "cat read-only") && !as_user(&lv, "echo x >> read-only"));
    assert!(!as_user(&lv, "touch new") && !as_user(&lv, "chmod 777 read-only"));
    assert!(!as_user(&lv, "rm -f read-only") && as_user(&lv, "echo x > file"));
    fs::create_dir(lv.join("open")).unwrap();
    fs::set_permissions(lv.join("open"), fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(as_user(&lv, "umask 077 && touch open/mine && mkdir open/directory"));
    let (mine, directory) =
        (fs::metadata(lv.join("open/mine")), fs::metadata(lv.join("open/directory")));
    let (mine, directory) = (mine.unwrap(), directory.unwrap());
    assert_eq!((mine.uid(), mine.mode(), directory.mode()), (USER, 0o100_600, 0o040_700));
    // Who may write a file may give it the time of now, but no other.
    assert!(as_user(&lv, "touch file") && !as_user(&lv, "touch read-only"));
    fs::write(lv.join("shared"), "").unwrap();
    fs::set_permissions(lv.join("shared"), fs::Permissions::from_mode(0o666)).unwrap();
    File::options().write(true).open(lv.join("shared")).unwrap().set_times(times).unwrap();
    assert!(as_user(&lv, "touch shared") && !as_user(&lv, "touch -d 2001-01-01 shared"));
    assert!(fs::metadata(lv.join("shared")).unwrap().mtime() > 1_000_000_000);
    fs::write(lv.join("open/others"), "").unwrap();
    assert!(!as_user(&lv, "rm -f open/others"));
    rig.stop();
}

#[test]
fn who_writes_a_file_does_not_become_its_owner() {
    let Some(mut rig) = Rig::start("suid") else { return };
    let lv = rig.mount("");
    let path = lv.join("tool");
    let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
    let set = || fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    fs::write(&path, "text").unwrap();
    set();
    fs::write(&path, "by root").unwrap();
    assert_eq!(mode(), 0o6777);
    assert!(as_user(&lv, "printf x >> tool"));
    assert_eq!(mode(), 0o777);
    set();
    assert!(as_user(&lv, ": > tool"));
    assert_eq!(mode(), 0o777);
    set();
    assert!(!as_user(&lv, "chmod 755 tool"));
    std::os::unix::fs::chown(&path, Some(USER), None).unwrap();
    assert_eq!(mode(), 0o777);
    set();
    std::os::unix::fs::chown(&path, None, Some(USER)).unwrap();
    assert_eq!(mode(), 0o777);
    set();
    assert!(as_user(&lv, "fallocate -l 100000 tool"));
    assert_eq!(mode(), 0o777);
    set();
    assert!(as_user(&lv, "truncate -s 10 tool"));
    assert_eq!(mode(), 0o777);
    set();
    fs::write(&path, "by root").unwrap();
    File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
    assert_eq!(mode(), 0o6777);
    // A directory keeps them.
    fs::create_dir(lv.join("d")).unwrap();
    fs::set_permissions(lv.join("d"), fs::Permissions::from_mode(0o6777)).unwrap();
    std::os::unix::fs::chown(lv.join("d"), Some(USER), Some(USER)).unwrap();
    assert_eq!(fs::metadata(lv.join("d")).unwrap().mode() & 0o7777, 0o6777);
    rig.stop();
}

#[test]
fn appending_can_begin_and_end_while_a_file_is_open() {
    let Some(mut rig) = Rig::start("fcntl") else { return };
    let lv = rig.mount("");
    let file = File::create(lv.join("log")).unwrap();
    let set = |flags| rustix::fs::fcntl_setfl(&file, flags).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    set(OFlags::APPEND);
    file.write_all_at(b" second", 0).unwrap();
    set(OFlags::empty());
    file.write_all_at(b"F", 0).unwrap();
    assert_eq!(fs::read_to_string(lv.join("log")).unwrap(), "First second");
    rig.stop();
}

#[test]
fn data_holes_and_lengths() {
    let Some(mut rig) = Rig::start("data") else { return };
    let lv = rig.mount("");
    let path = lv.join("sparse");
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    let data: Vec<u8> = (0..3_000_001u32).map(|at| ((at * 31) >> 3) as u8).collect();
    file.write_all(&data).unwrap();
    file.write_all_at(b"end", 64 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), (64 << 20) + 3);
    assert!(file.metadata().unwrap().blocks() < 32 << 11);
    let mut back = vec![1; data.len() + 5];
    file.read_exact_at(&mut back, 0).unwrap();
    assert!(back[..data.len()] == data && back[data.len()..] == [0; 5]);
    file.set_len(10).unwrap();
    file.set_len(20).unwrap();
    file.seek(SeekFrom::Start(5)).unwrap();
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [&data[5..10], &[0; 10]].concat());
    assert_eq!(file.seek(SeekFrom::End(-1)).unwrap(), 19);
    file.sync_all().unwrap();
    File::open(&lv).unwrap().sync_all().unwrap();
    drop(file);
    fs::write(&path, "cut").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"cut");

    let user = "user.colour";
    rustix::fs::setxattr(&path, user, b"blue", XattrFlags::empty()).unwrap();
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(&path, user, &mut value).unwrap();
    assert_eq!(&value[..len], b"blue");
    let exists = rustix::fs::setxattr(&path, user, b"red", XattrFlags::CREATE).unwrap_err();
    assert_eq!(exists.raw_os_error(), 17);
    rustix::fs::removexattr(&path, user).unwrap();
    assert_eq!(rustix::fs::getxattr(&path, user, &mut value).unwrap_err().raw_os_error(), 61);
    rig.stop();
}

#[test]
fn trees_are_deep_and_directories_large() {
    let Some(mut rig) = Rig::start("trees") else { return };
    let lv = rig.mount("");
    let mut path = lv.clone();
    for depth in 0..60 {
        path.push(format!("level{depth}"));
    }
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("bottom"), "bottom").unwrap();
    assert_eq!(fs::read_to_string(path.join("bottom")).unwrap(), "bottom");
    let large = lv.join("large");
    fs::create_dir(&large).unwrap();
    for number in 0..500 {
        fs::write(large.join(format!("a-file-with-the-number-{number}")), "").unwrap();
    }
    let mut names: Vec<_> =
        fs::read_dir(&large).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(names.len(), 500);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 500);
    fs::remove_dir_all(&large).unwrap();
    fs::remove_dir_all(lv.join("level0")).unwrap();
    assert_eq!(fs::read_dir(&lv).unwrap().count(), 0);
    rig.stop();
}

#[test]
fn what_is_opened_so_keeps_its_time_of_access() {
    let Some(mut rig) = Rig::start("noatime") else { return };
    let lv = rig.mount("strictatime");
    fs::write(lv.join("file"), "file").unwrap();
    fs::create_dir(lv.join("d")).unwrap();
    let past = UNIX_EPOCH + Duration::from_secs(1_000_000);
    for name in ["file", "d"] {
        let times = fs::FileTimes::new().set_accessed(past);
        File::open(lv.join(name)).unwrap().set_times(times).unwrap();
    }
    let open = |name, flags: OFlags| {
        let flags = flags.bits() as i32;
        OpenOptions::new().read(true).custom_flags(flags).open(lv.join(name)).unwrap()
    };
    let read = |flags| {
        open("file", flags).read_exact_at(&mut [0; 4], 0).unwrap();
        rustix::fs::Dir::new(open("d", flags)).unwrap().for_each(drop);
        ["file", "d"].map(|name| fs::metadata(lv.join(name)).unwrap().atime() > 1_000_000)
    };
    assert_eq!(read(OFlags::NOATIME), [false; 2]);
    assert_eq!(read(OFlags::empty()), [true; 2]);
    rig.stop();
}

#[test]
fn reads_change_the_time_of_access_as_the_mount_says() {
    let Some(mut rig) = Rig::start("access") else { return };
    let [lv, other, keeping, all] =
        ["", "", "noatime", "strictatime"].map(|options| rig.mount(options));
    fs::write(lv.join("file"), "file").unwrap();
    fs::create_dir(lv.join("d")).unwrap();
    let past = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let age = |time| {
        for name in ["file", "d"] {
            let times = fs::FileTimes::new().set_accessed(time).set_modified(past);
            File::open(lv.join(name)).unwrap().set_times(times).unwrap();
        }
    };
    let read = |top: &Path| {
        fs::read(top.join("file")).unwrap();
        fs::read_dir(top.join("d")).unwrap().for_each(drop);
    };
    let seen = |top: &Path| ["file", "d"].map(|name| fs::metadata(top.join(name)).unwrap().atime());
    let is_new = |[file, directory]: [i64; 2]| file > 1_000_000_000 && directory > 1_000_000_000;
    age(past);
    read(&keeping);
    assert_eq!(seen(&keeping), [1_000_000; 2]);
    read(&lv);
    assert!(is_new(seen(&lv)), "at once: {:?}", seen(&lv));
    // The others see it when it was closed, which is not waited for, and their locks are lost.
    let begun = Instant::now();
    while !is_new(seen(&other)) {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", seen(&other));
        fs::set_permissions(lv.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(lv.join("d"), fs::Permissions::from_mode(0o755)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    // Newer than the change, and less than a day old.
    let hour = SystemTime::now() - Duration::from_secs(3600);
    let before = SystemTime::now() + Duration::from_secs(3600);
    age(before);
    read(&lv);
    let expected = before.duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    assert_eq!(seen(&lv), [expected; 2]);
    age(hour);
    read(&all);
    let hour = hour.duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    assert!(seen(&all).iter().all(|time| *time > hour + 1800));
    rig.stop();
}
