//! A file system across the link: one large file and a tree of sources go to the servers and come back.
//!
//! ```text
//! a ── ra ══════ link ══════ rb ── b       tcp, tcp1 on the link, tcp2
//! mount    routers             servers
//! ```

mod client;
mod report;
mod tree;

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fulmar_text::{bytes, count};
use fulmar_tune::model::Direction;

use super::ocean::{self, Lst, Ocean, Runner, Setup, Sites, behind_router, nid_behind_router};
use client::Client;
use report::Row;
use tree::TreeCount;

/// Options of the demonstration.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The link.
    pub ocean: Ocean,
    /// The tree that is copied. If it is missing, one is made.
    pub tree: PathBuf,
    /// The length of the large file.
    pub large: u64,
    /// How long `lst` is measured.
    pub lst: Duration,
    /// Whether there may be a mount; else `fulmar cp` does it.
    pub mounts: bool,
}

impl Default for Options {
    /// Two minutes, with the sources of this program if they are here.
    fn default() -> Self {
        let ocean = ocean::Options::default().ocean;
        let (tree, lst) = (PathBuf::from("crates"), Duration::from_secs(5));
        Self { ocean, tree, large: 1 << 30, lst, mounts: true }
    }
}

/// In this time the windows of TCP grow.
const GROWTH: Duration = Duration::from_secs(2);
/// The sides of the client and of the servers.
const CLIENT: usize = 0;
const SERVERS: usize = 1;
/// What is in the file system.
const LARGE: &str = "large";
const TREE: &str = "tree";

/// Shows a file system whose servers are at one site and whose client is at the other. Where there are no
/// namespaces it says so.
///
/// # Errors
/// A description of the failure, or of what differs.
pub fn run(
    runner: Result<Runner, String>,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let ocean = Ocean { routed: true, ..options.ocean };
    let place = |side| nid_behind_router(side);
    writeln!(
        out,
        "A file system across the same link: the servers (an MDT and two OSTs, each in a directory) at \
         {}, \na client at {}, and a Fulmar router at each end of the link.\n",
        place(SERVERS),
        place(CLIENT)
    )?;
    let runner = match runner {
        Ok(runner) => runner,
        Err(why) => return Ok(writeln!(out, "NOT RUN: {why}")?),
    };
    let sites = Sites::with(runner, ocean)?;
    let setup = Setup::advised(&ocean.advice(Direction::Write));
    let _routers = sites.start_routers(&setup)?;
    let scratch = Scratch::new(&sites)?;
    let mut rows = vec![measure_lst(&sites, &setup, options, out)?];
    let counted = copy(&sites, &setup, options, &scratch, (&mut rows, out))?;
    writeln!(out, "\n{}", report::table(&ocean, &rows))?;
    let (files, size) = (count(counted.files, "file"), bytes(counted.bytes));
    writeln!(out, "The tree that came back is the one that was sent: {files}, {size}.")?;
    Ok(())
}

/// Runs `lst` between the nodes that are the client and the servers afterwards.
fn measure_lst(
    sites: &Sites,
    setup: &Setup,
    options: &Options,
    out: &mut dyn Write,
) -> Result<Row, Box<dyn Error>> {
    writeln!(out, "Measuring: lst ...")?;
    let start = |side| sites.start(sites.ends()[side], &behind_router(side, setup));
    let nodes = [start(CLIENT)?, start(SERVERS)?];
    let nids = [CLIENT, SERVERS].map(nid_behind_router);
    sites.wait_for_routes(&nodes)?;
    let lst = Lst {
        concurrency: setup.concurrency,
        warmup: GROWTH.as_secs_f64(),
        ..Lst::new(&nids[0], &nids[1], "brw write --size 1M", options.lst.as_secs_f64())
    };
    let rate = lst.run(&nodes[0])?.rate()?;
    Ok(Row::rate("lst, writes of 1 MiB", rate))
}

/// Copies the large file and the tree there and back, and compares the trees.
fn copy(
    sites: &Sites,
    setup: &Setup,
    options: &Options,
    scratch: &Scratch,
    (rows, out): (&mut Vec<Row>, &mut dyn Write),
) -> Result<TreeCount, Box<dyn Error>> {
    let address = format!("{}:/lustre", nid_behind_router(SERVERS));
    let settings = [CLIENT, SERVERS].map(|side| behind_router(side, setup));
    let [a, b] = sites.ends();
    let _servers = sites.serve_at(b, &scratch.0.join("servers"), &settings[SERVERS])?;
    let connect = || Client::connect(sites, a, &address, &settings[CLIENT], options.mounts);
    let tree = tree::found_or_made(&options.tree, &scratch.0.join("made"))?;
    let back = scratch.0.join("back");
    let client = connect()?;
    writeln!(out, "Copying: {} ...", client.how())?;
    let large = bytes(options.large);
    let written = timed(|| client.write(LARGE, options.large))?;
    rows.push(Row::bytes(
        format!("one file of {large} written, and synced"),
        options.large,
        written,
    ));
    let counted = tree::count(&tree)?;
    let sent = timed(|| client.send(&tree, TREE))?;
    client.end()?;
    // A new client has nothing in its cache.
    let client = connect()?;
    let read = timed(|| client.read(LARGE, options.large))?;
    rows.push(Row::bytes("the same read by another client".to_owned(), options.large, read));
    let files = count(counted.files, "file");
    rows.push(Row::files(format!("a tree of {files} copied there"), counted, sent));
    let fetched = timed(|| client.fetch(TREE, &back))?;
    rows.push(Row::files("… and back by another client".to_owned(), counted, fetched));
    client.end()?;
    tree::compare(&tree, &back)?;
    Ok(counted)
}

fn timed(work: impl FnOnce() -> Result<(), String>) -> Result<Duration, String> {
    let begun = Instant::now();
    work().map(|()| begun.elapsed())
}

/// A directory in memory, if the system has that, which is removed with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(sites: &Sites) -> Result<Self, String> {
        let shared = Path::new("/dev/shm");
        let own = format!("fulmar-demo-{}", std::process::id());
        let directory =
            if shared.is_dir() { shared.join(own) } else { sites.runner().path("demo") };
        let failed = |error| format!("cannot create {}: {error}", directory.display());
        std::fs::create_dir_all(&directory).map_err(failed)?;
        Ok(Self(directory))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_says_that_nothing_runs_where_there_are_no_namespaces() {
        let mut out = Vec::new();
        run(Err("there are no namespaces".into()), &Options::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in ["10.3.0.1@tcp2", "10.1.0.1@tcp", "NOT RUN: there are no namespaces"] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}
