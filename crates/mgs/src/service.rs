//! The requests that read logs. Spec: ptlrpc-ldlm-mgs §29.2.

use std::collections::BTreeMap;

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    self, CONFIG_BODY, CONFIG_RESULT, Format, LLOG_BODY, LLOG_HEADER, LLOG_RECORDS, NAME,
};
use fulmar_lustre_wire::llog::{LogContext, LogId, LogRequest};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::mgs::{ConfigReadKind, ConfigReadReply};
use fulmar_lustre_wire::{Content, Opcode, Status};
use fulmar_rpc::export::Offer;

use crate::table::Room;
use crate::{Log, Table};

/// The configuration logs of a management service, by name.
#[derive(Debug, Default)]
pub struct Mgs {
    logs: BTreeMap<String, LogId>,
    by_object: BTreeMap<u64, Log>,
    /// Where the targets of each file system have started.
    tables: BTreeMap<String, Table>,
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
    ];

    /// Adds a log, or replaces that of the same name. Readers of the old one find the new one.
    pub fn publish(&mut self, name: &str, log: Log) {
        let object = self.by_object.len() as u64 + 1;
        let new = LogId { object, seq: LOG_NAMES, generation: 0 };
        let id = *self.logs.entry(name.to_owned()).or_insert(new);
        self.by_object.insert(id.object, log);
    }

    /// Returns the table of a file system, which then has one.
    pub fn table(&mut self, file_system: &str) -> &mut Table {
        self.tables.entry(file_system.to_owned()).or_default()
    }

    /// Answers MGS_CONFIG_READ: returns the reply, and the bulk data that the client gets before.
    ///
    /// # Errors
    /// Why the request is not processed: ENOENT if there is no such file system, EPROTO, EINVAL or
    /// EOPNOTSUPP if it is not for the table of one.
    pub fn read_table(&self, request: &Message<'_>) -> Result<(Message<'static>, Vec<u8>), Errno> {
        let asked = request.require(&CONFIG_BODY).map_err(|_| Errno::EPROTO)?;
        match asked.kind {
            ConfigReadKind::RECOVER => {}
            ConfigReadKind::CONFIG | ConfigReadKind::NODEMAP => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        }
        let name = asked.name.to_string();
        let file_system = name.strip_suffix("-cliir").or_else(|| name.strip_suffix("-mdtir"));
        let table = file_system.and_then(|name| self.tables.get(name)).ok_or(Errno::ENOENT)?;
        let unit = 1_usize << asked.unit_bits.clamp(UNIT_BITS_MIN, UNIT_BITS_MAX);
        let units = (asked.units as usize).min(BULK_MAX / unit);
        let room = Room { unit, units, has_large_nids: asked.nid_size != 0 };
        let (entries, offset) = table.read(asked.offset, room);
        let result = ConfigReadReply { offset, size: table.version() };
        let reply = Message::reply(request.format(), Status::OK).with(&CONFIG_RESULT, &result);
        Ok((reply, entries.to_bytes()))
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

/// Returns which log a request is about, of the configuration.
fn body(request: &Message<'_>) -> Result<LogRequest, Errno> {
    let body = request.require(&LLOG_BODY).map_err(|_| Errno::EPROTO)?;
    match body.context {
        LogContext::CONFIG => Ok(body),
        _ => Err(Errno::ENODEV),
    }
}
