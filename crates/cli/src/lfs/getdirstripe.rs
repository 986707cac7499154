//! `lfs getdirstripe`: the stripes of directories, in the form of Lustre's lfs. Spec: mdt-ost §12.1.

use std::fmt::Write;
use std::path::Path;

use fulmar_base::Errno;
use fulmar_client::special;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::layout::{HashFlags, HashType, LmvUserMd};
use fulmar_wire::Order;

use super::ReachArgs;
use super::mkdir::HASHES;
use super::place::{At, Kind, Place, print_each};
use crate::context::Status;

/// Print the stripes of directories, and on which MDTs they are
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Paths on a mount, or addresses: 10.0.0.1@tcp:/lustre/projects
    #[arg(value_name = "PATH|MGS:/NAME/PATH", required = true)]
    places: Vec<Place>,
    #[command(flatten)]
    show: Show,
    #[command(flatten)]
    reach: ReachArgs,
}

/// What is printed.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
struct Show {
    /// What new directories in them get
    #[arg(short = 'D', long)]
    default: bool,
    /// Directories with all that are below
    #[arg(short, long)]
    recursive: bool,
    /// Only the number of stripes
    #[arg(short = 'c', long, group = "one")]
    mdt_count: bool,
    /// Only the index of the first MDT
    #[arg(short = 'i', long, short_alias = 'm', group = "one")]
    mdt_index: bool,
    /// Only the function from names to stripes
    #[arg(short = 'H', long, group = "one")]
    mdt_hash: bool,
}

/// Prints the stripes of directories.
pub(super) fn run(args: &Args) -> Status {
    print_each(("getdirstripe", &args.reach), &args.places, |at, report| {
        args.show.walk(at, at.path(), report);
    })
}

impl Show {
    fn walk(self, at: &At, path: &Path, report: &mut dyn FnMut(&Path, Result<String, Errno>)) {
        report(path, self.of(at, path));
        if !self.recursive {
            return;
        }
        match at.list(path) {
            Ok(all) => {
                let is_directory = |one: &&std::path::PathBuf| at.kind(one) == Ok(Kind::Directory);
                all.iter().filter(is_directory).for_each(|one| self.walk(at, one, report));
            }
            Err(errno) => report(path, Err(errno)),
        }
    }

    fn of(self, at: &At, path: &Path) -> Result<String, Errno> {
        if at.kind(path)? != Kind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let name =
            if self.default { special::DIRECTORY_DEFAULT } else { special::DIRECTORY_STRIPES };
        let layout = match at.attribute(path, name) {
            Err(Errno::ENODATA) => return Ok(format!("{} has no stripe info\n", path.display())),
            layout => LmvUserMd::decode(&layout?, Order::Little).map_err(|_| Errno::EPROTO)?,
        };
        Ok(self.shown(&layout))
    }

    fn shown(self, layout: &LmvUserMd) -> String {
        let header = &layout.header;
        let [count, offset] = [header.stripe_count, header.stripe_offset].map(|one| one as i32);
        let hash = hash(header.hash);
        if self.mdt_count {
            return format!("{count}\n");
        } else if self.mdt_index {
            return format!("{offset}\n");
        } else if self.mdt_hash {
            return format!("{hash}\n");
        }
        let mut text =
            format!("lmv_stripe_count: {count} lmv_stripe_offset: {offset} lmv_hash_type: {hash}");
        if self.default {
            let [all, rr] = [header.max_inherit, header.max_inherit_rr].map(levels);
            let _ = write!(text, " lmv_max_inherit: {all} lmv_max_inherit_rr: {rr}");
        }
        text += "\n";
        if !layout.stripes.is_empty() {
            text += "mdtidx\t\t FID[seq:oid:ver]\n";
        }
        for stripe in &layout.stripes {
            let _ = writeln!(text, "{:6}\t\t {}\t\t", stripe.mdt, stripe.fid);
        }
        text
    }
}

/// Returns a number of levels: -1 for all.
fn levels(levels: u8) -> String {
    if levels == u8::MAX { "-1".to_owned() } else { levels.to_string() }
}

/// Returns the name of a hash, and its flags.
fn hash(hash: HashType) -> String {
    let known = HASHES.iter().find(|(function, _)| *function == hash.function);
    let name = match known {
        Some((_, name)) => (*name).to_owned(),
        None if hash.function.0 == 0 => "none".to_owned(),
        None => format!("{:#x}", hash.function.0),
    };
    let flags = [
        (HashFlags::OVERSTRIPED, "overstriped"),
        (HashFlags::FIXED, "fixed"),
        (HashFlags::MERGE, "merging"),
        (HashFlags::SPLIT, "splitting"),
        (HashFlags::LOST_LMV, "lost_lmv"),
        (HashFlags::BAD_TYPE, "bad_type"),
        (HashFlags::MIGRATION, "migrating"),
    ];
    let set = flags.iter().filter(|(flag, _)| hash.flags.has(*flag)).map(|(_, name)| *name);
    [name.as_str()].into_iter().chain(set).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::Fid;
    use fulmar_lustre_wire::layout::{DefaultStripe, HashFunction};

    use super::*;

    #[test]
    fn output_is_that_of_lustres_lfs() {
        let mut plain = LmvUserMd::wanted(0, 1);
        assert_eq!(
            Show::default().shown(&plain),
            "lmv_stripe_count: 0 lmv_stripe_offset: 1 lmv_hash_type: none\n"
        );
        plain.header.hash.function = HashFunction::CRUSH2;
        plain.header.hash.flags = HashFlags::OVERSTRIPED;
        plain.header.stripe_count = 1;
        plain.stripes = vec![DefaultStripe {
            fid: Fid { seq: 0x2_8000_0400, oid: 2, version: 0 },
            mdt: 1,
            ..DefaultStripe::default()
        }];
        assert_eq!(
            Show::default().shown(&plain),
            "lmv_stripe_count: 1 lmv_stripe_offset: 1 lmv_hash_type: crush2,overstriped\n\
             mdtidx\t\t FID[seq:oid:ver]\n     1\t\t [0x280000400:0x2:0x0]\t\t\n"
        );
        let mut default = LmvUserMd::wanted(1, u32::MAX);
        (default.header.max_inherit, default.header.max_inherit_rr) = (255, 3);
        assert_eq!(
            Show { default: true, ..Show::default() }.shown(&default),
            "lmv_stripe_count: 1 lmv_stripe_offset: -1 lmv_hash_type: none lmv_max_inherit: -1 \
             lmv_max_inherit_rr: 3\n"
        );
        for (show, expected) in [
            (Show { mdt_count: true, ..Show::default() }, "1\n"),
            (Show { mdt_index: true, ..Show::default() }, "-1\n"),
            (Show { mdt_hash: true, ..Show::default() }, "none\n"),
        ] {
            assert_eq!(show.shown(&default), expected);
        }
    }
}
