//! What the kernel keeps of the data of files is what the servers have.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

use crate::rig::{Rig, TIMEOUT, parameters};

const LOCKS: &str = "datacache=locks";
const PAGE: usize = 4096;
/// The file that a process maps for a test.
const MAPPED: &str = "FULMAR_TEST_MAPPED";

/// Mounts a file system with the kernel's cache of data; `None`, with a NOT RUN line, where the kernel has none.
fn start(name: &str, mounts: usize) -> Option<(Rig, Vec<PathBuf>)> {
    let mut rig = Rig::start(name)?;
    let paths = (0..mounts).map(|_| rig.mount(LOCKS)).collect();
    if !rig.keeps_data(0) {
        let line = "\nNOT RUN: data that the kernel keeps: it is older than Linux 6.16";
        let _ = writeln!(std::io::stderr(), "{line}");
        return None;
    }
    Some((rig, paths))
}

/// A random number of what is below a limit.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

fn writable(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn what_is_read_again_is_not_asked_for_again() {
    let Some((rig, mounts)) = start("reread", 2) else { return };
    let data: Vec<u8> = (0..3 << 20).map(|at| (at / 1000) as u8).collect();
    fs::write(mounts[0].join("file"), &data).unwrap();
    let path = mounts[1].join("file");
    let open = File::open(&path).unwrap();
    let mut read = vec![0; data.len()];
    for _ in 0..2 {
        open.read_exact_at(&mut read, 0).unwrap();
    }
    let before = rig.asked(1);
    for _ in 0..10 {
        assert!(fs::read(&path).unwrap() == data);
        open.read_exact_at(&mut read, 0).unwrap();
        assert!(read == data);
    }
    // A kernel that reclaims memory asks for a few pages again, and for the time of access after each.
    let after = rig.asked(1);
    let (pages, times) = (after.data - before.data, after.attributes - before.attributes);
    assert!(pages <= before.data && times <= pages + 1, "{before:?} {after:?}");
    // Until somebody changes it.
    writable(&mounts[0].join("file")).write_all_at(b"changed", 5000).unwrap();
    open.read_exact_at(&mut read, 0).unwrap();
    assert_eq!((&read[5000..5007], &read[..5000]), (&b"changed"[..], &data[..5000]));
    assert!(rig.asked(1).data > after.data);
    rig.stop();
}

/// A file and what it has to contain.
struct Model {
    state: u64,
    content: Vec<u8>,
}

impl Model {
    /// Changes the file through one of its mounts.
    fn change(&mut self, file: &File) {
        let (what, at) = (random(&mut self.state, 8), random(&mut self.state, 300_000) as usize);
        let len = 1 + random(&mut self.state, 70_000) as usize;
        match what {
            0 => {
                file.set_len(at as u64).unwrap();
                self.content.resize(at, 0);
            }
            1 => {
                let how =
                    rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file, how, at as u64, len as u64).unwrap();
                let end = self.content.len().min(at + len);
                if at < end {
                    self.content[at..end].fill(0);
                }
            }
            _ => {
                let data = vec![random(&mut self.state, 256) as u8; len];
                file.write_all_at(&data, at as u64).unwrap();
                if self.content.len() < at + len {
                    self.content.resize(at + len, 0);
                }
                self.content[at..at + len].copy_from_slice(&data);
            }
        }
    }

    /// Compares a part of the file with what it has to be, and its end.
    fn check(&mut self, file: &File, what: &str) {
        let at = random(&mut self.state, 400_000) as usize;
        let mut found = vec![0; 1 + random(&mut self.state, 100_000) as usize];
        let (mut count, wanted) = (0, self.content.get(at..).unwrap_or_default());
        loop {
            let more = file.read_at(&mut found[count..], (at + count) as u64).unwrap();
            count += more;
            if more == 0 || count == found.len() {
                break;
            }
        }
        let wanted = &wanted[..wanted.len().min(found.len())];
        assert_eq!(count, wanted.len(), "{what}: the length at {at}");
        let wrong = wanted.iter().zip(&found).position(|(one, other)| one != other);
        assert_eq!(wrong, None, "{what}: at {at}");
    }
}

#[test]
fn two_mounts_read_what_either_has_written() {
    let Some((rig, mounts)) = start("model", 2) else { return };
    let paths: Vec<PathBuf> = mounts.iter().map(|mount| mount.join("file")).collect();
    fs::write(&paths[0], "").unwrap();
    let writers: Vec<File> = paths.iter().map(|path| writable(path)).collect();
    let readers: Vec<File> = paths.iter().map(|path| File::open(path).unwrap()).collect();
    let mut model = Model { state: 7, content: Vec::new() };
    for round in 0..600 {
        let changes = random(&mut model.state, 2) as usize;
        model.change(&writers[changes]);
        for place in [0, 1, 1, 0] {
            let what = format!("round {round}, changed by {changes}, read by {place}");
            model.check(&readers[place], &what);
            if random(&mut model.state, 4) == 0 {
                model.check(&File::open(&paths[place]).unwrap(), &what);
                model.check(&writers[place], &what);
            }
        }
    }
    rig.stop();
}

/// A file of pages that each have one number everywhere, written again and again with higher ones.
struct Versions {
    pages: usize,
    /// The number that was written last.
    written: AtomicU64,
    /// How often it was read.
    reads: AtomicU64,
    is_over: AtomicBool,
}

impl Versions {
    fn new(pages: usize, path: &Path) -> Arc<Self> {
        let (written, reads, is_over) = <(AtomicU64, AtomicU64, AtomicBool)>::default();
        let this = Self { pages, written, reads, is_over };
        fs::write(path, this.bytes(0)).unwrap();
        Arc::new(this)
    }

    fn bytes(&self, version: u64) -> Vec<u8> {
        version.to_ne_bytes().repeat(self.pages * PAGE / 8)
    }

    /// Writes the file this often.
    fn write(&self, path: &Path, rounds: u64) {
        let file = writable(path);
        for _ in 0..rounds {
            let version = self.written.load(Ordering::SeqCst) + 1;
            file.write_all_at(&self.bytes(version), 0).unwrap();
            self.written.store(version, Ordering::SeqCst);
        }
    }

    /// Writes the file this often, and each time after others have read it.
    fn contend(&self, path: &Path, rounds: u64) {
        for _ in 0..rounds {
            let reads = self.reads.load(Ordering::SeqCst);
            while self.reads.load(Ordering::SeqCst) == reads && !self.is_over.load(Ordering::SeqCst)
            {
                std::thread::yield_now();
            }
            self.write(path, 1);
        }
    }

    /// Reads the file until the end: nothing is older than what was written before.
    fn read(&self, path: &Path, seed: u64) {
        let mut state = seed;
        let file = File::open(path).unwrap();
        let mut found = vec![0; self.pages * PAGE];
        while !self.is_over.load(Ordering::SeqCst) {
            let oldest = self.written.load(Ordering::SeqCst);
            let from = random(&mut state, self.pages as u64) as usize * PAGE;
            let len = (1 + random(&mut state, 8) as usize) * PAGE;
            let found = &mut found[..len.min(self.pages * PAGE - from)];
            file.read_exact_at(found, from as u64).unwrap();
            for word in found.chunks(8) {
                let version = u64::from_ne_bytes(word.try_into().unwrap());
                assert!(version >= oldest, "read {version} after {oldest} was written");
            }
            self.reads.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Runs all at once, and the last one to its end; then the others are told to end.
fn together(versions: &Arc<Versions>, last: impl FnOnce(), others: Vec<Box<dyn FnOnce() + Send>>) {
    let (sender, done) = channel();
    let count = others.len();
    for other in others {
        let (sender, versions) = (sender.clone(), versions.clone());
        std::thread::spawn(move || {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(other));
            versions.is_over.fetch_or(ended.is_err(), Ordering::SeqCst);
            sender.send(ended.is_ok()).unwrap();
        });
    }
    last();
    versions.is_over.store(true, Ordering::SeqCst);
    for _ in 0..count {
        assert!(done.recv_timeout(TIMEOUT).expect("a reader waits for ever"), "stale data");
    }
}

fn readers(versions: &Arc<Versions>, path: &Path, count: u64) -> Vec<Box<dyn FnOnce() + Send>> {
    let reader = |seed| {
        let (versions, path) = (versions.clone(), path.to_owned());
        Box::new(move || versions.read(&path, seed)) as Box<dyn FnOnce() + Send>
    };
    (1..=count).map(reader).collect()
}

#[test]
fn readers_of_a_file_that_another_mount_writes_go_on() {
    let Some((rig, mounts)) = start("hot", 2) else { return };
    let (one, two) = (mounts[0].join("file"), mounts[1].join("file"));
    let versions = Versions::new(64, &two);
    let (writer, path) = (versions.clone(), two);
    let (sender, done) = channel();
    let others = readers(&versions, &one, 16);
    std::thread::spawn(move || {
        together(&versions, || writer.contend(&path, 60), others);
        sender.send(()).unwrap();
    });
    done.recv_timeout(TIMEOUT * 3).expect("a write waits for ever, or there were stale data");
    rig.stop();
}

#[test]
fn both_mounts_read_while_both_write() {
    let Some((rig, mounts)) = start("both", 2) else { return };
    let paths: Vec<PathBuf> = mounts.iter().map(|mount| mount.join("file")).collect();
    let versions = Versions::new(32, &paths[0]);
    let mut others = readers(&versions, &paths[0], 6);
    others.extend(readers(&versions, &paths[1], 6));
    let (writer, both) = (versions.clone(), paths);
    let (sender, done) = channel();
    std::thread::spawn(move || {
        let write = || (0..30).for_each(|round| writer.contend(&both[round % 2], 2));
        together(&versions, write, others);
        sender.send(()).unwrap();
    });
    done.recv_timeout(TIMEOUT * 3).expect("a write waits for ever, or there were stale data");
    rig.stop();
}

/// A process that has mapped a file. It is another one, since who changes its own memory map waits for reads of
/// pages that this process has to answer.
struct Mapping {
    process: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Mapping {
    fn new(path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["data::a_process_that_maps_a_file", "--exact", "--nocapture"])
            .env(MAPPED, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, ask, answers }
    }

    /// Returns the lowest number in the file.
    fn lowest(&mut self) -> u64 {
        writeln!(self.ask, "lowest").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "it has ended");
            if let Some(number) = line.trim().strip_prefix("lowest ") {
                return number.parse().unwrap();
            }
        }
    }

    fn end(mut self) {
        drop(self.ask);
        assert!(self.process.wait().unwrap().success());
    }
}

/// The other side of [`Mapping`]; nothing if this is not such a process.
#[test]
fn a_process_that_maps_a_file() {
    let Some(path) = std::env::var_os(MAPPED) else { return };
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len() as usize;
    let (access, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
    // SAFETY: The mapping is a new one, and is read only as long as it is there and with its length.
    let words: &[AtomicU64] = unsafe {
        let start = rustix::mm::mmap(std::ptr::null_mut(), len, access, flags, &file, 0).unwrap();
        std::slice::from_raw_parts(start.cast(), len / 8)
    };
    for _ in std::io::stdin().lines() {
        let lowest = words.iter().map(|word| word.load(Ordering::SeqCst)).min().unwrap();
        println!("\nlowest {lowest}");
    }
}

#[test]
fn a_file_that_is_mapped_shows_what_another_mount_has_written() {
    let Some((rig, mounts)) = start("mapped", 2) else { return };
    let (one, two) = (mounts[0].join("file"), mounts[1].join("file"));
    let versions = Versions::new(16, &two);
    let mut mapping = Mapping::new(&one);
    // Each write is seen at once,
    for round in 1..50 {
        versions.write(&two, 1);
        assert_eq!(mapping.lowest(), round);
    }
    // also those of the same mount,
    versions.write(&one, 1);
    assert_eq!(mapping.lowest(), 50);
    // and while others read and write.
    let (writer, path) = (versions.clone(), two);
    let mut others = readers(&versions, &one, 2);
    let looks = versions.clone();
    others.push(Box::new(move || {
        while !looks.is_over.load(Ordering::SeqCst) {
            let oldest = looks.written.load(Ordering::SeqCst);
            let found = mapping.lowest();
            assert!(found >= oldest, "{found} is mapped after {oldest} was written");
        }
        mapping.end();
    }));
    together(&versions, || writer.contend(&path, 60), others);
    rig.stop();
}

/// Returns how many bytes a mount has that are not written yet.
fn dirty(top: &Path) -> u64 {
    let values = parameters(top, "/cur_dirty_bytes");
    assert!(!values.is_empty());
    values.iter().map(|value| value.trim().parse::<u64>().unwrap()).sum()
}

#[test]
fn nothing_is_dirty_when_close_returns_if_it_flushes() {
    let Some(mut rig) = Rig::start("flush-close") else { return };
    let top = rig.mount("flush=close");
    for round in 0..10 {
        let path = top.join(format!("file{round}"));
        let file = writable_new(&path);
        file.write_all_at(&vec![7; 100_000], 0).unwrap();
        let other = file.try_clone().unwrap();
        drop(other);
        assert_eq!(dirty(&top), 0, "a descriptor is closed");
        file.write_all_at(b"more", 5000).unwrap();
        drop(file);
        assert_eq!(dirty(&top), 0);
    }
    rig.stop();
}

fn writable_new(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
}
