//! `lfs mkdir` and `setdirstripe`: directories on certain MDTs, and what those in a directory are made with. Spec: mdt-ost
//! §12.1.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fulmar_base::Errno;
use fulmar_client::special;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::layout::{HashFlags, HashFunction, LmvMd, LmvUserMd};

use crate::context::{Status, complain};
use crate::mounts;

/// Make directories on certain MDTs of a mount, or set what directories in a directory are made with
///
/// The options are those of Lustre's lfs. Without them a directory is made as mkdir makes it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The MDT of the directories, or those of their stripes: 1,0; -1 for any
    #[arg(short = 'i', long = "mdt-index", value_name = "INDEX,...", allow_hyphen_values = true,
        value_delimiter = ',', value_parser = mdt)]
    index: Vec<u32>,
    /// Stripes of each directory; -1 for one on each MDT
    #[arg(short = 'c', long = "mdt-count", value_name = "N", allow_hyphen_values = true,
        value_parser = count)]
    count: Option<u32>,
    /// The same, and there may be several on an MDT
    #[arg(short = 'C', long = "mdt-overcount", value_name = "N", value_parser = count,
        conflicts_with = "count")]
    overcount: Option<u32>,
    /// Function from names to stripes: crush, crush2, fnv_1a_64 or all_char
    #[arg(short = 'H', long = "mdt-hash", value_name = "HASH", value_parser = hash)]
    hash: Option<HashFunction>,
    /// Set what new directories in existing ones get
    #[arg(short = 'D', long)]
    default: bool,
    /// Remove that
    #[arg(short, long, conflicts_with_all = ["default", "index", "count", "overcount", "hash"])]
    delete: bool,
    /// With -D: how many levels of directories inherit it; -1 for all
    #[arg(short = 'X', long, value_name = "N", allow_hyphen_values = true, value_parser = levels,
        requires = "default")]
    max_inherit: Option<u8>,
    /// With -D and any MDT: how many levels are spread over the MDTs; -1 for all
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = levels,
        requires = "default")]
    max_inherit_rr: Option<u8>,
    /// Permissions, in octal digits, by default as of mkdir
    #[arg(short, long, short_alias = 'o', value_name = "MODE", value_parser = mode)]
    mode: Option<u32>,
    /// Directories
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
}

/// As many as possible, or any.
const ALL: u32 = u32::MAX;
/// How many levels inherit stripes unless something else is wanted; a single one is inherited by all.
const INHERIT: u8 = 3;
const INHERIT_ALL: u8 = u8::MAX;

fn mdt(text: &str) -> Result<u32, String> {
    let index = if text == "-1" { Some(ALL) } else { text.parse().ok() };
    index
        .filter(|index| *index == ALL || *index < 0x1_0000)
        .ok_or_else(|| "it is not the index of an MDT".to_owned())
}

fn count(text: &str) -> Result<u32, String> {
    let count = if text == "-1" { Some(ALL) } else { text.parse().ok() };
    let is_possible = |count: &u32| *count == ALL || *count <= LmvMd::STRIPES_MAX;
    count
        .filter(is_possible)
        .ok_or_else(|| format!("it is not a number of stripes: -1, or 0 to {}", LmvMd::STRIPES_MAX))
}

fn levels(text: &str) -> Result<u8, String> {
    let levels = if text == "-1" { Some(INHERIT_ALL) } else { text.parse().ok() };
    let is_possible = |levels: &u8| *levels == INHERIT_ALL || *levels <= 250;
    levels.filter(is_possible).ok_or_else(|| "it is not -1 or 0 to 250".to_owned())
}

fn mode(text: &str) -> Result<u32, String> {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
    bits.ok_or_else(|| "it is not a mode such as 0750".to_owned())
}

fn hash(text: &str) -> Result<HashFunction, String> {
    let found = HASHES.iter().find(|(_, name)| *name == text).map(|(function, _)| *function);
    found.ok_or_else(|| "it is not crush, crush2, fnv_1a_64 or all_char".to_owned())
}

/// The functions from names to stripes.
pub(super) const HASHES: [(HashFunction, &str); 4] = [
    (HashFunction::ALL_CHARS, "all_char"),
    (HashFunction::FNV_1A_64, "fnv_1a_64"),
    (HashFunction::CRUSH, "crush"),
    (HashFunction::CRUSH2, "crush2"),
];

impl Args {
    /// Returns the layout that is wanted, if it is a certain one.
    fn layout(&self) -> Option<LmvUserMd> {
        let is_plain = self.index.is_empty() && self.hash.is_none() && !self.default;
        if is_plain && matches!(self.count.or(self.overcount), None | Some(0 | 1)) {
            return None;
        }
        let several = self.index.len() as u32;
        let count = self.count.or(self.overcount).unwrap_or(several.max(1));
        let first = self.index.first().copied().unwrap_or(ALL);
        let mut layout = LmvUserMd::wanted(count, first);
        layout.header.hash.function = self.hash.unwrap_or_default();
        if self.overcount.is_some() {
            layout.header.hash.flags = HashFlags::OVERSTRIPED;
        }
        if self.default {
            let usual = if count > 1 { INHERIT } else { INHERIT_ALL };
            layout.header.max_inherit = self.max_inherit.unwrap_or(usual);
            layout.header.max_inherit_rr = self.max_inherit_rr.unwrap_or(0);
        }
        Some(if several > 1 { layout.on(&self.index) } else { layout })
    }

    fn apply(&self, directory: &Path, layout: Option<&LmvUserMd>) -> io::Result<()> {
        let error = |errno: Errno| io::Error::from_raw_os_error(errno.0);
        if self.delete {
            return mounts::set_attribute(directory, special::DIRECTORY_DEFAULT, None)
                .map_err(error);
        }
        match layout {
            Some(layout) if self.default => {
                let value = layout.to_bytes();
                mounts::set_attribute(directory, special::DIRECTORY_DEFAULT, Some(&value))
                    .map_err(error)
            }
            Some(layout) => make(directory, self.mode, layout).map_err(error),
            None => make_plain(directory, self.mode),
        }
    }
}

/// Makes a directory with a layout.
fn make(directory: &Path, mode: Option<u32>, layout: &LmvUserMd) -> Result<(), Errno> {
    let name = directory.file_name().ok_or(Errno::EEXIST)?;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mode = mode.unwrap_or_else(|| 0o777 & !own_mask());
    let mode = format!("{mode:o} ");
    let value = [mode.as_bytes(), name.as_bytes(), &[0], &layout.to_bytes()].concat();
    mounts::set_attribute(parent.unwrap_or(Path::new(".")), special::NEW_DIRECTORY, Some(&value))
}

/// Returns the permissions that new files of this process do not get.
fn own_mask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

fn make_plain(directory: &Path, mode: Option<u32>) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(mode.unwrap_or(0o777)).create(directory)?;
    match mode {
        // The mask of the process does not count for permissions that were asked for.
        Some(mode) => std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

/// Makes directories, or changes what those in them are made with.
pub(super) fn run(args: &Args) -> Status {
    let layout = args.layout();
    let mut status = 0;
    for directory in &args.directories {
        if let Err(error) = args.apply(directory, layout.as_ref()) {
            complain(&format!("fulmar lfs mkdir: {}: {error}\n", directory.display()));
            let number = error.raw_os_error().and_then(|number| Status::try_from(number).ok());
            status = number.unwrap_or(1);
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::layout::LayoutMagic;

    use super::*;
    use crate::context::parsed;

    fn parse(line: &str) -> Result<Args, String> {
        parsed(&format!("mkdir {line}")).map_err(|error| error.to_string())
    }

    fn layout(line: &str) -> Option<LmvUserMd> {
        parse(line).unwrap().layout()
    }

    #[test]
    fn a_directory_without_wishes_is_a_plain_one() {
        for line in ["d", "-c 1 d", "-c 0 -m 0750 d"] {
            assert_eq!(layout(line), None, "{line}");
        }
        assert_eq!(parse("-o 0750 d").unwrap().mode, Some(0o750));
    }

    #[test]
    fn options_say_where_stripes_are() {
        let shown = |line| {
            let LmvUserMd { header, stripes, .. } = layout(line).unwrap();
            let mdts: Vec<u32> = stripes.iter().map(|stripe| stripe.mdt).collect();
            (header.stripe_count, header.stripe_offset, header.hash.function, mdts)
        };
        let none = HashFunction::default();
        assert_eq!(shown("-c 2 d"), (2, ALL, none, vec![]));
        assert_eq!(shown("-i 1 d"), (1, 1, none, vec![]));
        assert_eq!(shown("-c -1 -i 1 -H crush2 d"), (ALL, 1, HashFunction::CRUSH2, vec![]));
        assert_eq!(shown("-i 1,0 d"), (2, 1, none, vec![1, 0]));
        assert_eq!(layout("-i 1,0 d").unwrap().header.magic, LayoutMagic::LMV_STRIPE);
        assert_eq!(layout("-C 5 d").unwrap().header.hash.flags, HashFlags::OVERSTRIPED);
    }

    #[test]
    fn a_default_is_inherited() {
        let shown = |line| {
            let header = layout(line).unwrap().header;
            (header.stripe_count, header.max_inherit, header.max_inherit_rr)
        };
        assert_eq!(shown("-D -c 2 d"), (2, 3, 0));
        assert_eq!(shown("-D -c 1 -i -1 d"), (1, 255, 0));
        assert_eq!(shown("-D -c 4 -X 7 --max-inherit-rr -1 d"), (4, 7, 255));
        assert!(parse("-d d").unwrap().delete);
    }

    #[test]
    fn what_is_wrong_is_explained() {
        for (line, why) in [
            ("-i x d", "not the index of an MDT"),
            ("-i 70000 d", "not the index of an MDT"),
            ("-c 2001 d", "0 to 2000"),
            ("-c -2 d", "0 to 2000"),
            ("-H sha1 d", "crush, crush2"),
            ("-m 999 d", "mode such as 0750"),
            ("-X 3 d", "--default"),
            ("-D -X 251 d", "0 to 250"),
            ("-d -c 2 d", "cannot be used with"),
        ] {
            let error = parse(line).err().unwrap();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
