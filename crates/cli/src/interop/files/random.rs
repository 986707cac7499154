//! Random operations by both mounts, compared with what must be there.
//!
//! Each operation is by a mount that is drawn; what it finds must be what all operations before it have left, whichever
//! mount did them. Two threads work at once, on different files.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use fulmar_base::Rng;

use super::check::{At, Outcome, Site, Wrong, equal, failed, length, list, pattern, same};

const WORKERS: u64 = 2;
const FILES: u64 = 4;
/// The longest file.
const LEN_MAX: usize = 2 << 20;
/// The largest part, as a power of two.
const PART_MAX: u64 = 18;
/// So many operations on a file are told when the next one fails.
const HISTORY: usize = 6;
const NAMES: u64 = 40;

/// A file, and what must be in it.
struct Image {
    name: String,
    data: Vec<u8>,
    /// As each mount has it open.
    open: [Option<File>; 2],
    history: VecDeque<String>,
}

pub(super) fn data(site: &Site) -> Outcome {
    let at = site.sub("random")?;
    let images: Vec<Mutex<Image>> = (0..FILES)
        .map(|number| {
            let name = format!("file{number}");
            fs::write(at.one.join(&name), "").at("making a file")?;
            let (data, open, history) = (Vec::new(), [None, None], VecDeque::new());
            Ok(Mutex::new(Image { name, data, open, history }))
        })
        .collect::<Result<_, Wrong>>()?;
    let (count, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let mut seeds = Rng::new(site.seed);
    let work = |mut random: Rng| {
        while begun.elapsed() < at.time && !at.is_stopped() && !ends.load(Ordering::Relaxed) {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let image = &images[random.below(FILES) as usize];
            let mut image = image.lock().unwrap_or_else(PoisonError::into_inner);
            let done = image.step(&at, &mut random, number);
            done.inspect_err(|_| ends.store(true, Ordering::Relaxed))
                .map_err(|wrong| image.explain(wrong))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let random = seeds.fork();
                let work = &work;
                scope.spawn(move || work(random))
            })
            .collect();
        let mut joined = workers.into_iter().map(|worker| worker.join());
        joined.try_for_each(|done| done.unwrap_or_else(|_| failed("a worker panicked")))
    })?;
    whole(&at, &images)?;
    let (count, secs) = (count.into_inner(), begun.elapsed().as_secs_f64());
    Ok(format!("{count} operations in {secs:.1} s, seed {}", site.seed))
}

/// Compares all files as a whole, as both mounts see them.
fn whole(at: &Site, images: &[Mutex<Image>]) -> Result<(), Wrong> {
    for image in images {
        let image = image.lock().unwrap_or_else(PoisonError::into_inner);
        for side in [&at.one, &at.two] {
            let path = side.join(&image.name);
            same(path.display(), &fs::read(&path).at("reading a file")?, &image.data)?;
        }
    }
    Ok(())
}

impl Image {
    fn explain(&self, wrong: Wrong) -> Wrong {
        match wrong {
            Wrong::Failed(why) => {
                let history = Vec::from(self.history.clone()).join("; ");
                Wrong::Failed(format!("{}: {why}. What was done: {history}", self.name))
            }
            other => other,
        }
    }

    fn note(&mut self, what: String) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(what);
    }

    /// Does one operation by one mount, and checks what it finds.
    fn step(&mut self, at: &Site, random: &mut Rng, number: u64) -> Result<(), Wrong> {
        let side = random.below(2);
        let path = at.side(side).join(&self.name);
        let which = side as usize;
        if self.open[which].is_none() {
            let file = File::options().read(true).write(true).open(&path).at("opening it")?;
            self.open[which] = Some(file);
        }
        let offset = random.below(self.data.len() as u64 + 1) as usize;
        let len = length(random, PART_MAX);
        match random.below(20) {
            0..=6 => self.write(which, number, offset, len),
            7..=12 => self.read(which, offset, len),
            13 => self.append(&path, number, len),
            14 => {
                let length = random.below(LEN_MAX as u64) as usize;
                self.note(format!("{which} truncates {} to {length}", self.data.len()));
                self.file(which)?.set_len(length as u64).at("truncating it")?;
                self.data.resize(length, 0);
                Ok(())
            }
            15 => {
                self.note(format!("{which} asks for the length"));
                let found = fs::metadata(&path).at("stat")?.len();
                equal("the length", found, self.data.len() as u64)
            }
            16 => {
                self.note(format!("{which} syncs"));
                self.file(which)?.sync_all().at("fsync")
            }
            17 => {
                self.note(format!("{which} closes it"));
                self.open[which] = None;
                Ok(())
            }
            18 => self.replace(at, side, number, len),
            _ => {
                self.note(format!("{which} reads all"));
                same("the whole", &fs::read(&path).at("reading it")?, &self.data)
            }
        }
    }

    fn file(&self, which: usize) -> Result<&File, Wrong> {
        self.open[which].as_ref().ok_or(Wrong::Failed("it is not open".to_owned()))
    }

    fn write(&mut self, which: usize, number: u64, offset: usize, len: usize) -> Result<(), Wrong> {
        let len = len.min(LEN_MAX - offset.min(LEN_MAX));
        self.note(format!("{which} writes {len} at {offset}"));
        let data = pattern(number, len);
        self.file(which)?.write_all_at(&data, offset as u64).at("writing")?;
        let end = self.data.len().max(offset + len);
        self.data.resize(end, 0);
        self.data[offset..offset + len].copy_from_slice(&data);
        Ok(())
    }

    fn read(&mut self, which: usize, offset: usize, len: usize) -> Result<(), Wrong> {
        self.note(format!("{which} reads {len} at {offset}"));
        let expected = &self.data[offset..self.data.len().min(offset + len)];
        let (mut found, mut done) = (vec![0; len], 0);
        while done < len {
            match self.file(which)?.read_at(&mut found[done..], (offset + done) as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) => return Err(error).at("reading"),
            }
        }
        same(format!("{len} bytes at {offset} by mount {which}"), &found[..done], expected)
    }

    fn append(&mut self, path: &std::path::Path, number: u64, len: usize) -> Result<(), Wrong> {
        use std::io::Write;
        let len = len.min(LEN_MAX - self.data.len().min(LEN_MAX));
        self.note(format!("{len} are appended at {}", self.data.len()));
        let mut file = File::options().append(true).open(path).at("opening it to append")?;
        let data = pattern(number, len);
        file.write_all(&data).at("appending")?;
        self.data.extend(data);
        Ok(())
    }

    /// Replaces the file by another one. What is open remains the old one, with the old data.
    fn replace(&mut self, at: &Site, side: u64, number: u64, len: usize) -> Result<(), Wrong> {
        let (which, other) = (side as usize, 1 - side as usize);
        self.note(format!("{which} replaces it by {len}"));
        let new = pattern(number, len);
        let source = at.side(side).join(format!("new-{}", self.name));
        fs::write(&source, &new).at("writing the new one")?;
        fs::rename(&source, at.side(side).join(&self.name)).at("renaming it")?;
        if let Some(old) = self.open[other].take() {
            let mut found = vec![0; self.data.len()];
            old.read_exact_at(&mut found, 0).at("reading the old one")?;
            same("the old one", &found, &self.data)?;
        }
        (self.open[which], self.data) = (None, new);
        Ok(())
    }
}

/// Random operations on names, by both mounts in turns.
pub(super) fn names(site: &Site) -> Outcome {
    let at = site.sub("random-names")?;
    for directory in ["a", "b"] {
        fs::create_dir(at.one.join(directory)).at("mkdir")?;
    }
    let mut random = Rng::new(site.seed ^ 1);
    let mut expected: BTreeMap<String, String> = BTreeMap::new();
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < at.time && !at.is_stopped() {
        count += 1;
        let name = |random: &mut Rng| {
            let directory = if random.one_in(2) { "a" } else { "b" };
            format!("{directory}/name{}", random.below(NAMES))
        };
        let (from, to, side) = (name(&mut random), name(&mut random), random.below(2));
        let path = |name: &str| at.side(side).join(name);
        let step = format!("operation {count}, mount {side}, {from}");
        match random.below(6) {
            0 | 1 => {
                let text = format!("text {count}");
                fs::write(path(&from), &text).at(format!("{step}: writing"))?;
                expected.insert(from, text);
            }
            2 => {
                let removed = fs::remove_file(path(&from));
                equal(
                    format!("{step}: removing"),
                    removed.is_ok(),
                    expected.remove(&from).is_some(),
                )?;
            }
            3 => {
                let renamed = fs::rename(path(&from), path(&to));
                let text = expected.get(&from).cloned();
                equal(format!("{step}: renaming to {to}"), renamed.is_ok(), text.is_some())?;
                if let Some(text) = text {
                    expected.remove(&from);
                    expected.insert(to, text);
                }
            }
            4 => {
                let text = fs::read_to_string(path(&from)).ok();
                equal(format!("{step}: its text"), text.as_ref(), expected.get(&from))?;
            }
            _ => {
                let directory = from.split('/').next().unwrap_or("a");
                let found: Vec<String> = list(&path(directory))?
                    .into_iter()
                    .map(|name| format!("{directory}/{}", name.to_string_lossy()))
                    .collect();
                let there: Vec<&String> =
                    expected.keys().filter(|name| name.starts_with(directory)).collect();
                equal(
                    format!("{step}: the list of its directory"),
                    found.iter().collect::<Vec<_>>(),
                    there,
                )?;
            }
        }
    }
    Ok(format!("{count} operations in {:.1} s, seed {}", begun.elapsed().as_secs_f64(), site.seed))
}
