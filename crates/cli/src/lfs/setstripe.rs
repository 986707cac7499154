//! `lfs setstripe`: files are made with a layout, and directories get one for new files. Spec: mdt-ost §11.4.

use std::iter::Peekable;
use std::path::PathBuf;
use std::vec::IntoIter;

use fulmar_base::Errno;
use fulmar_base::quantity::size;
use fulmar_client::special;
use fulmar_lustre_wire::layout::{
    Component, CompositeHeader, CompositeMd, LayoutMagic, LovHeader, LovMd, Pattern,
};
use fulmar_lustre_wire::{Content, Text};

use super::ReachArgs;
use super::place::{At, Kind, Place};
use crate::context::{Status, complain};

/// Create files with a layout, or set the layout that new files of a directory get
///
/// The options are those of Lustre's lfs. -c, -S, -i, -p and -L are about the component whose end is the
/// -E before them; what a component does not say it has from the one before it.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    reach: ReachArgs,
    /// Options, and then paths on a mount, or addresses: 10.0.0.1@tcp:/lustre/projects/a
    #[arg(
        value_name = "OPTION|PATH",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

const HELP: &str = "Layout:
  -c, --stripe-count N    stripes of a file; -1: one on each OST
  -S, --stripe-size SIZE  bytes of a stripe, such as 4M: a multiple of 64K
  -i, --stripe-index I    OST of the first stripe; -1: any
  -p, --pool NAME         pool of the OSTs
  -L, --layout KIND       raid0, or mdt: the component is on the MDT
  -E, --component-end END end of a component, such as 64K; -1 or eof: the end of the file
  -d, --delete            remove the layout of a directory

Examples:
  fulmar lfs setstripe -c 4 -S 4M /mnt/lustre/wide
  fulmar lfs setstripe -E 64K -L mdt -E 1G -c 1 -E -1 -c 8 -S 16M /mnt/lustre/projects
  fulmar lfs setstripe -d /mnt/lustre/projects
  fulmar lfs setstripe --timeout 10 -c 2 10.0.0.1@tcp:/lustre/new     (its own options come first)";

/// Stripes are multiples of this many bytes.
const UNIT: u64 = 64 << 10;

/// What is wanted.
#[derive(Debug, PartialEq, Eq)]
struct LayoutRequest {
    /// The components by their ends; one without an end if no -E was given. None to remove the layout.
    parts: Vec<Part>,
    paths: Vec<String>,
}

/// A component.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    end: Option<u64>,
    count: u16,
    size: u32,
    index: u16,
    pool: Option<Text<16>>,
    on_mdt: bool,
}

const ANY: Part = Part { end: None, count: 0, size: 0, index: 0xffff, pool: None, on_mdt: false };

/// Creates files, or changes directories.
pub(super) fn run(args: &Args) -> Status {
    let wanted = match LayoutRequest::parse(args.words.clone()) {
        Ok(wanted) => wanted,
        Err(error) => {
            complain(&format!("fulmar lfs setstripe: {error}\n"));
            return 2;
        }
    };
    let layout = (!wanted.parts.is_empty()).then(|| encode(&wanted.parts));
    let mut status = 0;
    for path in &wanted.paths {
        let place: Place = match path.parse() {
            Ok(place) => place,
            Err(error) => {
                complain(&format!("fulmar lfs setstripe: {error}\n"));
                return 2;
            }
        };
        let at = match place.reach("lfs setstripe", &args.reach) {
            Ok(at) => at,
            Err(status) => return status,
        };
        if let Err((errno, why)) = set(&at, layout.as_deref()) {
            complain(&format!("fulmar lfs setstripe: {path}: {errno}{why}\n"));
            status = Status::try_from(errno.0.unsigned_abs()).unwrap_or(1);
        }
        at.leave();
    }
    status
}

/// Creates a file with a layout, or sets or removes that of a directory.
fn set(at: &At, layout: Option<&[u8]>) -> Result<(), (Errno, &'static str)> {
    let plainly = |errno| (errno, "");
    match (at.kind(at.path()), layout) {
        (Err(Errno::ENOENT), Some(layout)) => at.create(special::LAYOUT, layout).map_err(explained),
        (Ok(Kind::File), None) => Err((Errno::EPERM, ": only directories lose their layout")),
        (Ok(_), layout) => at.set_attribute(special::LAYOUT, layout).map_err(explained),
        (Err(errno), _) => Err(plainly(errno)),
    }
}

/// Creates a file on a mount with the layout of these options.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn set_layout(
    words: impl IntoIterator<Item = String>,
    path: PathBuf,
) -> Result<(), String> {
    let name = path.display().to_string();
    let wanted = LayoutRequest::parse(words.into_iter().chain([name]).collect())?;
    let at = At::mounted(path);
    set(&at, Some(&encode(&wanted.parts))).map_err(|(errno, why)| format!("{errno}{why}"))
}

fn explained(errno: Errno) -> (Errno, &'static str) {
    let why = match errno {
        Errno::EEXIST => ": the file has a layout already: copy it to a new file with another one",
        Errno::EOPNOTSUPP => ": is it on a Lustre file system?",
        Errno::EINVAL => ": the servers do not have such OSTs or pools, or the ends do not fit",
        _ => "",
    };
    (errno, why)
}

impl LayoutRequest {
    fn parse(words: Vec<String>) -> Result<Self, String> {
        let mut wanted = Self { parts: vec![ANY], paths: vec![] };
        let (mut words, mut removes, mut sets) = (words.into_iter().peekable(), false, false);
        while let Some(word) = words.next_if(|word| word.len() > 1 && word.starts_with('-')) {
            if word == "--" {
                break;
            }
            let (name, value) = split(&word);
            let mut value = || value.clone().or_else(|| words.next()).ok_or(no_value(&word));
            let last = wanted.parts.len() - 1;
            let part = &mut wanted.parts[last];
            sets |= !matches!(name, "-d" | "--delete");
            match name {
                "-c" | "--stripe-count" => part.count = count(&value()?)?,
                "-S" | "--stripe-size" => part.size = stripe(&value()?)?,
                "-i" | "--stripe-index" => part.index = index(&value()?)?,
                "-p" | "--pool" => part.pool = Some(pool(&value()?)?),
                "-L" | "--layout" => part.on_mdt = kind(&value()?)?,
                "-E" | "--component-end" => wanted.add(end(&value()?)?)?,
                "-d" | "--delete" => removes = true,
                _ => return Err(format!("{word} is not an option: see --help")),
            }
        }
        if removes && sets {
            return Err("-d removes a layout, and the other options set one".to_owned());
        }
        wanted.finish(removes, words)
    }

    /// Begins the component with this end.
    fn add(&mut self, end: u64) -> Result<(), String> {
        let last = self.parts.len() - 1;
        let before = &mut self.parts[last];
        match before.end {
            None if *before != ANY => {
                return Err("-E comes before the options of its component".to_owned());
            }
            None => before.end = Some(end),
            Some(start) if end <= start => {
                return Err("the ends of components rise".to_owned());
            }
            Some(_) => {
                let next = Part { end: Some(end), on_mdt: false, ..before.clone() };
                self.parts.push(next);
            }
        }
        Ok(())
    }

    fn finish(mut self, removes: bool, paths: Peekable<IntoIter<String>>) -> Result<Self, String> {
        self.paths = paths.collect();
        if self.paths.is_empty() {
            return Err("name a file or directory".to_owned());
        }
        if self.parts.iter().skip(1).any(|part| part.on_mdt) {
            return Err("only the first component can be on the MDT".to_owned());
        }
        if self.parts[0].on_mdt && self.parts[0].end.is_none_or(|end| end == u64::MAX) {
            return Err("a component on the MDT has an end: -E 64K -L mdt -E -1".to_owned());
        }
        if removes {
            self.parts.clear();
        }
        Ok(self)
    }
}

/// Returns an option and its value, if that is in the same word.
fn split(word: &str) -> (&str, Option<String>) {
    match (word.starts_with("--"), word.split_once('=')) {
        (true, Some((name, value))) => (name, Some(value.to_owned())),
        (true, None) => (word, None),
        (false, _) => {
            let (name, value) = word.split_at_checked(2).unwrap_or((word, ""));
            (name, (!value.is_empty()).then(|| value.to_owned()))
        }
    }
}

fn no_value(word: &str) -> String {
    format!("{word} needs a value")
}

fn count(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(-1) => Ok(LovMd::ALL_STRIPES),
        Ok(count @ 0..=2000) => Ok(count as u16),
        _ => Err(format!("{text} is not a number of stripes: 1 to 2000, 0 or -1")),
    }
}

fn stripe(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    match u32::try_from(bytes) {
        Ok(bytes) if u64::from(bytes).is_multiple_of(UNIT) => Ok(bytes),
        _ => Err(format!("{text} is not a size of stripes: a multiple of 64K below 4G")),
    }
}

fn index(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(-1) => Ok(0xffff),
        Ok(index @ 0..=0xfffe) => Ok(index as u16),
        _ => Err(format!("{text} is not the index of an OST")),
    }
}

fn pool(text: &str) -> Result<Text<16>, String> {
    // Pools are also named with their file system.
    let name = text.split_once('.').map_or(text, |(_, name)| name);
    Text::new(name)
        .filter(|_| name.len() < 16)
        .ok_or_else(|| format!("{text} is not the name of a pool: it has 15 letters at most"))
}

fn kind(text: &str) -> Result<bool, String> {
    match text {
        "mdt" => Ok(true),
        "raid0" => Ok(false),
        _ => Err(format!("{text} is not a layout: raid0 or mdt")),
    }
}

fn end(text: &str) -> Result<u64, String> {
    match text {
        "-1" | "eof" | "EOF" => return Ok(u64::MAX),
        _ => {}
    }
    match size(text)? {
        bytes if bytes > 0 && bytes.is_multiple_of(UNIT) => Ok(bytes),
        _ => Err(format!("{text} is not an end: a multiple of 64K, or -1")),
    }
}

/// Returns the layout as a client asks for it.
fn encode(parts: &[Part]) -> Vec<u8> {
    if let [Part { end: None, .. }] = parts {
        return parts[0].layout().to_bytes();
    }
    let header = CompositeHeader::new(0);
    let mut start = 0;
    let component = |part: &Part| {
        let end = part.end.unwrap_or(u64::MAX);
        let one = Component { start, end, ..Component::default() };
        start = end;
        (one, part.layout())
    };
    CompositeMd::new(header, parts.iter().map(component).collect()).to_bytes()
}

impl Part {
    fn layout(&self) -> LovMd {
        let magic = match self.pool {
            Some(_) => LayoutMagic::LOV_V3,
            None => LayoutMagic::LOV_V1,
        };
        let (pattern, stripe_size, stripe_count) = if self.on_mdt {
            (Pattern::MDT, self.end.unwrap_or_default() as u32, 0)
        } else {
            (Pattern::RAID0, self.size, self.count)
        };
        let wanted = LovMd::wanted(stripe_size, stripe_count);
        let header = LovHeader { magic, pattern, generation: self.index, ..wanted.header };
        LovMd { header, pool: self.pool, ..wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<LayoutRequest, String> {
        LayoutRequest::parse(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn options_are_about_the_component_before_them() {
        let wanted = parse("-E 64K -L mdt -E 1G -c1 -S 1M -E -1 --stripe-count=-1 a b").unwrap();
        assert_eq!(wanted.paths, ["a", "b"]);
        let ends: Vec<_> = wanted.parts.iter().map(|part| (part.end, part.on_mdt)).collect();
        let expected = [(Some(65536), true), (Some(1 << 30), false), (Some(u64::MAX), false)];
        assert_eq!(ends, expected);
        let stripes: Vec<_> = wanted.parts.iter().map(|part| (part.count, part.size)).collect();
        assert_eq!(stripes, [(0, 0), (1, 1 << 20), (LovMd::ALL_STRIPES, 1 << 20)]);
    }

    #[test]
    fn a_plain_layout_has_no_ends() {
        let wanted = parse("-c 2 -S 4M -i 1 -p lv.flash -- -file").unwrap();
        assert_eq!(wanted.paths, ["-file"]);
        let part = &wanted.parts[0];
        assert_eq!((part.count, part.size, part.index), (2, 4 << 20, 1));
        assert_eq!(part.layout().header.magic, LayoutMagic::LOV_V3);
        assert_eq!(parse("-d a").unwrap().parts, []);
        assert_eq!(parse("a").unwrap().parts, [ANY]);
    }

    #[test]
    fn wrong_options_are_explained() {
        for (line, why) in [
            ("-c", "needs a value"),
            ("-c x a", "not a number of stripes"),
            ("-S 1000 a", "multiple of 64K"),
            ("-E 1M -E 1M a", "rise"),
            ("-c 1 -E 1M a", "before the options"),
            ("-E 1M -E -1 -L mdt a", "only the first"),
            ("-L mdt a", "has an end"),
            ("-d -c 1 a", "removes"),
            ("-x a", "not an option"),
            ("-c 1", "name a file"),
            ("-L foreign a", "raid0 or mdt"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
