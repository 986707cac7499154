//! Deep trees, large directories, and trees of small files.

use std::collections::BTreeSet;
use std::fs;

use rustix::io::Errno;

use super::check::{At, Outcome, Site, equal, list, pattern, refused, same};

const DEPTH: usize = 60;
const NAMES: usize = 500;
const DIRECTORIES: usize = 10;
const FILES: usize = 20;

pub(super) fn deep(site: &Site) -> Outcome {
    let at = site.sub("deep")?;
    let levels = |top: &str| {
        let inner = (1..DEPTH).map(|depth| format!("level-{depth}-of-a-deep-tree"));
        std::iter::once(top.to_owned()).chain(inner).collect::<std::path::PathBuf>()
    };
    let path = levels("top");
    fs::create_dir_all(at.one.join(&path)).at("making it")?;
    fs::write(at.one.join(&path).join("bottom"), "text").at("making a file at the bottom")?;
    let bottom = at.two.join(&path).join("bottom");
    equal("its text", fs::read_to_string(bottom).at("reading")?, "text")?;
    fs::rename(at.two.join("top"), at.two.join("renamed")).at("renaming the top")?;
    let moved = at.one.join(levels("renamed")).join("bottom");
    equal("its text", fs::read_to_string(&moved).at("reading")?, "text")?;
    let below = fs::rename(at.one.join("renamed"), at.one.join(levels("renamed")).join("below"));
    refused("the top into its bottom", below, Errno::INVAL)?;
    fs::remove_dir_all(at.one.join("renamed")).at("removing the tree")?;
    equal("what is left", list(&at.two)?, [""; 0])?;
    Ok(format!("{DEPTH} levels"))
}

pub(super) fn large(site: &Site) -> Outcome {
    let at = site.sub("large")?;
    let name = |number: usize| format!("a-file-of-a-large-directory-with-the-number-{number}");
    for number in 0..NAMES {
        fs::write(at.side(number as u64).join(name(number)), "").at(format!("file {number}"))?;
    }
    for (which, side) in [("first", &at.one), ("second", &at.two)] {
        let listed = list(side)?;
        equal(format!("names that the {which} mount lists"), listed.len(), NAMES)?;
        let different: BTreeSet<_> = listed.into_iter().collect();
        equal(format!("different names that the {which} mount lists"), different.len(), NAMES)?;
    }
    // Names that go while a directory is read: the others are listed, each once.
    let mut kept = BTreeSet::new();
    for (place, entry) in fs::read_dir(&at.one).at("reading")?.enumerate() {
        let entry = entry.at("reading on")?;
        if place % 2 == 0 {
            fs::remove_file(at.two.join(entry.file_name())).at("removing by the other")?;
        } else {
            kept.insert(entry.file_name());
        }
    }
    equal("what is kept", list(&at.one)?, kept.into_iter().collect::<Vec<_>>())?;
    Ok(format!("{NAMES} names, half of them removed while they are listed"))
}

pub(super) fn small_files(site: &Site) -> Outcome {
    let at = site.sub("small")?;
    let len = |number: usize| number * 397 % 20_000;
    for directory in 0..DIRECTORIES {
        let directory_of = at.one.join(format!("dir{directory}"));
        fs::create_dir(&directory_of).at("mkdir")?;
        for file in 0..FILES {
            let number = directory * FILES + file;
            let data = pattern(number as u64, len(number));
            fs::write(directory_of.join(format!("file{file}")), data).at("writing a file")?;
        }
    }
    let mut bytes = 0;
    for directory in 0..DIRECTORIES {
        let directory_of = at.two.join(format!("dir{directory}"));
        equal("files of a directory", list(&directory_of)?.len(), FILES)?;
        for file in 0..FILES {
            let number = directory * FILES + file;
            let path = directory_of.join(format!("file{file}"));
            let length = fs::metadata(&path).at("stat")?.len();
            equal(format!("the length of {}", path.display()), length, len(number) as u64)?;
            let data = fs::read(&path).at("reading a file")?;
            same(path.display(), &data, &pattern(number as u64, len(number)))?;
            bytes += data.len();
        }
    }
    fs::remove_dir_all(&at.two).at("removing the tree by the other")?;
    let files = DIRECTORIES * FILES;
    Ok(format!("{files} files of {bytes} bytes, made by one mount and read by the other"))
}
