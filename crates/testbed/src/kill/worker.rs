//! A client of its own, with a directory and objects that no other client changes: it knows what must be
//! there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_base::{Errno, Rng};
use fulmar_client::{Reply, Session};
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{MDT_BODY, SHORT_IO};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;

use super::requests;

/// The longest recovery of a target, with everything that a slow machine adds.
const TIMEOUT: Duration = Duration::from_secs(180);
/// What a write to a connection gets that its peer has closed.
const BROKEN_PIPE: Errno = Errno(32);
/// The names that a worker uses.
const NAMES: u64 = 8;
/// The unit of the data of an object: each has the version of its write.
const UNIT: usize = 512;

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) fid: Fid,
    pub(super) is_directory: bool,
    pub(super) mode: u32,
}

/// The files of a worker, by name.
pub(super) type Tree = BTreeMap<String, File>;

/// An object, and the versions of its data by the transactions that wrote them.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) ost: usize,
    pub(super) fid: Fid,
    pub(super) written: Vec<(u64, u64)>,
    /// The version that was sent last.
    pub(super) sent: u64,
}

/// What a worker knows.
#[derive(Clone, Debug)]
pub(super) struct WorkerKnowledge {
    /// What the tree was after each transaction that was answered.
    pub(super) trees: Vec<(u64, Tree)>,
    /// What it will be after the one under way.
    pub(super) pending: Option<Tree>,
    pub(super) objects: Vec<Object>,
    /// The last transaction on disk that each server has told: the MDT, and the OSTs.
    pub(super) told: Vec<u64>,
    /// How many requests were answered.
    pub(super) answered: u64,
}

pub(super) struct Worker {
    pub(super) session: Session,
    /// The MDT, and the OSTs.
    pub(super) imports: Vec<ImportId>,
    pub(super) top: Fid,
    known: Mutex<WorkerKnowledge>,
}

impl Worker {
    pub(super) fn new(
        session: Session,
        imports: Vec<ImportId>,
        top: Fid,
        objects: Vec<(u32, Fid)>,
    ) -> Self {
        let object = |(ost, fid)| Object { ost: ost as usize, fid, written: vec![(0, 0)], sent: 0 };
        let objects = objects.into_iter().map(object).collect();
        let told = vec![0; imports.len()];
        let trees = vec![(0, Tree::new())];
        let known = WorkerKnowledge { trees, pending: None, objects, told, answered: 0 };
        Self { session, imports, top, known: Mutex::new(known) }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, WorkerKnowledge> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until it is to stop.
    pub(super) fn run(&self, seed: u64, stops: &AtomicBool) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let mut fid = self.top;
        while !stops.load(Ordering::Relaxed) {
            match rng.below(4) {
                0 => self.write(&mut rng)?,
                _ => self.change(&mut rng, &mut fid)?,
            }
        }
        Ok(())
    }

    /// Sends a request, and waits for its reply over restarts of the target.
    fn ask(&self, server: usize, request: Request) -> Reply {
        let import = self.imports[server];
        let id = self.session.request(import, request)?;
        let begun = Instant::now();
        let reply = loop {
            match self.session.reply(import, id) {
                // The target is not there now. The request is sent again when it is.
                Err(
                    Errno::EHOSTUNREACH
                    | Errno::ECONNREFUSED
                    | Errno::ENOTCONN
                    | Errno::ETIMEDOUT
                    | Errno::ECONNRESET
                    | BROKEN_PIPE
                    | Errno::EAGAIN
                    | Errno::EBUSY,
                ) if begun.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(10)),
                reply => break reply,
            }
        };
        let mut known = self.known();
        known.answered += 1;
        if let Ok(reply) = &reply {
            known.told[server] = known.told[server].max(reply.body.last_committed);
        }
        drop(known);
        reply
    }

    /// Changes the tree at random. What must fail is tried too.
    fn change(&self, rng: &mut Rng, last: &mut Fid) -> Result<(), String> {
        let tree = self.known().trees.last().expect("there is one").1.clone();
        let mut next = tree.clone();
        let title = |rng: &mut Rng| format!("n{}", rng.below(NAMES));
        let (name, other) = (title(rng), title(rng));
        let old = tree.get(&name).copied();
        let (request, expected) = match (rng.below(5), old) {
            (0, Some(file)) if !file.is_directory => {
                let mode = 0o400 | rng.below(0o100) as u32;
                next.insert(name.clone(), File { mode, ..file });
                (requests::chmod(file.fid, requests::FILE | mode), Ok(()))
            }
            (1 | 2, Some(file)) => {
                next.remove(&name);
                (requests::unlink(self.top, &name, file.fid, file.is_directory), Ok(()))
            }
            (_, Some(file)) if !file.is_directory && name != other => {
                let is_directory = tree.get(&other).is_some_and(|other| other.is_directory);
                if !is_directory {
                    next.remove(&name);
                    next.insert(other.clone(), file);
                }
                let expected = if is_directory { Err(Errno::EISDIR) } else { Ok(()) };
                (requests::rename(self.top, &name, &other), expected)
            }
            (kind, old) => {
                last.oid += 1;
                let is_directory = kind == 0;
                let mode = if is_directory { 0o755 } else { 0o644 };
                let file = File { fid: *last, is_directory, mode };
                let kind = if is_directory { requests::DIRECTORY } else { requests::FILE };
                let expected = if old.is_some() { Err(Errno::EEXIST) } else { Ok(()) };
                if old.is_none() {
                    next.insert(name.clone(), file);
                }
                (requests::create(self.top, &name, file.fid, kind | mode), expected)
            }
        };
        self.known().pending = Some(next.clone());
        let reply = self.ask(0, request);
        let result = reply.as_ref().map(drop).map_err(|errno| *errno);
        if result != expected {
            return Err(format!("{name}, {other} in {tree:?}: {result:?}, not {expected:?}"));
        }
        let mut known = self.known();
        known.pending = None;
        if let Ok(reply) = reply {
            known.trees.push((reply.body.transno, next));
        }
        Ok(())
    }

    /// Writes an object, sometimes under a lock, and sometimes to the disk.
    fn write(&self, rng: &mut Rng) -> Result<(), String> {
        let place = rng.below(self.known().objects.len() as u64) as usize;
        let (ost, fid, version) = {
            let object = &mut self.known().objects[place];
            object.sent += 1;
            (object.ost, object.fid, object.sent)
        };
        let server = ost + 1;
        let failed = |what: &str, errno: Errno| format!("{what} {fid} on OST {ost}: {errno}");
        let lock = if rng.one_in(4) {
            let reply = self.ask(server, requests::lock(fid, rng.u64() | 1));
            Some(requests::lock_of(&*reply.map_err(|errno| failed("lock", errno))?))
        } else {
            None
        };
        let reply = self.ask(server, requests::write(fid, &stamped(version)));
        let reply = reply.map_err(|errno| failed("write", errno))?;
        self.known().objects[place].written.push((reply.body.transno, version));
        if rng.one_in(4) {
            let told = reply.body.transno;
            let reply = self.ask(server, requests::sync(fid));
            reply.map_err(|errno| failed("sync", errno))?;
            // What was synced is on disk, whatever the server says of its last transaction.
            let mut known = self.known();
            known.told[server] = known.told[server].max(told);
        }
        if let Some(handle) = lock {
            // A restart of the target has forgotten it.
            let _ = self.ask(server, requests::cancel(handle));
        }
        Ok(())
    }

    /// Requires that everything that was answered is there.
    pub(super) fn check(&self) -> Result<(), String> {
        let known = self.known().clone();
        let tree = &known.trees.last().expect("there is one").1;
        for name in (0..NAMES).map(|n| format!("n{n}")) {
            let found = match self.ask(0, requests::lookup(self.top, &name)) {
                Ok(reply) => {
                    let body: MdtBody = reply.require(&MDT_BODY).map_err(|e| e.to_string())?;
                    Some((body.fid, body.mode & 0o777))
                }
                Err(Errno::ENOENT) => None,
                Err(errno) => return Err(format!("lookup of {name}: {errno}")),
            };
            let expected = tree.get(&name).map(|file| (file.fid, file.mode & 0o777));
            if found != expected {
                return Err(format!("{name} in {} is {found:?}, not {expected:?}", self.top));
            }
        }
        for object in &known.objects {
            let reply = self.ask(object.ost + 1, requests::read(object.fid));
            let reply = reply.map_err(|errno| format!("read of {}: {errno}", object.fid))?;
            let data = reply.get(&SHORT_IO).ok().flatten().map_or(vec![], |bytes| bytes.0);
            let (_, version) = *object.written.last().expect("there is one");
            let found = versions(&data);
            if version > 0 && found.iter().any(|one| *one != version) {
                let fid = object.fid;
                return Err(format!("the object {fid} has versions {found:?}, not {version}"));
            }
        }
        Ok(())
    }

    /// Returns all names that it may use.
    pub(super) fn names() -> impl Iterator<Item = String> {
        (0..NAMES).map(|n| format!("n{n}"))
    }
}

/// Returns the data of a version.
pub(super) fn stamped(version: u64) -> Vec<u8> {
    let mut data = vec![0; requests::SIZE];
    for unit in data.chunks_mut(UNIT) {
        let text = version.to_string();
        unit[..text.len()].copy_from_slice(text.as_bytes());
    }
    data
}

/// Returns the versions of the units of data.
pub(super) fn versions(data: &[u8]) -> Vec<u64> {
    let version = |unit: &[u8]| {
        let digits = unit.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    data.chunks(UNIT).take(requests::SIZE / UNIT).map(version).collect()
}

#[test]
fn data_have_the_version_of_their_write() {
    assert_eq!(versions(&stamped(1234)), vec![1234; requests::SIZE / UNIT]);
    assert_eq!(versions(&[0; UNIT]), [0]);
}
