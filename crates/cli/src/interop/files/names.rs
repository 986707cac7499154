//! Names, links and renames.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use rustix::io::Errno;

use super::check::{At, Outcome, Site, equal, failed, holds, list, refused};

const NAME_MAX: usize = 255;
/// The longest target of a symbolic link that is tried. Servers store those of some hundred bytes differently.
const TARGET_LEN: usize = 3000;
const ROUNDS: usize = 20;

pub(super) fn any_bytes(site: &Site) -> Outcome {
    let at = site.sub("names")?;
    let long = "n".repeat(NAME_MAX);
    let accents = "ä".repeat(NAME_MAX / 2);
    let odd: [&[u8]; 8] =
        [b" ", b"a\nb", b"-rf", b"*?\\", b"...", b".hidden", &[0xff, 0xfe, b'x'], b"con:"];
    let names = odd.into_iter().chain([long.as_bytes(), accents.as_bytes()]);
    let mut names: Vec<OsString> = names.map(|name| OsStr::from_bytes(name).to_owned()).collect();
    for (number, name) in names.iter().enumerate() {
        fs::write(at.one.join(name), number.to_string()).at(format!("making {name:?}"))?;
    }
    for (number, name) in names.iter().enumerate() {
        let text = fs::read(at.two.join(name)).at(format!("reading {name:?}"))?;
        equal(format!("the text of {name:?}"), text, number.to_string().into_bytes())?;
    }
    names.sort();
    equal("the list of the first mount", list(&at.one)?, &names[..])?;
    equal("the list of the second mount", list(&at.two)?, &names[..])?;
    let longer = "n".repeat(NAME_MAX + 1);
    refused("a name of 256 bytes", fs::write(at.one.join(&longer), ""), Errno::NAMETOOLONG)?;
    refused("its stat", fs::metadata(at.one.join(&longer)), Errno::NAMETOOLONG)?;
    for name in &names {
        fs::remove_file(at.two.join(name)).at(format!("removing {name:?}"))?;
    }
    equal("what is left", list(&at.one)?, [""; 0])?;
    Ok(format!("{} names", names.len()))
}

pub(super) fn refusals(site: &Site) -> Outcome {
    let at = site.sub("refusals")?;
    let [file, directory, missing] = ["file", "dir", "missing"].map(|name| at.one.join(name));
    fs::write(&file, "text").at("making a file")?;
    fs::create_dir(&directory).at("making a directory")?;
    fs::write(directory.join("inner"), "").at("making a file in it")?;
    refused("mkdir of what exists", fs::create_dir(at.two.join("dir")), Errno::EXIST)?;
    refused("O_EXCL of what exists", File::create_new(at.two.join("file")), Errno::EXIST)?;
    refused("rmdir of a full directory", fs::remove_dir(&directory), Errno::NOTEMPTY)?;
    refused("rmdir of a file", fs::remove_dir(&file), Errno::NOTDIR)?;
    refused("unlink of a directory", fs::remove_file(&directory), Errno::ISDIR)?;
    refused("open of what is missing", File::open(&missing), Errno::NOENT)?;
    refused("unlink of what is missing", fs::remove_file(&missing), Errno::NOENT)?;
    refused("rename of what is missing", fs::rename(&missing, &file), Errno::NOENT)?;
    refused("a file as a directory", File::open(file.join("below")), Errno::NOTDIR)?;
    refused(
        "opening a directory to write",
        File::options().write(true).open(&directory),
        Errno::ISDIR,
    )?;
    refused("a directory over a file", fs::rename(&directory, &file), Errno::NOTDIR)?;
    refused("a file over a directory", fs::rename(&file, &directory), Errno::ISDIR)?;
    refused("a directory into itself", fs::rename(&directory, directory.join("x")), Errno::INVAL)?;
    refused("a hard link of a directory", fs::hard_link(&directory, &missing), Errno::PERM)?;
    equal("what is there", list(&at.two)?, ["dir", "file"])?;
    Ok("14 refusals with the right errors".to_owned())
}

pub(super) fn hard_links(site: &Site) -> Outcome {
    let at = site.sub("links")?;
    fs::create_dir(at.one.join("dir")).at("mkdir")?;
    fs::write(at.one.join("first"), "text").at("making a file")?;
    fs::hard_link(at.one.join("first"), at.one.join("second")).at("linking")?;
    fs::hard_link(at.two.join("second"), at.two.join("dir/third")).at("linking by the other")?;
    for (side, name) in [(&at.one, "first"), (&at.two, "second"), (&at.one, "dir/third")] {
        equal(name, fs::metadata(side.join(name)).at(name)?.nlink(), 3u64)?;
    }
    let number = |path: &Path| fs::metadata(path).at("stat").map(|found| found.ino());
    equal("inode numbers", number(&at.one.join("first"))?, number(&at.one.join("dir/third"))?)?;
    fs::remove_file(at.one.join("first")).at("removing one")?;
    let left = fs::metadata(at.two.join("second")).at("the other")?;
    equal("links that are left", left.nlink(), 2u64)?;
    equal("its text", fs::read_to_string(at.two.join("dir/third")).at("reading")?, "text")?;
    refused("the removed one", File::open(at.two.join("first")), Errno::NOENT)?;
    Ok("3 names of a file".to_owned())
}

pub(super) fn symbolic_links(site: &Site) -> Outcome {
    let at = site.sub("symlinks")?;
    let long = "t".repeat(TARGET_LEN);
    fs::write(at.one.join("file"), "text").at("making a file")?;
    for (name, target) in [("near", "file"), ("dangling", "../nothing"), ("long", long.as_str())] {
        symlink(target, at.one.join(name)).at(format!("making {name}"))?;
        let found = fs::read_link(at.two.join(name)).at(format!("reading {name}"))?;
        equal(format!("the target of {name}"), found.as_os_str().len(), target.len())?;
        equal(format!("the target of {name}"), found, OsString::from(target))?;
        let len = fs::symlink_metadata(at.two.join(name)).at("lstat")?.len();
        equal(format!("the length of {name}"), len, target.len() as u64)?;
    }
    equal("through it", fs::read_to_string(at.two.join("near")).at("reading")?, "text")?;
    refused("what dangles", File::open(at.two.join("dangling")), Errno::NOENT)?;
    symlink("loop", at.one.join("loop")).at("making a loop")?;
    refused("a loop", File::open(at.two.join("loop")), Errno::LOOP)?;
    fs::remove_file(at.two.join("near")).at("removing a link")?;
    holds("the target is still there", at.one.join("file").exists())?;
    Ok(format!("targets of up to {TARGET_LEN} bytes"))
}

pub(super) fn renames(site: &Site) -> Outcome {
    let at = site.sub("renames")?;
    let (one, two) = (|name: &str| at.one.join(name), |name: &str| at.two.join(name));
    for name in ["a", "b", "empty"] {
        fs::create_dir(one(name)).at("mkdir")?;
    }
    fs::write(one("a/file"), "text").at("making a file")?;
    fs::rename(one("a/file"), one("b/other")).at("into another directory")?;
    equal("its text", fs::read_to_string(two("b/other")).at("reading")?, "text")?;
    refused("the old name", File::open(two("a/file")), Errno::NOENT)?;
    fs::rename(two("b/other"), two("b/name")).at("in its directory, by the other")?;
    equal("its directory", list(&one("b"))?, ["name"])?;
    fs::rename(one("b"), one("empty")).at("a directory over an empty one")?;
    equal("its text", fs::read_to_string(two("empty/name")).at("reading")?, "text")?;
    fs::create_dir_all(one("a/deep/deeper")).at("mkdir")?;
    fs::rename(one("empty"), one("a/deep/deeper/moved")).at("a directory into a deep one")?;
    let text = fs::read_to_string(two("a/deep/deeper/moved/name")).at("reading")?;
    equal("its text", text, "text")?;
    let parent = fs::metadata(two("a/deep/deeper/moved/..")).at("stat of ..")?.ino();
    equal("its ..", parent, fs::metadata(two("a/deep/deeper")).at("stat")?.ino())?;
    fs::create_dir(one("full")).at("mkdir")?;
    fs::write(one("full/file"), "").at("making a file")?;
    refused("over a full directory", fs::rename(one("a"), one("full")), Errno::NOTEMPTY)?;
    fs::hard_link(one("full/file"), one("full/link")).at("linking")?;
    fs::rename(one("full/file"), one("full/link")).at("over a link of the same file")?;
    equal("both are left", list(&two("full"))?, ["file", "link"])?;
    Ok("files and directories, in and between directories".to_owned())
}

pub(super) fn renames_over_open_files(site: &Site) -> Outcome {
    let at = site.sub("over-open")?;
    for round in 0..ROUNDS {
        let (old, new) = (format!("old {round}"), format!("new {round}"));
        fs::write(at.one.join("target"), &old).at("making the target")?;
        let mut near = File::open(at.one.join("target")).at("opening it")?;
        let mut far = File::open(at.two.join("target")).at("opening it by the other")?;
        fs::write(at.one.join("source"), &new).at("making the source")?;
        fs::rename(at.one.join("source"), at.one.join("target")).at("renaming")?;
        for (name, file) in [("first", &mut near), ("second", &mut far)] {
            let mut text = String::new();
            file.read_to_string(&mut text).at(format!("the open file of the {name} mount"))?;
            equal(format!("the open file of the {name} mount"), text.as_str(), old.as_str())?;
            let links = file.metadata().at("its stat")?.nlink();
            equal(format!("links of the open file of the {name} mount"), links, 0u64)?;
        }
        let text = fs::read_to_string(at.two.join("target")).at("reading the new one")?;
        equal("the new one", text, new)?;
    }
    Ok(format!("{ROUNDS} times"))
}

pub(super) fn removed_while_open(site: &Site) -> Outcome {
    let at = site.sub("removed")?;
    let path = at.one.join("file");
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let file = file.at("making a file")?;
    file.write_all_at(b"before", 0).at("writing")?;
    let other = File::open(at.two.join("file")).at("opening it by the other")?;
    fs::remove_file(at.two.join("file")).at("removing it by the other")?;
    file.write_all_at(b" and after", 6).at("writing what is removed")?;
    let found = file.metadata().at("its stat")?;
    equal("length and links", (found.len(), found.nlink()), (16, 0))?;
    let mut text = [0; 16];
    other.read_exact_at(&mut text, 0).at("reading by the other")?;
    equal("its text", &text, b"before and after")?;
    refused("its name", File::open(&path), Errno::NOENT)?;
    equal("its directory", list(&at.one)?, [""; 0])?;
    Ok("read and written by both mounts".to_owned())
}

pub(super) fn seen_at_once(site: &Site) -> Outcome {
    let at = site.sub("names-seen")?;
    for round in 0..ROUNDS as u64 {
        let (near, far) = (at.side(round), at.side(round + 1));
        let name = format!("name{round}");
        holds("there is no such name yet", !far.join(&name).exists())?;
        fs::create_dir(near.join(&name)).at("mkdir")?;
        holds("the new directory is seen", far.join(&name).is_dir())?;
        fs::write(near.join(&name).join("file"), "").at("making a file")?;
        equal("its directory", list(&far.join(&name))?, ["file"])?;
        fs::rename(near.join(&name).join("file"), near.join("moved")).at("renaming")?;
        if far.join(&name).join("file").exists() || !far.join("moved").exists() {
            return failed(format!("round {round}: a rename is not seen"));
        }
        fs::remove_file(far.join("moved")).at("removing by the other")?;
        fs::remove_dir(far.join(&name)).at("rmdir by the other")?;
        equal("what is left", list(near)?, [""; 0])?;
    }
    Ok(format!("{ROUNDS} times in turns"))
}
