//! Files that a process has mapped to write to them, while another mount writes the same pages.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rig::Rig;

/// The file that a process maps for a test.
const MAPPED: &str = "FULMAR_TEST_MAPPED_TO_WRITE";
const PAGE: usize = 4096;

/// A process that has mapped a file to write to it. It is another one, since this one answers what it waits for.
struct Mapping {
    process: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Mapping {
    fn new(path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["maps::a_process_that_maps_a_file_to_write", "--exact", "--nocapture"])
            .env(MAPPED, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, ask, answers }
    }

    fn ask(&mut self, what: &str) -> u64 {
        writeln!(self.ask, "{what}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "it has ended");
            if let Some(number) = line.trim().strip_prefix("answer ") {
                return number.parse().unwrap();
            }
        }
    }

    fn load(&mut self, place: usize) -> u64 {
        self.ask(&format!("load {place} 0"))
    }

    fn store(&mut self, place: usize, value: u64) {
        self.ask(&format!("store {place} {value}"));
    }

    /// Returns when all that was stored is written.
    fn sync(&mut self) {
        self.ask("sync 0 0");
    }

    fn end(mut self) {
        drop(self.ask);
        assert!(self.process.wait().unwrap().success());
    }
}

/// The other side of [`Mapping`]; nothing if this is not such a process.
#[test]
fn a_process_that_maps_a_file_to_write() {
    let Some(path) = std::env::var_os(MAPPED) else { return };
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let len = file.metadata().unwrap().len() as usize;
    let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    let shared = rustix::mm::MapFlags::SHARED;
    // SAFETY: The mapping is a new one, and is used only as long as it is there and with its length.
    let words: &[AtomicU64] = unsafe {
        let start = rustix::mm::mmap(std::ptr::null_mut(), len, access, shared, &file, 0).unwrap();
        std::slice::from_raw_parts(start.cast(), len / 8)
    };
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let mut parts = line.split(' ');
        let what = parts.next().unwrap();
        let numbers: Vec<u64> = parts.map(|part| part.parse().unwrap()).collect();
        let word = &words[numbers[0] as usize];
        match what {
            "load" => {}
            "store" => word.store(numbers[1], Ordering::SeqCst),
            // The mapping is written by a sync of the file too.
            _ => file.sync_all().unwrap(),
        }
        println!("\nanswer {}", word.load(Ordering::SeqCst));
    }
}

fn writable(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn word(file: &File, place: usize) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, place as u64 * 8).unwrap();
    u64::from_ne_bytes(bytes)
}

/// Mounts a file system twice with these options, with a file of one page; `None`, with a NOT RUN line, where pages are
/// not protected.
fn start(name: &str, options: &str) -> Option<(Rig, [PathBuf; 2])> {
    let mut rig = Rig::start(name)?;
    let paths = [(); 2].map(|()| rig.mount(options).join("file"));
    if !rig.keeps_data(0) {
        let line = "\nNOT RUN: pages that locks protect: the kernel is older than Linux 6.16";
        let _ = writeln!(std::io::stderr(), "{line}");
        return None;
    }
    fs::write(&paths[0], [0; PAGE]).unwrap();
    Some((rig, paths))
}

/// What was stored and synced in one page by one mount, and written and synced by the other one, stays.
fn share_a_page(name: &str, options: &str) {
    let Some((rig, paths)) = start(name, options) else { return };
    let mut mapping = Mapping::new(&paths[0]);
    let other = writable(&paths[1]);
    for round in 1..20u64 {
        mapping.store(0, round);
        mapping.sync();
        other.write_all_at(&round.to_ne_bytes(), 8).unwrap();
        other.sync_all().unwrap();
        mapping.store(2, round);
        mapping.sync();
        for place in 0..3 {
            assert_eq!(word(&other, place), round, "word {place} in round {round}");
            assert_eq!(mapping.load(place), round, "word {place} of the map in round {round}");
        }
    }
    mapping.end();
    rig.stop();
}

#[test]
fn who_stores_to_a_map_keeps_what_another_mount_has_written() {
    share_a_page("maps", "");
}

#[test]
fn who_stores_to_a_map_keeps_it_with_cached_data_too() {
    share_a_page("maps-locks", "datacache=locks");
}

#[test]
fn a_map_shows_what_another_mount_writes_and_stores() {
    let Some((rig, paths)) = start("maps-shown", "") else { return };
    let (mut mapping, mut theirs) = (Mapping::new(&paths[0]), Mapping::new(&paths[1]));
    let other = writable(&paths[1]);
    for round in 1..20u64 {
        other.write_all_at(&round.to_ne_bytes(), 0).unwrap();
        assert_eq!((mapping.load(0), theirs.load(0)), (round, round));
        theirs.store(1, round);
        theirs.sync();
        assert_eq!(mapping.load(1), round);
        mapping.store(2, round);
        mapping.sync();
        assert_eq!((theirs.load(1), theirs.load(2), word(&other, 2)), (round, round, round));
    }
    mapping.end();
    theirs.end();
    rig.stop();
}
