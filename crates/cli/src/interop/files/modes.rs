//! Modes, owners, times and extended attributes.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::check::{At, Outcome, Site, Wrong, equal, holds, refused};

/// A user and a group without any rights of their own.
const USER: u32 = 4711;
const GROUP: u32 = 4712;
/// What servers keep beside a file, and a little more than fits into its inode.
const VALUE_LEN: usize = 2000;

fn set_mode(path: &Path, mode: u32) -> Result<(), Wrong> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at(format!("chmod {mode:o}"))
}

fn mode(path: &Path) -> Result<u32, Wrong> {
    Ok(fs::metadata(path).at("stat")?.mode() & 0o7777)
}

/// Only the superuser changes owners, and acts as another user.
fn needs_root() -> Result<(), Wrong> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Wrong::NotRun("it needs root".to_owned()))
    }
}

pub(super) fn modes_and_owners(site: &Site) -> Outcome {
    needs_root()?;
    let at = site.sub("modes")?;
    let (one, two) = (at.one.join("file"), at.two.join("file"));
    fs::write(&one, "text").at("making a file")?;
    for wanted in [0o000, 0o400, 0o644, 0o777, 0o1777, 0o2755, 0o4755, 0o7777] {
        set_mode(&one, wanted)?;
        equal("the mode by the other mount", mode(&two)?, wanted)?;
    }
    chown(&one, Some(USER), Some(GROUP)).at("chown")?;
    let found = fs::metadata(&two).at("stat")?;
    equal("the owner", (found.uid(), found.gid()), (USER, GROUP))?;
    equal("set-uid and set-gid after chown", found.mode() & 0o6000, 0)?;
    let shared = at.one.join("shared");
    fs::create_dir(&shared).at("mkdir")?;
    chown(&shared, None, Some(GROUP)).at("chown of a directory")?;
    set_mode(&shared, 0o2775)?;
    fs::write(shared.join("file"), "").at("making a file in it")?;
    fs::create_dir(shared.join("dir")).at("making a directory in it")?;
    let inner = fs::metadata(at.two.join("shared/file")).at("stat")?;
    equal("the group in a set-gid directory", inner.gid(), GROUP)?;
    let inner = fs::metadata(at.two.join("shared/dir")).at("stat")?;
    equal("a directory in it", (inner.gid(), inner.mode() & 0o2000), (GROUP, 0o2000))?;
    Ok("8 modes, an owner, a set-gid directory".to_owned())
}

/// Runs a command of a shell as the user, and returns whether it succeeds.
fn as_user(directory: &Path, command: &str) -> Result<bool, Wrong> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(directory).uid(USER).gid(USER);
    Ok(shell.output().at("running a shell")?.status.success())
}

pub(super) fn another_user(site: &Site) -> Outcome {
    needs_root()?;
    let at = site.sub("user")?;
    set_mode(&at.one, 0o755)?;
    fs::create_dir(at.one.join("private")).at("mkdir")?;
    fs::write(at.one.join("private/secret"), "secret").at("making a file")?;
    set_mode(&at.one.join("private"), 0o700)?;
    fs::write(at.one.join("file"), "text").at("making a file")?;
    set_mode(&at.one.join("file"), 0o644)?;
    fs::create_dir(at.one.join("open")).at("mkdir")?;
    set_mode(&at.one.join("open"), 0o1777)?;
    fs::write(at.one.join("open/others"), "").at("making a file")?;
    let tries = [
        ("cat file", true),
        ("ls open", true),
        ("umask 022; echo x > open/mine && mkdir open/dir && chmod 600 open/mine", true),
        ("echo y >> open/mine && mv open/mine open/own", true),
        ("cat private/secret", false),
        ("ls private", false),
        ("echo x >> file", false),
        ("touch new", false),
        ("rm -f file", false),
        ("chmod 777 file", false),
        ("chown 0 open/own", false),
        ("rm -f open/others", false),
        ("mv open/others open/stolen", false),
    ];
    for (number, (command, may)) in (0..).zip(tries) {
        let done = as_user(at.side(number), command)?;
        let hint = if may && !done {
            " (a kernel's MDT must know it, or have mdt.*.identity_upcall=NONE)"
        } else {
            ""
        };
        equal(format!("whether uid {USER}{hint} may: {command}"), done, may)?;
    }
    let own = fs::metadata(at.one.join("open/own")).at("stat")?;
    equal("owner and mode", (own.uid(), own.mode() & 0o777, own.len()), (USER, 0o600, 4))?;
    Ok(format!("{} commands as uid {USER}", tries.len()))
}

pub(super) fn times(site: &Site) -> Outcome {
    let at = site.sub("times")?;
    let (one, two) = (at.one.join("file"), at.two.join("file"));
    fs::write(&one, "text").at("making a file")?;
    let past = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_accessed(past).set_modified(past);
    let file = File::options().write(true).open(&one).at("opening it")?;
    file.set_times(times).at("setting its times")?;
    let found = fs::metadata(&two).at("stat")?;
    equal("atime and mtime", (found.atime(), found.mtime()), (1_000_000_000, 1_000_000_000))?;
    let changed = found.ctime();
    holds("ctime is that of the change", changed > 1_600_000_000)?;
    file.write_all_at(b"TEXT", 0).at("writing")?;
    let found = fs::metadata(&two).at("stat")?;
    holds("a write sets mtime", found.mtime() >= changed)?;
    file.set_times(times).at("setting them again")?;
    set_mode(&two, 0o600)?;
    let found = fs::metadata(&one).at("stat")?;
    equal("mtime after chmod", found.mtime(), 1_000_000_000)?;
    holds("ctime does not go back", found.ctime() >= changed)?;
    let directory = || fs::metadata(&at.two).at("stat of the directory").map(|found| found.mtime());
    let before = directory()?;
    fs::write(at.one.join("new"), "").at("making a file")?;
    holds("a new name sets the directory's mtime", directory()? >= before)?;
    Ok("set, by a write, by chmod, of a directory".to_owned())
}

pub(super) fn extended_attributes(site: &Site) -> Outcome {
    let at = site.sub("xattrs")?;
    let (one, two) = (at.one.join("file"), at.two.join("file"));
    fs::write(&one, "").at("making a file")?;
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&one, name, value, flags);
    match set("user.colour", b"blue", XattrFlags::CREATE) {
        Err(Errno::OPNOTSUPP) => {
            return Err(Wrong::NotRun("the servers have no user.* attributes".to_owned()));
        }
        done => done.at("setting")?,
    }
    let long = super::check::pattern(1, VALUE_LEN);
    set("user.long", &long, XattrFlags::empty()).at("setting a long one")?;
    set("user.empty", b"", XattrFlags::empty()).at("setting an empty one")?;
    let get = |name: &str| {
        let mut value = vec![0; 2 * VALUE_LEN];
        let len = rustix::fs::getxattr(&two, name, &mut value[..])?;
        value.truncate(len);
        Ok::<_, Errno>(value)
    };
    equal("one", get("user.colour").at("getting")?, b"blue")?;
    equal("a long one", get("user.long").at("getting")?, long)?;
    equal("an empty one", get("user.empty").at("getting")?, b"")?;
    refused("creating it again", set("user.colour", b"red", XattrFlags::CREATE), Errno::EXIST)?;
    refused("replacing what is not", set("user.no", b"red", XattrFlags::REPLACE), Errno::NODATA)?;
    set("user.colour", b"green", XattrFlags::REPLACE).at("replacing")?;
    equal("the new one", get("user.colour").at("getting")?, b"green")?;
    let mut names = vec![0; 4096];
    let len = rustix::fs::listxattr(&two, &mut names[..]).at("listing")?;
    let names = names[..len].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    equal("the list", names.count(), 3)?;
    let small = rustix::fs::getxattr(&two, "user.long", &mut [0u8; 10][..]);
    refused("a buffer that is too small", small, Errno::RANGE)?;
    rustix::fs::removexattr(&two, "user.colour").at("removing")?;
    refused(
        "a removed one",
        rustix::fs::getxattr(&one, "user.colour", &mut [0u8; 16][..]),
        Errno::NODATA,
    )?;
    Ok(format!("values of 0 to {VALUE_LEN} bytes"))
}
