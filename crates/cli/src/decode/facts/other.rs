//! Facts about connections, logs, configuration and sequences.

use fulmar_lustre_wire::format::{
    CONFIG_BODY, CONNECT_DATA, FLD_OP, LLOG_BODY, LLOG_HEADER, LLOG_RECORDS, NAME, QUOTA_BODY,
    SEQ_OP, SEQ_RANGE, SEQ_RANGES, TARGET_INFO,
};
use fulmar_lustre_wire::message::{ConnectOpFlags, Message};
use fulmar_text::{bytes, count};
use fulmar_wire::DecodeError;

use super::Facts;
use crate::decode::names::connecting;

impl Facts<'_> {
    pub(super) fn add_connect(
        &mut self,
        request: &Message<'_>,
        reply: Option<&Message<'_>>,
    ) -> Result<(), DecodeError> {
        if let Some(client) = connecting(request) {
            self.add(format_args!("client {client}"));
        }
        if let Some(data) = request.get(&CONNECT_DATA)? {
            self.add(data.version);
        }
        self.add(format_args!("attempt {}", request.body.connection_count));
        let Some(reply) = reply else { return Ok(()) };
        if reply.body.connect_flags != ConnectOpFlags::NONE {
            self.add(reply.body.connect_flags);
        }
        if let Some(data) = reply.get(&CONNECT_DATA)? {
            self.add(format_args!("server {}", data.version));
            if data.instance != 0 {
                self.add(format_args!("instance {}", data.instance));
            }
            if data.grant != 0 {
                self.add(format_args!("grant {}", bytes(data.grant.into())));
            }
        }
        Ok(())
    }

    pub(super) fn add_other(
        &mut self,
        request: &Message<'_>,
        reply: Option<&Message<'_>>,
    ) -> Result<(), DecodeError> {
        if let Some(log) = request.get(&LLOG_BODY)? {
            match (request.get(&NAME)?, self.names.log(log.id)) {
                (Some(name), _) => self.add(name),
                (None, Some(name)) => self.add(name),
                (None, None) => self.add(format_args!("log {:#x}", log.id.object)),
            }
            if log.index > 0 {
                self.add(format_args!("from record {}", log.index));
            }
        }
        if let Some(target) = request.get(&TARGET_INFO)? {
            let names = [target.file_system.to_string(), target.name.to_string()];
            // A new target has no name yet.
            self.add(names.iter().rev().find(|name| !name.is_empty()).cloned().unwrap_or_default());
            self.add(format_args!("index {}", target.index));
            self.add(target.flags);
        }
        if let Some(read) = request.get(&CONFIG_BODY)? {
            self.add(format_args!("{} {:?} from {:#x}", read.name, read.kind, read.offset));
        }
        if let Some(quota) = request.get(&QUOTA_BODY)? {
            self.add(format_args!("{} of {}", quota.id, quota.index));
            self.add(quota.flags);
        }
        if let Some(op) = request.get(&SEQ_OP)? {
            self.add(format_args!("{op:?}"));
        }
        if let Some(op) = request.get(&FLD_OP)? {
            self.add(format_args!("{op:?}"));
        }
        let Some(reply) = reply else { return Ok(()) };
        if let Some(header) = reply.get(&LLOG_HEADER)? {
            // The header counts itself.
            self.add(count(header.count.saturating_sub(1), "record"));
        }
        if let Some(records) = reply.get(&LLOG_RECORDS)? {
            self.add(count(records.records.len() as u64, "record"));
        }
        if let Some(range) = reply.get(&SEQ_RANGE)? {
            self.add(format_args!(
                "[{:#x}, {:#x}) {:?} {}",
                range.start, range.end, range.kind, range.index
            ));
        }
        if let Some(ranges) = reply.get(&SEQ_RANGES)? {
            self.add(count(ranges.ranges.len() as u64, "range"));
        }
        Ok(())
    }
}
