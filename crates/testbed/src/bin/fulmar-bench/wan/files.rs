//! Files of a mount at one site, whose servers are at the other, with the default settings of the nodes and
//! of the system. Each trial mounts anew, so that what is measured comes from the servers.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fulmar::demo::ocean::{DEVICE, LINK_IPS, Mount, Ocean, Servers, Settings, Sites, check_mounts};
use fulmar_link::Rate;
use fulmar_testbed::lab::not_run;

use crate::namespaces::measured;
use crate::ost::Scratch;
use crate::report::{Bar, Figure};
use crate::stats::Series;
use crate::{Effort, Failure};

use super::copies::{Copies, Way};
use super::{ROUND_TRIP, SUSTAINED};

/// The link and not the machine is the limit, so few repeats suffice.
const REPEATS: usize = 3;
/// The share of the link that one reader or writer gets.
const FILLED: f64 = 0.9;
/// The length of the large file, and of a block.
const LARGE: u64 = 4 << 30;
const BLOCK: usize = 1 << 20;
/// The large file of other programs, which do not become faster in the course of it.
const COPIED: u64 = 256 << 20;
/// The small files of a directory, and the length of one.
const FILES: u32 = 1000;
const SMALL: usize = 4096;
/// Places below the root.
const LARGE_FILE: &str = "large";
const COPIED_FILE: &str = "copied";
const STRIPED: &str = "striped";
const INLINE: &str = "inline";

/// A large file is read in blocks of 1 MiB.
pub(crate) fn read(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let fill = |root: &Path| make(&root.join(LARGE_FILE), LARGE);
    let carried = trials(effort, fill, |root| read_whole(&root.join(LARGE_FILE)))?;
    let Some(carried) = carried else { return Ok(Vec::new()) };
    figures(effort, "wan.file_read.vs_link", carried, Way::FromServer)
}

/// A large file is written in blocks of 1 MiB, and synced.
pub(crate) fn write(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let write = |root: &Path| {
        // That of the trial before.
        let _ = fs::remove_file(root.join(LARGE_FILE));
        let begun = Instant::now();
        make(&root.join(LARGE_FILE), LARGE)?;
        Ok(begun.elapsed())
    };
    let carried = trials(effort, |_| Ok(()), write)?;
    let Some(carried) = carried else { return Ok(Vec::new()) };
    figures(effort, "wan.file_write.vs_link", carried, Way::ToServer)
}

/// `ls -l` of a directory.
pub(crate) fn list(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let list = |root: &Path| {
        let begun = Instant::now();
        ended(Command::new("ls").arg("-l").arg(root.join(STRIPED)).stdout(Stdio::null()))?;
        Ok(begun.elapsed())
    };
    let taken = trials(effort, |root| make_small(&root.join(STRIPED)), list)?;
    let Some(taken) = taken else { return Ok(Vec::new()) };
    Ok(vec![round_trips("wan.ls_1000.round_trips", taken, 1.0, 12.0)])
}

/// Small files with their data on OSTs, one after the other, in the order of their directory.
pub(crate) fn open_striped(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let fill = |root: &Path| make_small(&root.join(STRIPED));
    let taken = trials(effort, fill, |root| read_all(&root.join(STRIPED)))?;
    let Some(taken) = taken else { return Ok(Vec::new()) };
    let name = "wan.open_read_close_1000.round_trips";
    Ok(vec![round_trips(name, taken, f64::from(FILES), 2.2)])
}

/// The same with their data on the MDT.
pub(crate) fn open_inline(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let fill = |root: &Path| make_inline(&root.join(INLINE));
    let taken = trials(effort, fill, |root| read_all(&root.join(INLINE)))?;
    let Some(taken) = taken else { return Ok(Vec::new()) };
    let name = "wan.open_read_close_1000_dom.round_trips";
    Ok(vec![round_trips(name, taken, f64::from(FILES), 1.2)])
}

/// The same with their data on OSTs, after the mount has warmed up.
pub(crate) fn open_warm(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let fill = |root: &Path| make_small(&root.join(STRIPED));
    let work = |root: &Path| {
        let directory = root.join(STRIPED);
        let fulmar = std::env::current_exe()?.with_file_name("fulmar");
        ended(Command::new(fulmar).arg("warmup").arg(&directory).stdout(io::stderr()))?;
        read_all(&directory)
    };
    let Some(taken) = trials(effort, fill, work)? else { return Ok(Vec::new()) };
    let name = "wan.open_read_close_1000_warm.round_trips";
    Ok(vec![round_trips(name, taken, f64::from(FILES), 0.1)])
}

/// Makes files, and lets `work` use a new mount of them for each trial. Returns how long each took; `None`
/// with a notice where nothing can be mounted.
fn trials(
    effort: Effort,
    fill: impl FnOnce(&Path) -> io::Result<()>,
    work: impl Fn(&Path) -> io::Result<Duration>,
) -> Result<Option<Vec<Duration>>, Failure> {
    if let Err(why) = check_mounts() {
        not_run(&format!("mounts: {why}"));
        return Ok(None);
    }
    let mut taken = Vec::new();
    measured(effort, |make, _| {
        let scratch = Scratch::new().map_err(|failure| failure.to_string())?;
        let sites = make.sites_with_default_tcp(ocean())?;
        let store = Store { sites: &sites, directory: &scratch.0.join("servers") };
        store.fill(fill)?;
        let _servers = store.serve()?;
        for _ in 0..effort.repeats.min(REPEATS) {
            let mount = store.mount()?;
            let time = work(mount.path()).map_err(|error| format!("in the mount: {error}"))?;
            mount.end()?;
            eprintln!("  {:.3} s, {:.1} round trips", time.as_secs_f64(), trips(time));
            taken.push(time);
        }
        Ok(Vec::new())
    })?;
    Ok((!taken.is_empty()).then_some(taken))
}

/// A file system whose servers are at site B.
struct Store<'a> {
    sites: &'a Sites,
    directory: &'a Path,
}

impl Store<'_> {
    fn settings() -> Settings {
        Settings::networks(&format!("tcp({DEVICE})"))
    }

    fn address() -> String {
        format!("{}@tcp:/lustre", LINK_IPS[1])
    }

    fn fill(&self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), String> {
        let [_, b] = self.sites.ends();
        let fill = |root: &Path| fill(root).map_err(|error| format!("cannot make files: {error}"));
        self.sites.fill(b, self.directory, &Self::settings(), fill)
    }

    fn serve(&self) -> Result<Servers, String> {
        let [a, b] = self.sites.ends();
        self.sites.serve([b, a], self.directory, &Self::settings(), &Self::address())
    }

    fn mount(&self) -> Result<Mount, String> {
        let [a, _] = self.sites.ends();
        self.sites.mount(a, &Self::address(), None)
    }
}

fn ocean() -> Ocean {
    Ocean::new(Rate::bits_per_second(SUSTAINED), ROUND_TRIP)
}

/// Returns the share of the link of a large file, beside the best of other programs, and theirs.
fn figures(
    effort: Effort,
    name: &'static str,
    taken: Vec<Duration>,
    direction: Way,
) -> Result<Vec<Figure>, Failure> {
    let share = |len: u64, time: &Duration| ocean().share(len as f64 / time.as_secs_f64());
    let ours = Series::new(taken.iter().map(|time| share(LARGE, time)));
    let mut others = Vec::new();
    measured(effort, |make, _| {
        let scratch = Scratch::new().map_err(|failure| failure.to_string())?;
        let sites = make.sites_with_default_tcp(ocean())?;
        let [near, far] = ["near", "far"].map(|name| scratch.0.join(name));
        for directory in [&near, &far] {
            fs::create_dir_all(directory).map_err(|error| error.to_string())?;
        }
        let source = if direction == Way::FromServer { &far } else { &near };
        self::make(&source.join(COPIED_FILE), COPIED).map_err(|error| error.to_string())?;
        let copies = match Copies::start(&sites, &scratch.0, [near, far]) {
            Ok(copies) => copies,
            Err(why) => {
                not_run(&format!("copies over ssh: {why}"));
                return Ok(Vec::new());
            }
        };
        for (program, name) in direction.programs() {
            match copies.run(*program, direction, COPIED_FILE) {
                Ok(time) => {
                    let share = share(COPIED, &time);
                    eprintln!("  {program:?}: {:.2} s, {share:.3} of the link", time.as_secs_f64());
                    others.push(Figure::plain(*name, share, "ratio"));
                }
                Err(why) => not_run(&format!("{program:?}: {why}")),
            }
        }
        Ok(Vec::new())
    })?;
    let best = others.iter().map(|figure| figure.value).reduce(f64::max);
    let figure = Figure::median(name, &ours, "ratio").held_to(Bar::AtLeast(FILLED));
    let figure = best.map_or(figure.clone(), |best| figure.beside(best));
    Ok(std::iter::once(figure).chain(others).collect())
}

/// Returns the time in round trips, for each of so many things.
fn round_trips(name: &'static str, taken: Vec<Duration>, things: f64, most: f64) -> Figure {
    let series = Series::new(taken.into_iter().map(|time| trips(time) / things));
    Figure::median(name, &series, "round trips").held_to(Bar::AtMost(most))
}

fn trips(time: Duration) -> f64 {
    time.as_secs_f64() / ROUND_TRIP.as_secs_f64()
}

fn make(path: &Path, len: u64) -> io::Result<()> {
    let (mut file, block) = (File::create(path)?, vec![7; BLOCK]);
    for _ in 0..len / BLOCK as u64 {
        file.write_all(&block)?;
    }
    file.sync_all()
}

fn read_whole(path: &Path) -> io::Result<Duration> {
    let begun = Instant::now();
    let (mut file, mut block, mut sum) = (File::open(path)?, vec![0; BLOCK], 0);
    loop {
        match file.read(&mut block)? {
            0 => break,
            count => sum += count as u64,
        }
    }
    match sum {
        LARGE => Ok(begun.elapsed()),
        sum => Err(io::Error::other(format!("{} has {sum} bytes", path.display()))),
    }
}

fn make_small(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let text = vec![b'x'; SMALL];
    (0..FILES).try_for_each(|number| fs::write(directory.join(format!("file-{number:04}")), &text))
}

/// The same in a directory whose files begin on the MDT.
fn make_inline(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let fulmar = std::env::current_exe()?.with_file_name("fulmar");
    let words = ["lfs", "setstripe", "-E", "64K", "-L", "mdt", "-E", "-1"];
    ended(Command::new(fulmar).args(words).arg(directory))?;
    make_small(directory)
}

/// Reads all files of a directory, in its order.
fn read_all(directory: &Path) -> io::Result<Duration> {
    let begun = Instant::now();
    let (mut files, mut block) = (0, vec![0; 2 * SMALL]);
    for entry in fs::read_dir(directory)? {
        let mut file = File::open(entry?.path())?;
        match file.read(&mut block)? {
            SMALL => files += 1,
            len => return Err(io::Error::other(format!("a file has {len} bytes"))),
        }
    }
    match files {
        FILES => Ok(begun.elapsed()),
        files => Err(io::Error::other(format!("{} has {files} files", directory.display()))),
    }
}

fn ended(command: &mut Command) -> io::Result<()> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("{command:?} ended with {status}"))),
    }
}
