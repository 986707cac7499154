//! Data: parts of any size, holes, lengths and appends.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};

use fulmar_base::Rng;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::check::{At, Outcome, Site, Wrong, equal, holds, length, pattern, same};

const LEN: usize = 5_000_003;
const ROUNDS: u64 = 30;
const LINES: usize = 200;
/// Beyond what 32 bits count.
const FAR: u64 = (5 << 30) + 12_345;

fn open(path: &std::path::Path) -> Result<File, Wrong> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).open(path).at("opening a file")
}

pub(super) fn any_part(site: &Site) -> Outcome {
    let at = site.sub("parts")?;
    let data = pattern(site.seed, LEN);
    let mut random = Rng::new(site.seed);
    let file = open(&at.one.join("file"))?;
    let mut offset = 0;
    while offset < LEN {
        let len = length(&mut random, 20).min(LEN - offset);
        file.write_all_at(&data[offset..offset + len], offset as u64).at("writing a part")?;
        offset += len;
    }
    let other = open(&at.two.join("file"))?;
    equal("the length", other.metadata().at("stat")?.len(), LEN as u64)?;
    for _ in 0..200 {
        let offset = random.below(LEN as u64) as usize;
        let len = length(&mut random, 20).min(LEN - offset);
        let mut part = vec![0; len];
        other.read_exact_at(&mut part, offset as u64).at("reading a part")?;
        same(format!("{len} bytes at {offset}"), &part, &data[offset..offset + len])?;
    }
    let mut end = [0; 100];
    let read = other.read_at(&mut end, LEN as u64 - 10).at("reading at the end")?;
    equal("bytes at the end", read, 10)?;
    equal("bytes behind it", other.read_at(&mut end, LEN as u64 + 5).at("reading")?, 0)?;
    file.sync_all().at("fsync")?;
    same("the whole", &fs::read(at.two.join("file")).at("reading")?, &data)?;
    Ok(format!("{LEN} bytes in parts of up to 1 MiB"))
}

pub(super) fn sparse(site: &Site) -> Outcome {
    let at = site.sub("sparse")?;
    let (file, other) = (open(&at.one.join("file"))?, open(&at.two.join("file"))?);
    file.write_all_at(b"start", 0).at("writing")?;
    file.write_all_at(b"end", FAR).at("writing far behind")?;
    equal("the length", other.metadata().at("stat")?.len(), FAR + 3)?;
    let mut part = vec![1; 100_000];
    other.read_exact_at(&mut part, 5).at("reading a hole")?;
    holds("a hole has zeros", part.iter().all(|byte| *byte == 0))?;
    other.read_exact_at(&mut part[..13], FAR - 10).at("reading its end")?;
    same("the end", &part[..13], b"\0\0\0\0\0\0\0\0\0\0end")?;
    file.sync_all().at("fsync")?;
    let blocks = other.metadata().at("stat")?.blocks();
    holds(format!("holes take no space: {blocks} blocks"), blocks < 1 << 20)?;
    let seek = |how| rustix::fs::seek(&other, how);
    let mut evidence = format!("{} bytes of length, {blocks} blocks", FAR + 3);
    match (seek(SeekFrom::Hole(0)), seek(SeekFrom::Data(1 << 30))) {
        (Ok(hole), Ok(data)) => {
            holds(format!("SEEK_HOLE finds the hole: {hole}"), (5..=1 << 21).contains(&hole))?;
            holds(format!("SEEK_DATA finds the end: {data}"), data <= FAR && data > 1 << 30)?;
            evidence += ", SEEK_HOLE and SEEK_DATA";
        }
        (Err(Errno::OPNOTSUPP | Errno::INVAL), _) => evidence += ", no SEEK_HOLE",
        (hole, data) => equal("SEEK_HOLE and SEEK_DATA", (hole, data), (Ok(5), Ok(FAR)))?,
    }
    match rustix::fs::fallocate(
        &file,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        0,
        4096,
    ) {
        Ok(()) => {
            other.read_exact_at(&mut part[..5], 0).at("reading a punched hole")?;
            same("a punched hole", &part[..5], &[0; 5])?;
            equal("the length after it", other.metadata().at("stat")?.len(), FAR + 3)?;
            evidence += ", a punched hole";
        }
        Err(Errno::OPNOTSUPP) => evidence += ", no holes by fallocate",
        Err(errno) => return Err(errno).at("fallocate"),
    }
    Ok(evidence)
}

pub(super) fn truncation(site: &Site) -> Outcome {
    let at = site.sub("truncate")?;
    let data = pattern(3, 3 << 20);
    let (file, other) = (open(&at.one.join("file"))?, open(&at.two.join("file"))?);
    let mut image = data.clone();
    file.write_all_at(&data, 0).at("writing")?;
    let mut lengths = vec![0, 1, 4095, 4096, 4097, 65_536, 1 << 20, (1 << 20) + 1, 3_000_000];
    lengths.extend(lengths.clone().into_iter().rev());
    for (number, len) in lengths.iter().copied().enumerate() {
        let (near, far) = if number % 2 == 0 { (&file, &other) } else { (&other, &file) };
        near.set_len(len).at(format!("truncating to {len}"))?;
        image.resize(len as usize, 0);
        equal("the length by the other mount", far.metadata().at("stat")?.len(), len)?;
        let mut found = vec![1; image.len()];
        far.read_exact_at(&mut found, 0).at("reading")?;
        same(format!("what is left of {len} bytes"), &found, &image)?;
        // Something to cut next time.
        near.write_all_at(&data[..1000], len).at("writing at the end")?;
        image.extend(&data[..1000]);
    }
    drop((file, other));
    fs::write(at.two.join("file"), "cut").at("O_TRUNC by the other")?;
    same("the file", &fs::read(at.one.join("file")).at("reading")?, b"cut")?;
    Ok(format!("{} lengths, and O_TRUNC", lengths.len()))
}

pub(super) fn appends(site: &Site) -> Outcome {
    let at = site.sub("append")?;
    fs::write(at.one.join("log"), "").at("making a file")?;
    let append = |which: usize| {
        let path = at.side(which as u64).join("log");
        move || {
            let mut file = File::options().append(true).open(path).at("opening to append")?;
            for line in 0..LINES {
                let text = format!("{which} {line:04} {}\n", "x".repeat(line));
                file.write_all(text.as_bytes()).at("appending")?;
            }
            Ok::<_, Wrong>(())
        }
    };
    let other = std::thread::spawn(append(1));
    append(0)()?;
    other.join().unwrap_or_else(|_| super::check::failed("the other writer panicked"))?;
    for side in [&at.one, &at.two] {
        let text = fs::read_to_string(side.join("log")).at("reading")?;
        for which in 0..2 {
            let mut next = 0;
            for line in text.lines().filter(|line| line.starts_with(&format!("{which} "))) {
                equal("a line", line, format!("{which} {next:04} {}", "x".repeat(next)))?;
                next += 1;
            }
            equal(format!("lines of writer {which}"), next, LINES)?;
        }
    }
    Ok(format!("{LINES} lines by each, none lost, in order"))
}

pub(super) fn seen_at_once(site: &Site) -> Outcome {
    let at = site.sub("data-seen")?;
    for round in 0..ROUNDS {
        let (near, far) = (at.side(round).join("file"), at.side(round + 1).join("file"));
        let data = pattern(round, 3000 * round as usize + 1);
        fs::write(&near, &data).at("writing")?;
        let found = fs::metadata(&far).at("stat")?;
        equal(format!("round {round}: the length"), found.len(), data.len() as u64)?;
        same(format!("round {round}"), &fs::read(&far).at("reading")?, &data)?;
        // Both have it open, and one overwrites what the other has read.
        let (writer, reader) = (open(&near)?, open(&far)?);
        let mut part = vec![0; data.len()];
        reader.read_exact_at(&mut part, 0).at("reading")?;
        let new = pattern(round + 1000, data.len());
        writer.write_all_at(&new, 0).at("overwriting")?;
        reader.read_exact_at(&mut part, 0).at("reading again")?;
        same(format!("round {round}, overwritten"), &part, &new)?;
    }
    Ok(format!("{ROUNDS} times in turns"))
}
