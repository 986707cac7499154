//! `lfs getstripe`: layouts, in the form of Lustre's lfs. Spec: mdt-ost §11.1, §11.2.

use std::fmt::Write;
use std::path::Path;

use fulmar_base::Errno;
use fulmar_client::special;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::layout::{
    Component, ComponentFlags, CompositeMd, Layout, LayoutMagic, LovMd, Pattern,
};
use fulmar_lustre_wire::ost::OstId;
use fulmar_wire::Order;

use super::ReachArgs;
use super::place::{At, Kind, Place, print_each};
use crate::context::Status;

/// Print the layouts of files, and those that new files of directories get
///
/// A directory is printed with its files.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Paths on a mount, or addresses: 10.0.0.1@tcp:/lustre/projects/a
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
    /// Directories without their files
    #[arg(short, long)]
    directory: bool,
    /// Directories with all that is below
    #[arg(short, long, conflicts_with = "directory")]
    recursive: bool,
    /// Only the number of stripes; of the last component that has objects
    #[arg(short = 'c', long, group = "one")]
    stripe_count: bool,
    /// Only the size of stripes, in bytes
    #[arg(short = 'S', long, group = "one")]
    stripe_size: bool,
    /// Only the index of the first OST
    #[arg(short = 'i', long, group = "one")]
    stripe_index: bool,
    /// Only the pool
    #[arg(short, long, group = "one")]
    pool: bool,
}

/// Prints layouts.
pub(super) fn run(args: &Args) -> Status {
    print_each(("getstripe", &args.reach), &args.places, |at, report| {
        args.show.walk(at, at.path(), 0, report);
    })
}

impl At {
    fn layout(&self, path: &Path) -> Result<Layout, Errno> {
        let bytes = self.attribute(path, special::LAYOUT)?;
        Layout::decode(&bytes, Order::Little).map_err(|_| Errno::EPROTO)
    }
}

impl Show {
    fn walk(
        self,
        at: &At,
        path: &Path,
        depth: usize,
        report: &mut dyn FnMut(&Path, Result<String, Errno>),
    ) {
        let kind = match at.kind(path) {
            Ok(kind) => kind,
            Err(errno) => return report(path, Err(errno)),
        };
        // Pipes and other special files have no layout.
        if kind != Kind::Other {
            report(path, self.of(at, path, kind));
        }
        let goes_on = kind == Kind::Directory && !self.directory && (depth == 0 || self.recursive);
        if !goes_on {
            return;
        }
        match at.list(path) {
            Ok(all) => all.iter().for_each(|one| self.walk(at, one, depth + 1, report)),
            Err(errno) => report(path, Err(errno)),
        }
    }

    fn of(self, at: &At, path: &Path, kind: Kind) -> Result<String, Errno> {
        let layout = match at.layout(path) {
            Ok(layout) => layout,
            Err(Errno::ENODATA) => {
                return Ok(format!("{} has no stripe info\n", path.display()));
            }
            Err(errno) => return Err(errno),
        };
        let name = path.display();
        if self.asks_for_one() {
            self.one(&layout)
        } else {
            Ok(format!("{name}\n{}\n", shown(&layout, kind)?))
        }
    }

    fn asks_for_one(self) -> bool {
        self.stripe_count || self.stripe_size || self.stripe_index || self.pool
    }

    fn one(self, layout: &Layout) -> Result<String, Errno> {
        let part = main_part(layout)?;
        Ok(if self.stripe_count {
            format!("{}\n", count(&part))
        } else if self.stripe_size {
            format!("{}\n", part.header.stripe_size)
        } else if self.stripe_index {
            format!("{}\n", offset(&part))
        } else {
            format!("{}\n", pool(&part).unwrap_or_default())
        })
    }
}

/// The stripes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stripes {
    /// How many; of the last component that has objects.
    pub(super) count: u64,
    /// Their size, of the same one.
    pub(super) size: u64,
    /// The OSTs of all objects.
    pub(super) osts: Vec<u32>,
}

/// Returns the stripes of a file on a mount.
///
/// # Errors
/// ENODATA if it has no layout, or why that cannot be read.
pub(super) fn stripes_of(path: &Path) -> Result<Stripes, Errno> {
    let layout = At::mounted(path.to_owned()).layout(path)?;
    let main = main_part(&layout)?;
    let mut osts: Vec<u32> = main.objects.iter().map(|object| object.ost).collect();
    if let Layout::Composite(all) = &layout {
        for one in all.components.iter().filter(|one| one.flags.has(ComponentFlags::INIT)) {
            let part = all.layout(one).map_err(|_| Errno::EPROTO)?;
            osts.extend(part.objects.iter().map(|object| object.ost));
        }
    }
    let (count, size) = (main.header.stripe_count.into(), main.header.stripe_size.into());
    Ok(Stripes { count, size, osts })
}

/// Returns the layout, or the last part of it that has objects.
fn main_part(layout: &Layout) -> Result<LovMd, Errno> {
    match layout {
        Layout::File(part) => Ok(part.clone()),
        Layout::Composite(all) => {
            let with_objects = all.components.iter().rev();
            let mut with_objects = with_objects.filter(|one| one.flags.has(ComponentFlags::INIT));
            let first = with_objects.next().or(all.components.first());
            all.layout(first.ok_or(Errno::EPROTO)?).map_err(|_| Errno::EPROTO)
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Returns how many components with objects, or on the MDT, a file on a mount has; 0 if its layout is plain.
///
/// # Errors
/// Why its layout cannot be read.
pub(crate) fn components_in_use(path: &Path) -> Result<usize, Errno> {
    match At::mounted(path.to_owned()).layout(path)? {
        Layout::Composite(all) => {
            let in_use = all.components.iter().filter(|one| one.flags.has(ComponentFlags::INIT));
            Ok(in_use.count())
        }
        Layout::File(_) => Ok(0),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Returns the description of a layout.
fn shown(layout: &Layout, kind: Kind) -> Result<String, Errno> {
    match (layout, kind) {
        (Layout::File(part), Kind::Directory) => Ok(default_line(part, " ")),
        (Layout::File(part), _) => Ok(plain(part)),
        (Layout::Composite(all), _) => composite(all, kind),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Returns the line of a layout that new files get.
fn default_line(part: &LovMd, gap: &str) -> String {
    let (count, size) = (count(part), part.header.stripe_size);
    let mut line = format!("stripe_count:  {count}{gap}stripe_size:   {size}{gap}");
    let _ = write!(line, "pattern:       {}{gap}stripe_offset: {}", pattern(part), offset(part));
    if let Some(pool) = pool(part) {
        let _ = write!(line, "{gap}pool:          {pool}");
    }
    line + "\n"
}

fn plain(part: &LovMd) -> String {
    let mut text = head(part, "");
    text += "\tobdidx\t\t objid\t\t objid\t\t group\n";
    for object in &part.objects {
        let (group, id) = match object.id {
            OstId::Old(id) => (0, id),
            OstId::Fid(fid) => (fid.seq, fid.oid.into()),
        };
        let _ = writeln!(text, "\t{:6}\t{id:14}\t{id:#13x}\t{group:#14x}", object.ost);
    }
    text
}

fn head(part: &LovMd, indent: &str) -> String {
    let generation = if part.objects.is_empty() { 0 } else { part.header.generation };
    let mut rows = vec![
        ("lmm_stripe_count: ", count(part)),
        ("lmm_stripe_size:  ", part.header.stripe_size.to_string()),
        ("lmm_pattern:      ", pattern(part)),
        ("lmm_layout_gen:   ", generation.to_string()),
        ("lmm_stripe_offset:", offset(part)),
    ];
    if let Some(pool) = pool(part) {
        rows.push(("lmm_pool:         ", pool));
    }
    rows.iter().map(|(name, value)| format!("{indent}{name} {value}\n")).collect()
}

fn composite(all: &CompositeMd, kind: Kind) -> Result<String, Errno> {
    let mut text = format!("  lcm_layout_gen:    {}\n", all.header.generation);
    let _ = writeln!(text, "  lcm_mirror_count:  {}", all.header.more_mirrors + 1);
    let _ = writeln!(text, "  lcm_entry_count:   {}", all.components.len());
    let mut parts = Vec::new();
    for one in &all.components {
        let part = all.layout(one).map_err(|_| Errno::EPROTO)?;
        parts.push(component(one, &part, kind));
    }
    Ok(text + &parts.join("\n"))
}

fn component(one: &Component, part: &LovMd, kind: Kind) -> String {
    let (id, mirror) = match kind {
        Kind::Directory => ("N/A".to_owned(), "N/A".to_owned()),
        _ => (one.id.to_string(), one.mirror().to_string()),
    };
    let end = if one.end == u64::MAX { "EOF".to_owned() } else { one.end.to_string() };
    let mut text = format!("    lcme_id:             {id}\n    lcme_mirror_id:      {mirror}\n");
    let _ = writeln!(text, "    lcme_flags:          {}", flags(one.flags));
    let _ = writeln!(text, "    lcme_extent.e_start: {}", one.start);
    let _ = writeln!(text, "    lcme_extent.e_end:   {end}");
    if kind == Kind::Directory {
        return text + "      " + &default_line(part, "       ");
    }
    text += &head(part, "      ");
    if one.flags.has(ComponentFlags::INIT) && !part.objects.is_empty() {
        text += "      lmm_objects:\n";
        for (number, object) in part.objects.iter().enumerate() {
            let fid = object.id.fid(object.ost as u16);
            let fid = fid.map_or_else(|| object.id.to_string(), |fid| fid.to_string());
            let ost = object.ost;
            let _ = writeln!(text, "      - {number:3}: {{ l_ost_idx: {ost:3}, l_fid: {fid} }}");
        }
    }
    text
}

fn flags(flags: ComponentFlags) -> String {
    let names = [
        (ComponentFlags::INIT, "init"),
        (ComponentFlags::STALE, "stale"),
        (ComponentFlags::PREF_RD, "prefrd"),
        (ComponentFlags::PREF_WR, "prefwr"),
        (ComponentFlags::OFFLINE, "offline"),
        (ComponentFlags::NOSYNC, "nosync"),
        (ComponentFlags::EXTENSION, "extension"),
    ];
    let set: Vec<&str> =
        names.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| *name).collect();
    if set.is_empty() { "0".to_owned() } else { set.join(",") }
}

/// Returns the number of stripes: -1 for as many as possible.
fn count(part: &LovMd) -> String {
    match part.header.stripe_count {
        LovMd::ALL_STRIPES => "-1".to_owned(),
        count => count.to_string(),
    }
}

/// Returns the index of the first OST: -1 for any.
fn offset(part: &LovMd) -> String {
    match part.objects.first() {
        Some(object) => object.ost.to_string(),
        None if part.header.pattern.has(Pattern::MDT) => "0".to_owned(),
        None => (part.header.generation as i16).to_string(),
    }
}

fn pattern(part: &LovMd) -> String {
    let pattern = part.header.pattern;
    let mut name = match pattern {
        _ if pattern.has(Pattern::MDT) => "mdt",
        _ if pattern.has(Pattern::OVERSTRIPING) => "raid0,overstriped",
        _ => "raid0",
    }
    .to_owned();
    if pattern.has(Pattern::RELEASED) {
        name = format!("released,{name}");
    }
    name
}

fn pool(part: &LovMd) -> Option<String> {
    let has_pool = part.header.magic != LayoutMagic::LOV_V1;
    let pool = part.pool.as_ref().filter(|_| has_pool)?.to_string();
    (!pool.is_empty()).then_some(pool)
}

#[cfg(test)]
mod tests;
