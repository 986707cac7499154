//! Both mounts write the same records at the same time: each record that is read is that of one write.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use fulmar_base::Rng;

use super::check::{At, Outcome, Site, Wrong, failed};

const RECORDS: u64 = 64;
/// A page: a write of one is never seen in parts.
const LEN: usize = 4096;

pub(super) fn records(site: &Site) -> Outcome {
    let at = site.sub("records")?;
    fs::write(at.one.join("file"), vec![0; LEN * RECORDS as usize]).at("making a file")?;
    let (writes, reads, ends) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let work = |side: u64| {
        let mut random = Rng::new(site.seed ^ side << 32);
        let file = File::options().read(true).write(true).open(at.side(side).join("file"));
        let file = file.at("opening it")?;
        while begun.elapsed() < at.time && !at.is_stopped() && !ends.load(Ordering::Relaxed) {
            let offset = random.below(RECORDS) * LEN as u64;
            if random.one_in(3) {
                let stamp = random.u64();
                file.write_all_at(&stamp.to_ne_bytes().repeat(LEN / 8), offset).at("writing")?;
                writes.fetch_add(1, Ordering::Relaxed);
            } else {
                let mut record = vec![0; LEN];
                file.read_exact_at(&mut record, offset).at("reading")?;
                let mut words = record.chunks(8);
                let first = words.next();
                if words.any(|word| Some(word) != first) {
                    return failed(format!(
                        "mount {side}: the record at {offset} is of two writes"
                    ));
                }
                reads.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    let work = |side| work(side).inspect_err(|_| ends.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        let mine = work(0);
        let other = other.join().unwrap_or_else(|_| failed("a worker panicked"));
        mine.and(other)
    })?;
    let read = |side: &std::path::Path| fs::read(side.join("file")).at("reading all");
    if read(&at.one)? != read(&at.two)? {
        return Err(Wrong::Failed("the mounts differ at the end".to_owned()));
    }
    Ok(format!("{} writes and {} reads of {LEN} bytes", writes.into_inner(), reads.into_inner()))
}
