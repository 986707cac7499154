//! Requests that read the changelog. Spec: mdt-ost §14.10, ptlrpc-ldlm-mgs §29.2.

use fulmar_base::Errno;
use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::format::{LLOG_BODY, LLOG_HEADER, LLOG_RECORDS, MDT_BODY, NAME};
use fulmar_lustre_wire::llog::{LogContext, LogRequest};
use fulmar_lustre_wire::message::Message;

use super::Answer;
use crate::Mdt;
use crate::access::{Caller, Capabilities};
use crate::changelog::{Block, CATALOG, CATALOG_NAME};
use crate::mdt::Call;
use crate::records::Failure;

impl Mdt {
    /// Opens a log, by its name or its identity.
    pub(crate) fn open_log(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        self.check_reader(call)?;
        let asked = body(call)?;
        let name = call.message.require(&NAME).map_err(|_| Errno::EPROTO)?;
        let extent = self.changelog.extent();
        let id = match name.as_bytes() {
            CATALOG_NAME => CATALOG,
            b"" if asked.id == CATALOG => CATALOG,
            b"" => extent.log(asked.id).map(|_| asked.id)?,
            _ => return Err(Errno::ENOENT.into()),
        };
        let opened = LogRequest { id, ..LogRequest::default() };
        let reply = Message::reply(call.message.format(), Status::OK).with(&LLOG_BODY, &opened);
        Ok(Answer { durable: Some(self.store.applied()), ..Answer::new(reply) })
    }

    /// Returns the header of a log. All records in it are on disk when the reply is sent.
    pub(crate) fn log_header(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = body(call)?;
        let extent = self.changelog.extent();
        let header = match asked.id {
            CATALOG => extent.catalog_header(asked.flags),
            id => extent.header(extent.log(id)?, asked.flags),
        };
        let reply = Message::reply(call.message.format(), Status::OK).with(&LLOG_HEADER, &header);
        Ok(Answer { durable: Some(self.store.applied()), ..Answer::new(reply) })
    }

    /// Returns a chunk of a log.
    pub(crate) fn log_block(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = body(call)?;
        let extent = self.changelog.extent();
        let block = match asked.id {
            CATALOG => extent.catalog_block(asked.index).map_err(Failure::from),
            id => extent.block(&self.store, (extent.log(id)?, asked.index), asked.flags),
        };
        let format = call.message.format();
        match block {
            Ok(Block { records, last_index, end, transaction }) => {
                let read = LogRequest { saved_index: last_index, offset: end, ..asked };
                let reply = Message::reply(format, Status::OK).with(&LLOG_BODY, &read);
                let reply = reply.with(&LLOG_RECORDS, &records);
                Ok(Answer { durable: Some(transaction), ..Answer::new(reply) })
            }
            Err(Failure::Refused(errno)) => {
                let reply = Message::reply(format, Status::failed(errno));
                Ok(Answer::new(reply.with(&LLOG_BODY, &asked)))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Checks that a process may read the changelog, and clear it.
    ///
    /// # Errors
    /// EACCES if it is not root, and as [`Mdt::caller`]. Old clients do not say who asks.
    pub(crate) fn check_reader(&self, call: &Call<'_>) -> Result<(), Errno> {
        let Some(body) = call.message.get(&MDT_BODY).ok().flatten() else { return Ok(()) };
        let caller = self.caller(call, Caller::of_body(&body))?;
        let is_root = caller.uid == 0 && caller.gid == 0;
        if is_root && caller.has(Capabilities::SYS_ADMIN) { Ok(()) } else { Err(Errno::EACCES) }
    }
}

/// Returns which log a request is about: of those of the changelog.
fn body(call: &Call<'_>) -> Result<LogRequest, Errno> {
    let body = call.message.require(&LLOG_BODY).map_err(|_| Errno::EPROTO)?;
    match body.context {
        LogContext::CHANGELOG => Ok(body),
        _ => Err(Errno::ENODEV),
    }
}
