//! Two clients that hold open files and locks over restarts of their servers.
//!
//! Each has a file with a name, one that was removed while it was open, and the lock on a range of a file that both
//! use. What it has written last is only in its cache, under locks on the objects: the other client sees it if these
//! locks are respected.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_base::{Errno, Rng};
use fulmar_client::blocking::wait;
use fulmar_client::{Caller, File, FileLock, FileSystem, OpenOptions};
use fulmar_lustre_wire::Fid;

use super::requests::SIZE;
use super::worker::{stamped, versions};

const ROOT: Caller = Caller::ROOT;
/// The ranges of the file that both use, and their length.
const RANGES: u64 = 16;
const RANGE: u64 = 100;

/// An open file with its name, even if that is gone.
struct OpenName {
    name: String,
    file: File,
    /// Of the data that were written last.
    version: u64,
}

/// What a client holds.
struct HeldLock {
    named: OpenName,
    removed: OpenName,
    range: u64,
    /// How many files it has created.
    files: u64,
}

pub(super) struct Holders {
    clients: [FileSystem; 2],
    /// The directory of their files.
    top: Fid,
    /// The file that both use.
    common: Fid,
    held: Mutex<Vec<HeldLock>>,
    steps: AtomicU64,
    audits: AtomicU64,
}

impl Holders {
    /// Has two mounts take what they will hold.
    pub(super) fn new(clients: [FileSystem; 2]) -> Result<Self, String> {
        let [one, _] = &clients;
        let made = wait(one.mkdir(&ROOT, one.root(), b"held", 0o755));
        let top = made.map_err(failed("mkdir"))?.fid;
        let common = wait(one.open(&ROOT, top, b"common", OpenOptions::create(0o644)));
        let common = common.map_err(failed("open"))?.fid();
        let (held, steps, audits) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        let this = Self { clients, top, common, held, steps, audits };
        for who in 0..2 {
            let (removed, named) = (this.create(who, 0)?, this.create(who, 1)?);
            this.remove(1 - who, &removed.name)?;
            let range = who as u64;
            this.lock(who, range)?;
            this.held().push(HeldLock { named, removed, range, files: 2 });
        }
        Ok(this)
    }

    pub(super) fn clients(&self) -> &[FileSystem; 2] {
        &self.clients
    }

    /// Returns how much the clients have done.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Returns how often everything that a client holds was tried.
    pub(super) fn audits(&self) -> u64 {
        self.audits.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, Vec<HeldLock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until it is to stop.
    pub(super) fn run(&self, seed: u64, stops: &AtomicBool) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let mut held = self.held();
        while !stops.load(Ordering::Relaxed) {
            let who = rng.below(2) as usize;
            let done = match rng.below(4) {
                0 => held[who].named.write(),
                1 => self.see(&mut held[who], who),
                2 => self.lock_another(&mut held, who, &mut rng),
                _ => self.audit(&mut held[who], who),
            };
            done.map_err(|error| format!("holder {who}: {error}"))?;
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Has the first client write what stays in its cache. Returns the index of the OST that the data are for.
    pub(super) fn write_first(&self) -> Result<u32, String> {
        let named = &mut self.held()[0].named;
        named.write()?;
        let layout = wait(self.clients[0].layout(&ROOT, named.file.fid()));
        let layout = layout.map_err(failed(&format!("{}, its layout", named.name)))?;
        let object = layout.objects().next().map(|(_, _, object)| object.ost);
        object.ok_or_else(|| format!("{} has no object", named.name))
    }

    /// Requires that everything is held.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut held = self.held();
        (0..2).try_for_each(|who| {
            let audited = self.audit(&mut held[who], who);
            audited.map_err(|error| format!("holder {who}: {error}"))
        })
    }

    /// Gives everything back, and ends the mounts.
    pub(super) fn end(&self) -> Result<(), String> {
        for (who, HeldLock { named, removed, range, .. }) in self.held().drain(..).enumerate() {
            self.unlock(who, range)?;
            for mut kept in [named, removed] {
                kept.write()?;
                kept.finish()?;
            }
        }
        self.clients.iter().for_each(|client| wait(client.clone().unmount()));
        Ok(())
    }

    /// Tries everything that a client holds. Returns all that is wrong.
    fn audit(&self, held: &mut HeldLock, who: usize) -> Result<(), String> {
        self.audits.fetch_add(1, Ordering::Relaxed);
        let all = [self.try_lock(held, who), self.see(held, who), self.renew(held, who)];
        let wrong: Vec<String> = all.into_iter().filter_map(Result::err).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// The other client does not get the range that this one has locked.
    fn try_lock(&self, held: &HeldLock, who: usize) -> Result<(), String> {
        let lock = lock(1 - who, held.range);
        match wait(self.clients[1 - who].lock(self.common, lock, false)) {
            Err(Errno::EAGAIN) => Ok(()),
            other => Err(format!("its lock on range {} is not respected: {other:?}", held.range)),
        }
    }

    /// The other client sees what is only in the cache of this one, also in the file that has no name.
    fn see(&self, held: &mut HeldLock, who: usize) -> Result<(), String> {
        let other = &self.clients[1 - who];
        for kept in [&mut held.named, &mut held.removed] {
            let (name, fid) = (&kept.name, kept.file.fid());
            let seen = wait(async {
                let file = other.open_file(&ROOT, fid, OpenOptions::read()).await?;
                let seen = file.read(0, SIZE as u64).await?;
                file.close().await?;
                Ok(seen)
            });
            let seen = seen.map_err(failed(&format!("{name}, another client reads it")))?;
            let units = versions(&seen);
            if seen.len() != SIZE || units.iter().any(|version| *version != kept.version) {
                let wanted = kept.version;
                return Err(format!("{name}, another client sees {units:?}, not {wanted}"));
            }
            kept.write()?;
        }
        Ok(())
    }

    /// Removes the file that has a name, which stays open, closes the one that had none, and creates one.
    fn renew(&self, held: &mut HeldLock, who: usize) -> Result<(), String> {
        let new = self.create(who, held.files)?;
        held.files += 1;
        let open = std::mem::replace(&mut held.named, new);
        let mut gone = std::mem::replace(&mut held.removed, open);
        self.remove(1 - who, &held.removed.name)?;
        let used = [held.removed.write(), held.removed.sync(), gone.write(), gone.finish()];
        used.into_iter().collect()
    }

    /// Locks a range that no client has, in place of the one that this one has.
    fn lock_another(&self, held: &mut [HeldLock], who: usize, rng: &mut Rng) -> Result<(), String> {
        let range = rng.below(RANGES);
        if held.iter().any(|held| held.range == range) {
            return Ok(());
        }
        self.lock(who, range)?;
        let old = std::mem::replace(&mut held[who].range, range);
        self.unlock(who, old)
    }

    fn lock(&self, who: usize, range: u64) -> Result<(), String> {
        let locked = wait(self.clients[who].lock(self.common, lock(who, range), false));
        locked.map_err(failed(&format!("the lock on range {range}")))
    }

    fn unlock(&self, who: usize, range: u64) -> Result<(), String> {
        let unlocked = wait(self.clients[who].unlock(self.common, lock(who, range)));
        unlocked.map_err(failed(&format!("the end of the lock on range {range}")))
    }

    /// Creates a file, and writes it.
    fn create(&self, who: usize, number: u64) -> Result<OpenName, String> {
        let name = format!("h{who}-{number}");
        let new = OpenOptions::create(0o644);
        let options = OpenOptions { read: true, exclusive: true, ..new };
        let file = wait(self.clients[who].open(&ROOT, self.top, name.as_bytes(), options));
        let file = file.map_err(failed(&format!("{name}, create")))?;
        let mut kept = OpenName { name, file, version: 0 };
        kept.write()?;
        Ok(kept)
    }

    fn remove(&self, who: usize, name: &str) -> Result<(), String> {
        let removed = wait(self.clients[who].unlink(&ROOT, self.top, name.as_bytes()));
        removed.map_err(failed(&format!("{name}, unlink")))
    }
}

impl OpenName {
    /// Writes the next version into the cache.
    fn write(&mut self) -> Result<(), String> {
        self.version += 1;
        let written = wait(self.file.write(0, stamped(self.version)));
        written.map(drop).map_err(failed(&format!("{}, write", self.name)))
    }

    fn sync(&self) -> Result<(), String> {
        wait(self.file.sync(false)).map_err(failed(&format!("{}, sync", self.name)))
    }

    fn finish(self) -> Result<(), String> {
        let Self { name, file, .. } = self;
        wait(file.sync(false)).map_err(failed(&format!("{name}, sync")))?;
        wait(file.close()).map_err(failed(&format!("{name}, close")))
    }
}

fn lock(who: usize, range: u64) -> FileLock {
    let (start, owner) = (range * RANGE, who as u64 + 1);
    FileLock { is_exclusive: true, start, end: start + RANGE - 1, owner, pid: 1 }
}

fn failed(what: &str) -> impl FnOnce(Errno) -> String {
    move |errno| format!("{what}: {errno}")
}
