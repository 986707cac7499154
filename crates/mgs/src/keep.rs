//! What a management service keeps: keys and values for the storage of its owner.
//!
//! ```text
//! l NAME 0              the time of a log, its object
//! l NAME 0 INDEX        a record: its kind, its content
//! t FS 0 KIND INDEX     a target: its nodes
//! f FS                  the last step, the version of the table of started targets
//! n KEY                 a record of the nodemaps
//! ```

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::llog::RecordKind;
use fulmar_lustre_wire::mgs::{NodemapEntry, NodemapKey, NodemapRecord};
use fulmar_nodemap::Nodemaps;
use fulmar_rpc::import::TargetKind;
use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};

use crate::Log;
use crate::service::Mgs;
use crate::target::{Target, TargetName};

/// A key, and its new value; `None` removes it.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// The last step of the changes of a file system, and the version of its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) step: u32,
    pub(crate) table: u64,
}

const ORDER: Order = Order::Big;
const MDT: u8 = 1;
const OST: u8 = 2;

/// Why stored keys are no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedKeys(pub String);

impl Mgs {
    /// Returns a service with what another one has stored: all its keys, in order.
    ///
    /// # Errors
    /// What is damaged.
    pub fn load(stored: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<Self, DamagedKeys> {
        let mut this = Self::default();
        let mut nodemaps = vec![];
        for (key, value) in stored {
            let damaged = |why: String| DamagedKeys(format!("key {}: {why}", key.escape_ascii()));
            let name = key.get(1..).unwrap_or_default();
            match key.first() {
                Some(b'l') => this.load_log(name, &value),
                Some(b't') => this.load_target(name, &value),
                Some(b'f') => this.load_counters(name, &value),
                Some(b'n') => nodemap(name, &value).map(|entry| nodemaps.push(entry)),
                _ => Err("it is of no known kind".to_owned()),
            }
            .map_err(damaged)?;
        }
        this.nodemaps =
            Nodemaps::of(&nodemaps).map_err(|why| DamagedKeys(format!("the nodemaps: {why}")))?;
        Ok(this)
    }

    fn load_log(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (name, index) = split(key)?;
        let r = &mut Reader::new(value, ORDER);
        if index.is_empty() {
            let (time, object) = header(r).map_err(|error| error.to_string())?;
            self.restore_log(&name, object, Log::new(time));
            return Ok(());
        }
        let index = Reader::new(index, ORDER).u32("index").map_err(|error| error.to_string())?;
        let kind = Field::read(r, "kind").map_err(|error| error.to_string())?;
        let log = self.log_mut(&name).ok_or("its log is missing")?;
        if index != log.last_index() + 1 {
            return Err(format!("record {} is missing", log.last_index() + 1));
        }
        log.restore(kind, r.rest().to_vec());
        Ok(())
    }

    fn load_target(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (file_system, rest) = split(key)?;
        let r = &mut Reader::new(rest, ORDER);
        let kind = r.u8("kind").map_err(|error| error.to_string())?;
        let index = r.u16("index").map_err(|error| error.to_string())?;
        let kind = match kind {
            MDT => TargetKind::Mdt,
            OST => TargetKind::Ost,
            other => return Err(format!("there are no targets of kind {other}")),
        };
        let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
        let node = |node: &str| -> Result<Vec<Nid>, String> {
            node.split(',').map(|nid| nid.parse().map_err(|_| format!("{nid} is no NID"))).collect()
        };
        let nodes = text.split(' ').map(node).collect::<Result<_, _>>()?;
        self.restore_target(TargetName { file_system, kind, index }, Target { nodes });
        Ok(())
    }

    fn load_counters(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let name = std::str::from_utf8(key).map_err(|error| error.to_string())?;
        let r = &mut Reader::new(value, ORDER);
        let counters = counters(r).map_err(|error| error.to_string())?;
        self.restore_counters(name, counters);
        Ok(())
    }
}

/// Splits a key after the name that ends with a 0.
fn split(key: &[u8]) -> Result<(String, &[u8]), String> {
    let end = key.iter().position(|byte| *byte == 0).ok_or("its name has no end")?;
    let name = std::str::from_utf8(&key[..end]).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), &key[end + 1..]))
}

fn header(r: &mut Reader<'_>) -> Result<(i64, u64), DecodeError> {
    Ok((Field::read(r, "time")?, r.u64("object")?))
}

fn nodemap(key: &[u8], value: &[u8]) -> Result<NodemapEntry, String> {
    let bytes = [key, value].concat();
    let r = &mut Reader::new(&bytes, ORDER);
    let entry = Field::read(r, "nodemap").and_then(|entry| r.finish("nodemap").map(|()| entry));
    entry.map_err(|error| error.to_string())
}

fn counters(r: &mut Reader<'_>) -> Result<Counters, DecodeError> {
    Ok(Counters { step: r.u32("step")?, table: r.u64("table")? })
}

fn bytes(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes, ORDER));
    bytes
}

fn key_of_log(name: &str) -> Vec<u8> {
    [b"l", name.as_bytes(), &[0]].concat()
}

/// The header of a log.
pub(crate) fn put_log(name: &str, object: u64, log: &Log) -> Change {
    let value = bytes(|w| {
        log.time().write(w);
        w.u64(object);
    });
    (key_of_log(name), Some(value))
}

/// The new records of a log.
pub(crate) fn put_records(name: &str, log: &mut Log) -> Vec<Change> {
    let change = |(index, kind, body): (u32, RecordKind, Vec<u8>)| {
        let value = bytes(|w| {
            kind.write(w);
            w.bytes(&body);
        });
        (key_of_record(name, index), Some(value))
    };
    log.take_changes().into_iter().map(change).collect()
}

/// All keys of a log, to be removed.
pub(crate) fn remove_log(name: &str, log: &Log) -> Vec<Change> {
    let records = (1..=log.last_index()).map(|index| key_of_record(name, index));
    std::iter::once(key_of_log(name)).chain(records).map(|key| (key, None)).collect()
}

fn key_of_record(name: &str, index: u32) -> Vec<u8> {
    [key_of_log(name), bytes(|w| w.u32(index))].concat()
}

/// A target, or its removal.
pub(crate) fn put_target(name: &TargetName, target: Option<&Target>) -> Change {
    let kind = if name.kind == TargetKind::Mdt { MDT } else { OST };
    let rest = bytes(|w| {
        w.u8(kind);
        w.u16(name.index);
    });
    let key = [b"t", name.file_system.as_bytes(), &[0], &rest].concat();
    let node = |nids: &Vec<Nid>| nids.iter().map(Nid::to_string).collect::<Vec<_>>().join(",");
    let value = |target: &Target| target.nodes.iter().map(node).collect::<Vec<_>>().join(" ");
    (key, target.map(|target| value(target).into_bytes()))
}

/// The counters of a file system.
pub(crate) fn put_counters(file_system: &str, counters: Counters) -> Change {
    let value = bytes(|w| {
        w.u32(counters.step);
        w.u64(counters.table);
    });
    ([b"f", file_system.as_bytes()].concat(), Some(value))
}

/// A record of the nodemaps, or its removal.
pub(crate) fn put_nodemap(key: NodemapKey, record: Option<&NodemapRecord>) -> Change {
    let name = bytes(|w| key.write(w));
    let value = |record: &NodemapRecord| {
        bytes(|w| NodemapEntry { key, record: *record }.write(w)).split_off(name.len())
    };
    ([b"n", &name[..]].concat(), record.map(value))
}
