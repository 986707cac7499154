//! The requests that read logs. Spec: ptlrpc-ldlm-mgs §29.2.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    self, CONFIG_BODY, CONFIG_RESULT, Format, LLOG_BODY, LLOG_HEADER, LLOG_RECORDS, NAME,
};
use fulmar_lustre_wire::llog::{LogContext, LogId, LogRequest};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::mgs::{ConfigRead, ConfigReadKind, ConfigReadReply};
use fulmar_lustre_wire::{Content, Opcode, Status};
use fulmar_nodemap::Nodemaps;
use fulmar_rpc::RELEASE;
use fulmar_rpc::export::Offer;
use fulmar_rpc::import::TargetKind;

use crate::keep::{self, Change, Counters};
use crate::records::Group;
use crate::table::Room;
use crate::target::{Target, TargetName};
use crate::{Log, Table};

/// The configurations of a management service.
#[derive(Clone, Debug, Default)]
pub struct Mgs {
    logs: BTreeMap<String, LogId>,
    by_object: BTreeMap<u64, Log>,
    /// The number of the last log. None is used twice.
    last_object: u64,
    targets: BTreeMap<TargetName, Target>,
    /// Where the targets of each file system have started.
    tables: BTreeMap<String, Table>,
    counters: BTreeMap<String, Counters>,
    pub(crate) nodemaps: Nodemaps,
    /// Counts their changes.
    pub(crate) nodemap_version: u32,
    /// What is to be stored, beside records of logs.
    pub(crate) changes: Vec<Change>,
}

/// The sizes of units that are used, as logarithms: pages of 4 KiB to 64 KiB.
const UNIT_BITS_MIN: u8 = 12;
const UNIT_BITS_MAX: u8 = 16;
/// The most bulk data in bytes.
const BULK_MAX: usize = 1 << 20;
/// The sequence of logs that have names. Spec: ptlrpc-ldlm-mgs §35.1.
const LOG_NAMES: u64 = 10;

impl Mgs {
    /// The requests about configurations.
    pub const OPERATIONS: &[Opcode] = &[
        Opcode::LLOG_CREATE,
        Opcode::LLOG_READ_HEADER,
        Opcode::LLOG_NEXT_BLOCK,
        Opcode::MGS_CONFIG_READ,
        Opcode::MGS_TARGET_REG,
    ];

    /// Adds a log, or replaces that of the same name. Readers of the old one find the new one.
    pub fn publish(&mut self, name: &str, log: Log) {
        let object = match self.logs.get(name) {
            Some(id) => id.object,
            None => self.last_object + 1,
        };
        self.restore_log(name, object, log);
    }

    /// Returns the table of a file system, which then has one.
    pub fn table(&mut self, file_system: &str) -> &mut Table {
        self.tables.entry(file_system.to_owned()).or_default()
    }

    /// Returns what is to be stored since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.changes);
        for (name, id) in &self.logs {
            if let Some(log) = self.by_object.get_mut(&id.object) {
                changes.extend(keep::put_records(name, log));
            }
        }
        changes
    }

    /// Returns where a target is.
    pub fn target(&self, name: &TargetName) -> Option<&Target> {
        self.targets.get(name)
    }

    /// Returns the targets of a file system, the MDTs first.
    pub(crate) fn targets_of(
        &self,
        file_system: &str,
    ) -> impl Iterator<Item = (&TargetName, &Target)> {
        self.targets.iter().filter(move |(name, _)| name.file_system == file_system)
    }

    pub(crate) fn mdts_of(&self, file_system: &str) -> Vec<TargetName> {
        let names = self.targets_of(file_system).map(|(name, _)| name);
        names.filter(|name| name.kind == TargetKind::Mdt).cloned().collect()
    }

    /// Returns the lowest index that no target has.
    pub(crate) fn free_index(&self, file_system: &str, kind: TargetKind) -> Result<u16, Errno> {
        let of_it = self.targets_of(file_system).filter(|(name, _)| name.kind == kind);
        let used: BTreeSet<u16> = of_it.map(|(name, _)| name.index).collect();
        (0..=TargetName::INDEX_MAX).find(|index| !used.contains(index)).ok_or(Errno::ENOSPC)
    }

    pub(crate) fn set_target(&mut self, name: TargetName, target: Target) {
        self.changes.push(keep::put_target(&name, Some(&target)));
        self.table(&name.file_system);
        self.restore_target(name, target);
    }

    /// Counts the groups of a file system. A kernel MGS begins with 2.
    fn next_step(&mut self, file_system: &str) -> u32 {
        let counters = self.counters.entry(file_system.to_owned()).or_default();
        counters.step = counters.step.max(1) + 1;
        self.changes.push(keep::put_counters(file_system, *counters));
        counters.step
    }

    /// Notes that the table of a file system has changed.
    pub(crate) fn note_table(&mut self, file_system: &str) {
        let version = self.tables.get(file_system).map_or(0, Table::version);
        let counters = self.counters.entry(file_system.to_owned()).or_default();
        counters.table = version;
        self.changes.push(keep::put_counters(file_system, *counters));
    }

    /// Forgets the logs and the targets of a file system.
    pub(crate) fn erase(&mut self, file_system: &str) {
        let names: Vec<TargetName> =
            self.targets_of(file_system).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.remove_log(&name.to_string());
            self.changes.push(keep::put_target(&name, None));
            self.targets.remove(&name);
        }
        self.remove_log(&format!("{file_system}-client"));
    }

    /// Returns a log by its name.
    pub fn log_named(&self, name: &str) -> Option<&Log> {
        self.by_object.get(&self.logs.get(name)?.object)
    }

    pub(crate) fn log_names(&self) -> impl Iterator<Item = &str> {
        self.logs.keys().map(String::as_str)
    }

    /// Returns the file systems that have targets.
    pub(crate) fn file_systems(&self) -> BTreeSet<String> {
        self.targets.keys().map(|name| name.file_system.clone()).collect()
    }

    pub(crate) fn log_mut(&mut self, name: &str) -> Option<&mut Log> {
        self.by_object.get_mut(&self.logs.get(name)?.object)
    }

    pub(crate) fn remove_log(&mut self, name: &str) {
        let removed = self.logs.remove(name).and_then(|id| self.by_object.remove(&id.object));
        if let Some(log) = removed {
            self.changes.extend(keep::remove_log(name, &log));
        }
    }

    /// Makes an empty log, if there is none.
    pub(crate) fn make_log(&mut self, name: &str, now: i64) {
        if self.log_named(name).is_none() {
            let log = Log::new(now);
            self.changes.push(keep::put_log(name, self.last_object + 1, &log));
            self.publish(name, log);
        }
    }

    /// Appends a group to a log, which is made if there is none.
    pub(crate) fn append(&mut self, name: &str, group: &Group, now: i64) -> Result<(), Errno> {
        self.make_log(name, now);
        let step = self.next_step(file_system_of(name));
        let log = self.log_mut(name).ok_or(Errno::ENOENT)?;
        log.append_group(group, step, RELEASE, now)
    }

    /// The same, and cancels earlier groups about the same.
    pub(crate) fn replace(&mut self, name: &str, group: &Group, now: i64) -> Result<(), Errno> {
        if let Some(log) = self.log_mut(name) {
            log.cancel(&group.target, &group.comment, now);
        }
        self.append(name, group, now)
    }

    pub(crate) fn restore_log(&mut self, name: &str, object: u64, log: Log) {
        let id = LogId { object, seq: LOG_NAMES, generation: 0 };
        self.last_object = self.last_object.max(object);
        self.logs.insert(name.to_owned(), id);
        self.by_object.insert(object, log);
    }

    pub(crate) fn restore_target(&mut self, name: TargetName, target: Target) {
        self.targets.insert(name, target);
    }

    pub(crate) fn restore_counters(&mut self, file_system: &str, counters: Counters) {
        self.table(file_system).restart(counters.table);
        self.counters.insert(file_system.to_owned(), counters);
    }

    /// Answers MGS_CONFIG_READ: returns the reply, and the bulk data that the client gets before.
    ///
    /// # Errors
    /// Why the request is not processed: ENOENT if there is no such file system, EPROTO, EINVAL or
    /// EOPNOTSUPP if it is for nothing that is read so.
    pub fn read_config(&self, request: &Message<'_>) -> Result<(Message<'static>, Vec<u8>), Errno> {
        let asked = request.require(&CONFIG_BODY).map_err(|_| Errno::EPROTO)?;
        let (result, data) = match asked.kind {
            ConfigReadKind::RECOVER => self.read_table(&asked)?,
            ConfigReadKind::NODEMAP => self.read_nodemaps(&asked),
            ConfigReadKind::CONFIG => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        };
        let reply = Message::reply(request.format(), Status::OK).with(&CONFIG_RESULT, &result);
        Ok((reply, data))
    }

    fn read_table(&self, asked: &ConfigRead) -> Result<(ConfigReadReply, Vec<u8>), Errno> {
        let name = asked.name.to_string();
        let file_system = name.strip_suffix("-cliir").or_else(|| name.strip_suffix("-mdtir"));
        let table = file_system.and_then(|name| self.tables.get(name)).ok_or(Errno::ENOENT)?;
        let unit = 1_usize << asked.unit_bits.clamp(UNIT_BITS_MIN, UNIT_BITS_MAX);
        let units = (asked.units as usize).min(BULK_MAX / unit);
        let room = Room { unit, units, has_large_nids: asked.nid_size != 0 };
        let (entries, offset) = table.read(asked.offset, room);
        Ok((ConfigReadReply { offset, size: table.version() }, entries.to_bytes()))
    }

    /// Answers a request that reads a log, or a CONNECT.
    ///
    /// # Errors
    /// Why the request is not processed: EPROTO if it is not whole, EOPNOTSUPP if it is another one.
    pub fn execute(&self, request: &Message<'_>) -> Result<Message<'static>, Errno> {
        let format = request.format();
        match request.body.opcode {
            Opcode::MGS_CONNECT => {
                let asked = request.require(&format::CONNECT_DATA).map_err(|_| Errno::EPROTO)?;
                let granted = Offer::MGS.grant(&asked);
                Ok(Message::reply(format, Status::OK).with(&format::CONNECT_DATA, &granted))
            }
            Opcode::MGS_DISCONNECT => Ok(Message::reply(format, Status::OK)),
            Opcode::LLOG_CREATE => self.open(format, request),
            Opcode::LLOG_READ_HEADER => self.read_header(format, request),
            Opcode::LLOG_NEXT_BLOCK => self.next_block(format, request),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn open(
        &self,
        format: &'static Format,
        request: &Message<'_>,
    ) -> Result<Message<'static>, Errno> {
        let asked = body(request)?;
        let name = request.require(&NAME).map_err(|_| Errno::EPROTO)?;
        let found = match name.as_bytes() {
            b"" => Some(asked.id).filter(|id| self.log(*id).is_ok()),
            name => std::str::from_utf8(name).ok().and_then(|name| self.logs.get(name).copied()),
        };
        Ok(match found {
            Some(id) => {
                let opened = LogRequest { id, ..LogRequest::default() };
                Message::reply(format, Status::OK).with(&LLOG_BODY, &opened)
            }
            None => {
                let status = Status::failed(Errno::ENOENT);
                Message::reply(format, status).with(&LLOG_BODY, &LogRequest::default())
            }
        })
    }

    fn read_header(
        &self,
        format: &'static Format,
        request: &Message<'_>,
    ) -> Result<Message<'static>, Errno> {
        let log = self.log(body(request)?.id)?;
        Ok(Message::reply(format, Status::OK).with(&LLOG_HEADER, &log.header()))
    }

    fn next_block(
        &self,
        format: &'static Format,
        request: &Message<'_>,
    ) -> Result<Message<'static>, Errno> {
        let asked = body(request)?;
        let log = self.log(asked.id)?;
        Ok(match log.block(asked.index) {
            Ok(block) => {
                let read = LogRequest { saved_index: block.last_index, offset: block.end, ..asked };
                let reply = Message::reply(format, Status::OK).with(&LLOG_BODY, &read);
                reply.with(&LLOG_RECORDS, &block.records)
            }
            Err(errno) => Message::reply(format, Status::failed(errno)).with(&LLOG_BODY, &asked),
        })
    }

    fn log(&self, id: LogId) -> Result<&Log, Errno> {
        self.by_object.get(&id.object).filter(|_| id.seq == LOG_NAMES).ok_or(Errno::ENOENT)
    }
}

/// Returns the file system of a log, by the name of the log.
pub(crate) fn file_system_of(log: &str) -> &str {
    log.rsplit_once('-').map_or(log, |(file_system, _)| file_system)
}

/// Returns which log a request is about, of the configuration.
fn body(request: &Message<'_>) -> Result<LogRequest, Errno> {
    let body = request.require(&LLOG_BODY).map_err(|_| Errno::EPROTO)?;
    match body.context {
        LogContext::CONFIG => Ok(body),
        _ => Err(Errno::ENODEV),
    }
}
