//! Every buffer has a type, and its value encodes to the same bytes. So do bulk data, logs and
//! batches.

use std::collections::BTreeMap;

use fulmar_lustre_wire::directory::DirectoryPage;
use fulmar_lustre_wire::format::{
    BATCH, BATCH_GETATTR, BATCH_REPLY, BATCH_REQUESTS, Buffer, DIRECTORY_PAGES, ENQUEUE_GETXATTR,
    INDEX_PAGES, LLOG_RECORDS, MDT_BODY, NID_TABLE, OST_BODY, UNKNOWN,
};
use fulmar_lustre_wire::index::IndexPage;
use fulmar_lustre_wire::llog::RecordBody;
use fulmar_lustre_wire::llog::config::Config;
use fulmar_lustre_wire::mdt::BatchRequest;
use fulmar_lustre_wire::message::{Container, Kind, Message};
use fulmar_lustre_wire::mgs::NodemapEntry;
use fulmar_lustre_wire::{Content, List};
use fulmar_trace::rpc::{Packet, Rpc};
use fulmar_wire::Order;

use super::{NAMES, with_calls};

#[test]
fn every_message_encodes_to_the_same_bytes() {
    let mut wrong = BTreeMap::<String, usize>::new();
    for name in NAMES {
        with_calls(name, |calls| {
            for rpc in &calls.rpcs {
                let all = [&rpc.request].into_iter().chain(&rpc.resends).chain(&rpc.early);
                for problem in all.chain(&rpc.replies).flat_map(problems) {
                    *wrong.entry(problem).or_default() += 1;
                }
            }
        });
    }
    assert_eq!(wrong, BTreeMap::new());
}

/// Returns what is unknown in a message, or changes when it is decoded and encoded.
fn problems(packet: &Packet<'_>) -> Vec<String> {
    let message = &packet.message;
    let format = message.format();
    let kind = message.body.kind;
    let mut problems = Vec::new();
    let mut add = |what: String| problems.push(format!("{format} {kind:?}: {what}"));
    if *format == UNKNOWN {
        add("has no format".to_owned());
    }
    let mut again = Vec::new();
    message.encode(&mut again);
    // After a buffer that was shortened, a server leaves bytes of the longer one.
    let is_shortened = kind == Kind::REPLY && *format == ENQUEUE_GETXATTR;
    if again != packet.bytes && !(is_shortened && again.len() == packet.bytes.len()) {
        add("encodes to other bytes".to_owned());
    }
    assert_eq!(Message::decode(&again).map(|m| m.answering(format)).as_ref(), Ok(message));
    if !has_known_bits(message) {
        add("has bits without a name".to_owned());
    }
    for (place, (field, bytes)) in message.buffers().enumerate() {
        match field {
            _ if bytes.is_empty() => {}
            None => add(format!("buffer {place} is unknown")),
            Some(field) => {
                if let Some(problem) = changes(field, bytes, message.order) {
                    add(problem);
                }
            }
        }
    }
    problems
}

/// Returns whether each bit that says which attributes are valid, and each flag of an object, has a
/// name.
fn has_known_bits(message: &Message<'_>) -> bool {
    let file = message.get(&MDT_BODY).unwrap().is_none_or(|body| body.valid.unknown().0 == 0);
    let object = message
        .get(&OST_BODY)
        .unwrap()
        .is_none_or(|object| object.valid.unknown().0 == 0 && object.flags.flags.unknown().0 == 0);
    file && object
}

/// Returns how a buffer changes when it is decoded and encoded.
fn changes(field: &dyn Buffer, bytes: &[u8], order: Order) -> Option<String> {
    match field.recode(bytes, order) {
        Ok(again) if again == bytes => None,
        Ok(again) => {
            Some(format!("{} of {} bytes becomes {}", field.name(), bytes.len(), again.len()))
        }
        Err(error) => Some(format!("{}: {error}", field.name())),
    }
}

/// What is in bulk data, logs and batches.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    directory_pages: usize,
    names: usize,
    index_pages: usize,
    nodemap_records: usize,
    nid_tables: usize,
    log_records: usize,
    sub_requests: usize,
    sub_replies: usize,
    /// Bytes of files.
    data: usize,
}

#[test]
fn the_content_of_bulk_data_logs_and_batches_is_known() {
    let mut found = Contents::default();
    for name in NAMES {
        with_calls(name, |calls| calls.rpcs.iter().for_each(|rpc| found.add(rpc)));
    }
    let expected = Contents {
        directory_pages: 17,
        names: 346,
        index_pages: 1,
        nodemap_records: 2,
        nid_tables: 9,
        log_records: 397,
        sub_requests: 311,
        sub_replies: 165,
        data: 9_584_642,
    };
    assert_eq!(found, expected);
}

impl Contents {
    fn add(&mut self, rpc: &Rpc<'_>) {
        let request = &rpc.request.message;
        let order = request.order;
        for part in rpc.bulk.iter().filter(|part| !part.bytes.is_empty()) {
            match request.format().bulk(part.bytes) {
                None => self.data += part.bytes.len(),
                Some(field) => {
                    assert_eq!(changes(field, part.bytes, order), None);
                    self.add_bulk(field.name(), part.bytes, order);
                }
            }
        }
        if let Some(batch) = request.get(&BATCH).unwrap().filter(|batch| batch.inline_len > 0) {
            self.add_batch(&BatchRequest::decode(&batch.data.0, order).unwrap());
        }
        let Some(reply) = rpc.reply().map(|packet| &packet.message) else { return };
        if let Some(batch) = reply.get(&BATCH_REPLY).unwrap() {
            let parts = Container::decode_batch(&batch.messages.0, batch.count).unwrap();
            parts.iter().for_each(|part| check_part(part, BATCH_GETATTR.reply));
            self.sub_replies += parts.len();
        }
        if let Some(block) = reply.get(&LLOG_RECORDS).unwrap() {
            self.log_records += block.records.len();
            for record in &block.records {
                let typed = record.typed(block.order);
                let is_known = match &typed {
                    RecordBody::Config(config) => !matches!(config, Config::Other(_)),
                    typed => !matches!(typed, RecordBody::Other(_)),
                };
                assert!(is_known, "{record:?}");
            }
        }
    }

    fn add_bulk(&mut self, name: &str, bytes: &[u8], order: Order) {
        if name == DIRECTORY_PAGES.name() {
            let List(pages) = List::<DirectoryPage>::decode(bytes, order).unwrap();
            self.directory_pages += pages.len();
            self.names += pages.iter().map(|page| page.entries.len()).sum::<usize>();
        } else if name == INDEX_PAGES.name() {
            let List(pages) = List::<IndexPage>::decode(bytes, order).unwrap();
            self.index_pages += pages.len();
            for page in pages {
                self.nodemap_records += page.entries::<NodemapEntry>(order).unwrap().len();
            }
        } else if name == NID_TABLE.name() {
            self.nid_tables += 1;
        } else if name == BATCH_REQUESTS.name() {
            for buffer in bytes.chunks(4096) {
                self.add_batch(&BatchRequest::decode(buffer, order).unwrap());
            }
        }
    }

    fn add_batch(&mut self, batch: &BatchRequest) {
        let parts = Container::decode_batch(&batch.messages.0, batch.count).unwrap();
        parts.iter().for_each(|part| check_part(part, BATCH_GETATTR.request));
        self.sub_requests += parts.len();
    }
}

/// Checks the buffers of a part of a batch, which has no body.
fn check_part(part: &Container<'_>, fields: &[&dyn Buffer]) {
    assert!(part.buffers.len() <= fields.len());
    for (field, bytes) in fields.iter().zip(&part.buffers).filter(|(_, bytes)| !bytes.is_empty()) {
        assert_eq!(changes(*field, bytes, part.order), None);
    }
}
