//! The RPCs of a mount, for observers: a ring of lines that exists only as long as it is read.
//!
//! The RPCs are noted while a program reads the attribute `lustre.trace.N`, which is how `fulmar
//! trace` sees them: a line for each that has ended, in a ring of 8,192, from the number N on. A
//! reader that is too slow learns how many were dropped, and ten seconds after the last read the
//! ring is gone; without it an RPC costs one comparison. Several programs may read at the same
//! time, since each keeps its own place. Pings and connects are the import's own and are not noted.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::format::{
    INTENT, LOCK_REPLY, LOCK_REQUEST, MDT_BODY, NAME, NIOBUFS, OST_BODY, REINT,
};
use fulmar_lustre_wire::ldlm::LockType;
use fulmar_lustre_wire::mdt::{MdtBody, Reint};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Name, Status};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::RequestId;

use super::caller::Caller;
use super::mount::MountState;
use crate::machine::context::Context;
use crate::machine::core::Core;

/// The most RPCs that wait to be read.
const ENTRIES_MAX: usize = 8192;
/// The most bytes of one answer.
const VALUE_MAX: usize = 60 << 10;
/// After this time without a reader nothing is noted any more.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An RPC of a mount that has ended, or a callback of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// When it was sent, or came, since 1970.
    pub at: Duration,
    /// The target, such as `lv-OST0000`.
    pub target: String,
    /// The time from the request to its reply; `None` for a callback.
    pub took: Option<Duration>,
    /// The bytes that were to be read or written.
    pub bytes: u64,
    /// The status of the reply, or of its intent.
    pub status: i32,
    /// The file, as far as it is known.
    pub fid: Option<Fid>,
    /// The operation with its intent or variant.
    pub operation: String,
    /// The name of the file, as far as it is known.
    pub name: String,
}

/// What is read of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    /// The number of the RPC to read on with.
    pub next: u64,
    /// How many RPCs had to be dropped before these.
    pub dropped: u64,
    /// The RPCs, in the order in which they have ended.
    pub entries: Vec<TraceEntry>,
}

/// The RPCs of a mount that somebody looks at.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    /// The last ones, each as a line.
    lines: VecDeque<String>,
    /// The number of the next one.
    next: u64,
    /// When somebody has read last.
    read: Time,
    begun: BTreeMap<(ImportId, RequestId), (Time, TraceEntry)>,
}

impl Tracer {
    fn add(&mut self, entry: &TraceEntry) {
        if self.lines.len() == ENTRIES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(write(entry));
        self.next += 1;
    }

    /// Returns the lines from a number on, as many as fit, behind one about them.
    fn read(&self, from: u64) -> String {
        let oldest = self.next - self.lines.len() as u64;
        let first = from.clamp(oldest, self.next);
        let dropped = oldest.saturating_sub(from);
        let (mut text, mut next) = (String::new(), first);
        for line in self.lines.iter().skip((first - oldest) as usize) {
            if text.len() + line.len() > VALUE_MAX {
                break;
            }
            text += line;
            next += 1;
        }
        format!("{next} {dropped}\n{text}")
    }
}

/// Returns an RPC as a line, whose fields have a tab between them.
fn write(entry: &TraceEntry) -> String {
    let TraceEntry { at, target, took, bytes, status, fid, operation, name } = entry;
    let took = took.map_or("-".to_owned(), |took| took.as_micros().to_string());
    let fid = fid.map_or("-".to_owned(), |fid| fid.to_string());
    let at = at.as_micros();
    format!("{at}\t{target}\t{took}\t{bytes}\t{status}\t{fid}\t{operation}\t{name}\n")
}

/// Reads the value of [`TRACE`](super::special::TRACE).
///
/// # Errors
/// EPROTO if it is not such a value.
pub fn read_trace(value: &[u8]) -> Result<TracePart, Errno> {
    let text = std::str::from_utf8(value).map_err(|_| Errno::EPROTO)?;
    let (head, lines) = text.split_once('\n').ok_or(Errno::EPROTO)?;
    let (next, dropped) = head.split_once(' ').ok_or(Errno::EPROTO)?;
    let number = |text: &str| text.parse().map_err(|_| Errno::EPROTO);
    let entries = lines.lines().map(|line| read(line).ok_or(Errno::EPROTO));
    Ok(TracePart {
        next: number(next)?,
        dropped: number(dropped)?,
        entries: entries.collect::<Result<_, _>>()?,
    })
}

fn read(line: &str) -> Option<TraceEntry> {
    let mut fields = line.split('\t');
    let mut field = || fields.next();
    Some(TraceEntry {
        at: Duration::from_micros(field()?.parse().ok()?),
        target: field()?.to_owned(),
        took: match field()? {
            "-" => None,
            micros => Some(Duration::from_micros(micros.parse().ok()?)),
        },
        bytes: field()?.parse().ok()?,
        status: field()?.parse().ok()?,
        fid: match field()? {
            "-" => None,
            fid => Some(fid.parse().ok()?),
        },
        operation: field()?.to_owned(),
        name: field()?.to_owned(),
    })
}

/// Returns what is known of a request before it is answered.
fn describe(mount: &MountState, import: ImportId, message: &Message<'_>) -> TraceEntry {
    let operation = match message.get(&INTENT) {
        Ok(Some(intent)) => format!("{:?} {}", message.body.opcode, intent.ops),
        _ => message.format().to_string(),
    };
    let body: Option<MdtBody> = message.get(&MDT_BODY).ok().flatten();
    let record: Option<Reint> = message.get(&REINT).ok().flatten();
    let named: Option<Name> = message.get(&NAME).ok().flatten();
    let object = message.get(&OST_BODY).ok().flatten().map(|body| body.id.resource());
    let locked = message.get(&LOCK_REQUEST).ok().flatten().map(|lock| lock.lock.resource);
    let of_object = |id| mount.objects.get(&(import, id)).map(|object| object.file);
    let fid = match (body, record, object, locked) {
        (Some(body), ..) if body.child != Fid::default() => Some(body.child),
        (Some(body), ..) => Some(body.fid),
        (_, Some(record), ..) => Some(record.head.fid),
        (_, _, Some(id), _) => of_object(id),
        (.., Some(lock)) if lock.kind == LockType::EXTENT => of_object(lock.id),
        (.., Some(lock)) => Some(lock.id.fid()),
        _ => None,
    };
    let fid = fid.filter(|fid| *fid != Fid::default());
    let known = || Some(mount.inodes.get(&fid?)?.names.first()?.1.clone());
    let name = named.filter(|name| !name.as_bytes().is_empty()).or_else(known);
    let niobufs = message.get(&NIOBUFS).ok().flatten();
    let bytes = niobufs.map_or(0, |all| all.0.iter().map(|one| u64::from(one.len)).sum());
    TraceEntry {
        at: Duration::ZERO,
        target: String::new(),
        took: None,
        bytes,
        status: 0,
        fid,
        operation,
        name: name.map_or(String::new(), |name| name.as_bytes().escape_ascii().to_string()),
    }
}

impl Core {
    /// Notes that a request was sent, if somebody looks at the mount of its target.
    pub(crate) fn trace_sent(&mut self, import: ImportId, id: RequestId, entry: TraceEntry) {
        let now = self.now;
        if let Some(tracer) = self.tracer(import) {
            tracer.begun.insert((import, id), (now, entry));
        }
    }

    /// Returns what is known of a message to or from a target, if somebody looks.
    pub(crate) fn traced(&mut self, import: ImportId, message: &Message<'_>) -> Option<TraceEntry> {
        self.tracer(import)?;
        let at = self.moment().now;
        let target = self.client().import(import)?.target().uuid.to_string();
        let target = target.strip_suffix("_UUID").unwrap_or(&target).to_owned();
        let mount = self.mounts.get(&self.peer(import)?.mount)?;
        Some(TraceEntry { at, target, ..describe(mount, import, message) })
    }

    /// Notes how a request has ended.
    pub(crate) fn trace_done(
        &mut self,
        (import, id): (ImportId, RequestId),
        result: &Result<Box<Message<'static>>, Errno>,
    ) {
        let now = self.now;
        let Some(tracer) = self.tracer(import) else { return };
        let Some((sent, mut entry)) = tracer.begun.remove(&(import, id)) else { return };
        let status = match result {
            Ok(reply) => match reply.get(&LOCK_REPLY) {
                Ok(Some(lock)) if (lock.result2 as i32) < 0 => Status(lock.result2 as i32),
                _ => reply.body.status,
            },
            Err(errno) => Status::failed(*errno),
        };
        // Reads and writes tell how many bytes they have moved.
        (entry.status, entry.took) = (status.0.min(0), Some(now.since(sent)));
        tracer.add(&entry);
    }

    /// Notes a callback of a server.
    pub(crate) fn trace_called(&mut self, import: ImportId, message: &Message<'_>) {
        let Some(entry) = self.traced(import, message) else { return };
        if let Some(tracer) = self.tracer(import) {
            tracer.add(&entry);
        }
    }

    /// Returns the tracer of the mount of a target, if somebody looks.
    fn tracer(&mut self, import: ImportId) -> Option<&mut Tracer> {
        let mount = self.peer(import)?.mount;
        let now = self.now;
        let mount = self.mounts.get_mut(&mount)?;
        if mount.tracer.as_ref().is_some_and(|tracer| now.since(tracer.read) > TIMEOUT) {
            mount.tracer = None;
        }
        mount.tracer.as_deref_mut()
    }
}

impl Context {
    /// Returns RPCs of the mount from a number on, `None` for those from now on, and has them noted.
    ///
    /// # Errors
    /// EPERM for others than the superuser: names of files are told.
    pub(crate) fn trace(&self, caller: &Caller, from: Option<u64>) -> Result<Vec<u8>, Errno> {
        if caller.uid != 0 {
            return Err(Errno::EPERM);
        }
        let mut core = self.core();
        let now = core.now;
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let tracer = mount.tracer.get_or_insert_with(Box::default);
        tracer.read = now;
        Ok(tracer.read(from.unwrap_or(tracer.next)).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> TraceEntry {
        TraceEntry {
            at: Duration::from_micros(1_700_000_000_000_000 + number),
            target: "lv-MDT0000".to_owned(),
            took: number.is_multiple_of(2).then(|| Duration::from_micros(number)),
            bytes: number,
            status: -2,
            fid: number.is_multiple_of(3).then_some(Fid { seq: 0x2_0000_0401, oid: 7, version: 0 }),
            operation: "LDLM_ENQUEUE OPEN|CREAT".to_owned(),
            name: "a\\tb c".to_owned(),
        }
    }

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let mut tracer = Tracer::default();
        (0..7).for_each(|number| tracer.add(&entry(number)));
        let part = read_trace(tracer.read(2).as_bytes()).unwrap();
        assert_eq!((part.next, part.dropped), (7, 0));
        assert_eq!(part.entries, (2..7).map(entry).collect::<Vec<_>>());
        assert_eq!(read_trace(tracer.read(7).as_bytes()).unwrap().entries, []);
        for wrong in ["", "1\n", "1 x\n", "1 0\n1\tx\n"] {
            assert_eq!(read_trace(wrong.as_bytes()), Err(Errno::EPROTO), "{wrong}");
        }
    }

    #[test]
    fn a_slow_reader_is_told_what_it_has_missed() {
        let mut tracer = Tracer::default();
        let all = ENTRIES_MAX as u64 + 100;
        (0..all).for_each(|number| tracer.add(&entry(number)));
        let (mut next, mut read, mut dropped) = (10, 0, 0);
        while next < all {
            let value = tracer.read(next);
            assert!(value.len() <= VALUE_MAX + 32);
            let part = read_trace(value.as_bytes()).unwrap();
            read += part.entries.len() as u64;
            (next, dropped) = (part.next, dropped + part.dropped);
        }
        assert_eq!((read, dropped), (ENTRIES_MAX as u64, 90));
    }
}
