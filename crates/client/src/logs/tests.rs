//! Reading logs, message by message.

use fulmar_base::Rng;
use fulmar_lustre_wire::format::Format;
use fulmar_lustre_wire::llog::{LogId, RecordKind};
use fulmar_lustre_wire::{Bytes, Content, Opcode, Status};
use fulmar_trace::rpc::Rpc;
use fulmar_wire::Order;

use super::*;
use crate::Configuration;
use crate::recorded::{LFS_DF, MOUNT, with_rpcs};

/// Reads a log as it was read in a trace: the requests are the same, and so are the replies.
fn recorded(trace: &[u8], name: &str) -> Vec<Config> {
    with_rpcs(trace, |rpcs| {
        let is_of_log = |rpc: &Rpc<'_>| {
            let opened = rpc.request.message.require(&NAME);
            opened.is_ok_and(|opened| opened.as_bytes() == name.as_bytes())
        };
        let first = rpcs.iter().position(is_of_log).expect("it was opened");
        let mut recorded = rpcs[first..].iter();
        let mut reader = LogReader::new(name).unwrap();
        while let Some((request, room)) = reader.request() {
            let rpc = recorded.next().unwrap();
            let known = &rpc.request.message;
            assert_eq!(request.body.opcode, known.body.opcode);
            assert_eq!(request.get(&LLOG_BODY), known.get(&LLOG_BODY));
            assert_eq!(request.get(&NAME), known.get(&NAME));
            let reply = rpc.reply().unwrap();
            assert!(reply.bytes.len() <= room, "{} bytes in {room}", reply.bytes.len());
            let message = Box::new(reply.message.clone());
            let errno = message.body.status.errno();
            reader.take(errno.map_or(Ok(message), Err)).unwrap();
        }
        reader.configs
    })
}

#[test]
fn a_log_is_read_as_a_real_client_reads_it() {
    let records = recorded(MOUNT, "lv-client");
    assert_eq!(records.len(), 29);
    let lv = Configuration::of("lv", &records, &recorded(MOUNT, "params"));
    let found: Vec<String> = lv
        .targets()
        .map(|target| {
            format!("{} {} {} {}", target.place(), target.uuid, target.device, target.nids[0])
        })
        .collect();
    let expected = [
        "MDT:0 lv-MDT0000_UUID lv-MDT0000-mdc 10.99.0.2@tcp",
        "OST:0 lv-OST0000_UUID lv-OST0000-osc 10.99.0.2@tcp",
        "OST:1 lv-OST0001_UUID lv-OST0001-osc 10.99.0.2@tcp",
    ];
    assert_eq!(found, expected);
    assert!(lv.targets().all(|target| target.is_active && target.nids.len() == 1));
    // A file system of the same form.
    let other = recorded(LFS_DF, "lv-client");
    assert_eq!(Configuration::of("lv", &other, &recorded(LFS_DF, "params")), lv);
}

#[test]
fn a_log_that_does_not_exist_is_empty() {
    assert_eq!(recorded(MOUNT, "lv-sptlrpc"), []);
    let mut reader = LogReader::new("lv-client").unwrap();
    let error = reader.take(Err(Errno::EACCES)).unwrap_err();
    assert_eq!(error.to_string(), "reading the log lv-client: Permission denied");
}

/// A reader that has opened a log with a header, and wants its first block.
fn opened(last_index: u32, live: u8) -> LogReader {
    let mut reader = LogReader::new("lv-client").unwrap();
    reader.take(Ok(body(&LLOG_CREATE, 0))).unwrap();
    assert_eq!(reader.request().unwrap().0.body.opcode, Opcode::LLOG_READ_HEADER);
    let mut bitmap = vec![0; 8096];
    bitmap[0] = live;
    let header = LogHeader {
        order: Order::Little,
        index: 0,
        id: 0,
        time: 0,
        count: 1,
        bitmap_offset: 88,
        record_size: 0,
        flags: LogFlags::PLAIN,
        catalog_index: 0,
        uuid: Default::default(),
        reserved: 0,
        bitmap: Bytes(bitmap),
        last_index,
    };
    let reply = Message::reply(&LLOG_READ_HEADER, Status::OK).with(&LLOG_HEADER, &header);
    reader.take(Ok(Box::new(reply))).unwrap();
    reader
}

fn body(format: &'static Format, offset: u64) -> Box<Message<'static>> {
    let body = LogRequest { id: LogId::default(), offset, ..LogRequest::default() };
    Box::new(Message::reply(format, Status::OK).with(&LLOG_BODY, &body))
}

/// A block with records of these indices, each of which names a timeout of so many seconds.
fn block(indices: &[u32]) -> Box<Message<'static>> {
    let record = |&index: &u32| {
        let config = Config::SetTimeout { device: String::new(), seconds: index };
        let body = Bytes(config.record(Order::Little).to_bytes());
        LogRecord { index, kind: RecordKind::CONFIG, id: 0, body }
    };
    let records = indices.iter().map(record).collect();
    let block = LogBlock { order: Order::Little, records, rest: Bytes::default() };
    Box::new(body(&LLOG_NEXT_BLOCK, 9000).with(&LLOG_RECORDS, &block))
}

fn wanted(reader: &LogReader) -> (u32, u32, u64) {
    let (request, _) = reader.request().expect("there is more");
    let body = request.require(&LLOG_BODY).unwrap();
    (body.index, body.saved_index, body.offset)
}

fn seconds(reader: &LogReader) -> Vec<u32> {
    let seconds = |config: &Config| match config {
        Config::SetTimeout { seconds, .. } => *seconds,
        other => panic!("{other:?}"),
    };
    reader.configs.iter().map(seconds).collect()
}

#[test]
fn blocks_are_read_until_the_last_record() {
    let mut reader = opened(5, 0b11_0111);
    assert_eq!(wanted(&reader), (1, 0, 8192));
    reader.take(Ok(block(&[1, 2, 3]))).unwrap();
    assert_eq!(wanted(&reader), (4, 3, 9000));
    // A block may begin with earlier records. Record 3 is not live.
    reader.take(Ok(block(&[3, 4, 5]))).unwrap();
    assert!(reader.request().is_none());
    assert_eq!(seconds(&reader), [1, 2, 4, 5]);
}

#[test]
fn a_log_that_became_shorter_ends() {
    for errno in [Errno::EBADR, Errno::EIO] {
        let mut reader = opened(5, 0xff);
        reader.take(Ok(block(&[1]))).unwrap();
        reader.take(Err(errno)).unwrap();
        assert!(reader.request().is_none());
        assert_eq!(seconds(&reader), [1]);
    }
    assert!(opened(5, 0xff).take(Err(Errno::ESTALE)).is_err());
}

#[test]
fn a_block_without_the_wanted_record_is_an_error() {
    let mut reader = opened(5, 0xff);
    reader.take(Ok(block(&[1, 2]))).unwrap();
    let error = reader.take(Ok(block(&[1, 2]))).unwrap_err();
    assert_eq!(error.to_string(), "the log lv-client is not valid: record 3 of 5 is missing");
}

#[test]
fn a_log_has_a_bounded_number_of_blocks() {
    let mut reader = opened(u32::MAX, 0);
    for index in 1..BLOCKS_MAX {
        reader.take(Ok(block(&[index]))).unwrap();
    }
    assert!(reader.take(Ok(block(&[BLOCKS_MAX]))).is_err());
}

#[test]
fn damaged_replies_are_errors() {
    let mut reader = LogReader::new("lv-client").unwrap();
    let empty = Box::new(Message::reply(&LLOG_CREATE, Status::OK));
    assert!(matches!(reader.take(Ok(empty)), Err(Error::Invalid { .. })));
    let mut reader = opened(5, 0xff);
    assert!(matches!(reader.take(Ok(body(&LLOG_NEXT_BLOCK, 0))), Err(Error::Invalid { .. })));
    assert!(LogReader::new("a\0b").is_err());
}

/// Replies with some bytes changed, as no server sends them.
#[test]
fn no_reply_makes_the_reader_panic() {
    with_rpcs(LFS_DF, |rpcs| {
        let is_of_logs = |rpc: &&Rpc<'_>| (501..509).contains(&rpc.request.message.body.opcode.0);
        let recorded: Vec<&Rpc<'_>> = rpcs.iter().filter(is_of_logs).collect();
        let mut damaged = 0;
        for seed in 0..2000 {
            let mut random = Rng::new(seed);
            let mut reader = LogReader::new("lv-client").unwrap();
            for rpc in &recorded {
                let mut bytes = rpc.reply().unwrap().bytes.to_vec();
                for _ in 0..random.below(4) {
                    let place = random.below(bytes.len() as u64) as usize;
                    bytes[place] = random.u64() as u8;
                }
                let Ok(message) = Message::decode(&bytes) else { continue };
                let message = message.answering(rpc.request.message.format());
                if reader.take(Ok(Box::new(message))).is_err() {
                    damaged += 1;
                    break;
                }
            }
            Configuration::of("lv", &reader.configs, &reader.configs);
        }
        assert!(damaged > 100, "{damaged}");
    });
}
