//! Reading configuration logs from the management service. Spec: ptlrpc-ldlm-mgs §29.

use fulmar_base::Errno;
use fulmar_lustre_wire::Name;
use fulmar_lustre_wire::format::{
    LLOG_BODY, LLOG_CREATE, LLOG_HEADER, LLOG_NEXT_BLOCK, LLOG_READ_HEADER, LLOG_RECORDS, MDT_BODY,
    NAME,
};
use fulmar_lustre_wire::llog::config::Config;
use fulmar_lustre_wire::llog::{LogBlock, LogFlags, LogHeader, LogRecord, LogRequest, RecordBody};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;

use crate::{Error, Session};

/// The length of a [`LogRequest`].
const BODY_LEN: usize = 48;
/// The most blocks that are read of a log: 64 MiB, enough for 65,000 targets.
const BLOCKS_MAX: u32 = 8192;

impl Session {
    /// Returns the live configuration records of a log; none if there is no such log.
    ///
    /// # Errors
    /// [`Error::Request`] or [`Error::Invalid`].
    pub(crate) fn log(&self, mgs: ImportId, name: &str) -> Result<Vec<Config>, Error> {
        let mut reader = LogReader::new(name)?;
        while let Some((message, room)) = reader.request() {
            reader.take(self.call(mgs, Request::new(message, room)))?;
        }
        Ok(reader.configs)
    }
}

/// The reading of a log: a request, its reply, and so on until there is no further request.
#[derive(Debug)]
pub(crate) struct LogReader {
    name: Name,
    stage: Stage,
    /// The records that were read.
    pub(crate) configs: Vec<Config>,
}

#[derive(Debug)]
enum Stage {
    /// The log is opened.
    Open,
    /// Its header is read.
    Header(LogRequest),
    /// This block is read; so many may follow.
    Block {
        wanted: LogRequest,
        header: LogHeader,
        left: u32,
    },
    Done,
}

impl LogReader {
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        let what = || format!("the name {name:?}");
        let invalid = || Error::Invalid { what: what(), reason: "it contains NUL".to_owned() };
        let name = Name::new(name).ok_or_else(invalid)?;
        Ok(Self { name, stage: Stage::Open, configs: Vec::new() })
    }

    /// Returns the next request, and the length of its reply.
    pub(crate) fn request(&self) -> Option<(Message<'static>, usize)> {
        Some(match &self.stage {
            Stage::Open => {
                let request = Message::request(&LLOG_CREATE)
                    .with(&LLOG_BODY, &LogRequest::default())
                    .with(&NAME, &self.name)
                    .with(&MDT_BODY, &MdtBody::default());
                (request, len_with(&[Body::LEN, BODY_LEN]))
            }
            Stage::Header(body) => {
                let request = Message::request(&LLOG_READ_HEADER).with(&LLOG_BODY, body);
                (request, len_with(&[Body::LEN, LogHeader::LEN_MIN]))
            }
            Stage::Block { wanted, .. } => {
                let request = Message::request(&LLOG_NEXT_BLOCK).with(&LLOG_BODY, wanted);
                (request, len_with(&[Body::LEN, BODY_LEN, LogRecord::LEN_MAX]))
            }
            Stage::Done => return None,
        })
    }

    /// Handles the reply to the request.
    pub(crate) fn take(&mut self, reply: Result<Box<Message<'_>>, Errno>) -> Result<(), Error> {
        let name = self.name.clone();
        let invalid =
            |error| Error::Invalid { what: format!("the log {name}"), reason: format!("{error}") };
        let reply = match (reply, &self.stage) {
            (Ok(reply), _) => reply,
            (Err(Errno::ENOENT), Stage::Open) => return self.end(),
            // The log has become shorter; older servers say EIO. Spec: ptlrpc-ldlm-mgs §29.2.
            (Err(Errno::EBADR | Errno::EIO), Stage::Block { .. }) => return self.end(),
            (Err(errno), _) => {
                return Err(Error::Request { what: format!("reading the log {name}"), errno });
            }
        };
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Open => {
                let LogRequest { id, .. } = reply.require(&LLOG_BODY).map_err(invalid)?;
                let flags = LogFlags::PLAIN;
                self.stage = Stage::Header(LogRequest { id, flags, ..LogRequest::default() });
            }
            Stage::Header(body) => {
                let header: LogHeader = reply.require(&LLOG_HEADER).map_err(invalid)?;
                let wanted = LogRequest {
                    flags: header.flags,
                    index: 1,
                    len: LogRecord::LEN_MAX as u32,
                    offset: LogHeader::LEN_MIN as u64,
                    ..body
                };
                self.want(wanted, header, BLOCKS_MAX)?;
            }
            Stage::Block { wanted, header, left } => {
                let found = reply.require(&LLOG_BODY).map_err(invalid)?;
                let block = reply.require(&LLOG_RECORDS).map_err(invalid)?;
                let index = self.take_block(wanted.index, &header, &block);
                let offset = found.offset;
                let next = LogRequest { index, saved_index: index - 1, offset, ..wanted };
                // Otherwise it would be read for ever.
                let left = if index > wanted.index { left - 1 } else { 0 };
                self.want(next, header, left)?;
            }
            Stage::Done => {}
        }
        Ok(())
    }

    /// Reads the block with a record, unless the log ends before it.
    fn want(&mut self, wanted: LogRequest, header: LogHeader, left: u32) -> Result<(), Error> {
        if wanted.index > header.last_index {
            return self.end();
        }
        if left == 0 {
            let (what, last) = (format!("the log {}", self.name), header.last_index);
            let reason = format!("record {} of {last} is missing", wanted.index);
            return Err(Error::Invalid { what, reason });
        }
        self.stage = Stage::Block { wanted, header, left };
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stage = Stage::Done;
        Ok(())
    }

    /// Reads the records of a block from `index` on that are live. Returns the next index.
    fn take_block(&mut self, index: u32, header: &LogHeader, block: &LogBlock) -> u32 {
        let mut next = index;
        for record in block.records.iter() {
            if record.index < next {
                continue;
            }
            next = record.index.saturating_add(1);
            if let RecordBody::Config(config) = record.typed(block.order)
                && header.is_live(record.index)
            {
                self.configs.push(config);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests;
