//! How many requests of each format there are, and how they are answered.
//! Spec: ptlrpc-ldlm-mgs §39.1, mdt-ost §26.1.

use std::collections::BTreeMap;

use fulmar_lustre_wire::message::{EARLY_LEN, HeaderFlags, Kind};
use fulmar_trace::rpc::Calls;

use super::{NAMES, with_calls};

#[rustfmt::skip]
const REQUESTS: [(&str, [usize; 9]); 55] = [
    ("FLD_QUERY", [0, 0, 1, 0, 0, 0, 0, 0, 0]),
    ("FLD_READ", [0, 0, 0, 0, 0, 0, 1, 0, 0]),
    ("LDLM_BL_CALLBACK", [0, 0, 4, 169, 18, 3, 5, 0, 2]),
    ("LDLM_CANCEL", [3, 3, 7, 167, 22, 3, 8, 0, 5]),
    ("LDLM_CONVERT", [0, 0, 0, 3, 0, 0, 0, 0, 0]),
    ("LDLM_CP_CALLBACK", [0, 0, 0, 0, 1, 0, 0, 0, 0]),
    ("LDLM_CP_CALLBACK EXTENT", [0, 0, 1, 0, 5, 1, 0, 0, 2]),
    ("LDLM_ENQUEUE", [4, 4, 0, 0, 0, 10, 8, 0, 8]),
    ("LDLM_ENQUEUE EXTENT", [0, 9, 159, 9, 12, 51, 1, 0, 7]),
    ("LDLM_ENQUEUE FLOCK", [0, 0, 0, 0, 8, 0, 0, 0, 0]),
    ("LDLM_ENQUEUE GETATTR", [1, 10, 38, 37, 20, 83, 5, 0, 0]),
    ("LDLM_ENQUEUE GETXATTR", [1, 1, 2, 3, 2, 0, 1, 0, 0]),
    ("LDLM_ENQUEUE LAYOUT", [0, 0, 1, 6, 1, 1, 1, 0, 0]),
    ("LDLM_ENQUEUE OPEN", [0, 0, 162, 32, 11, 36, 4, 0, 0]),
    ("LDLM_GL_CALLBACK EXTENT", [0, 0, 0, 0, 4, 0, 0, 0, 4]),
    ("LLOG_CREATE", [3, 3, 0, 0, 0, 6, 7, 2, 6]),
    ("LLOG_NEXT_BLOCK", [2, 2, 0, 0, 0, 0, 6, 1, 4]),
    ("LLOG_READ_HEADER", [2, 2, 0, 0, 0, 4, 4, 2, 4]),
    ("MDS_BATCH", [0, 0, 9, 0, 0, 8, 0, 0, 0]),
    ("MDS_CLOSE", [0, 0, 162, 29, 11, 36, 3, 0, 0]),
    ("MDS_CONNECT", [1, 13, 0, 0, 0, 4, 1, 1, 0]),
    ("MDS_DISCONNECT", [1, 1, 0, 0, 0, 0, 1, 1, 0]),
    ("MDS_GETATTR", [1, 1, 1, 1, 0, 0, 0, 0, 0]),
    ("MDS_GETATTR_NAME", [0, 0, 0, 2, 0, 0, 1, 0, 0]),
    ("MDS_GET_INFO fid2path", [0, 0, 1, 0, 0, 0, 0, 0, 0]),
    ("MDS_GET_ROOT", [1, 1, 0, 0, 0, 0, 0, 0, 0]),
    ("MDS_READPAGE", [1, 1, 7, 1, 2, 2, 0, 0, 0]),
    ("MDS_REINT CREATE", [0, 0, 5, 1, 0, 0, 0, 0, 0]),
    ("MDS_REINT LINK", [0, 0, 1, 0, 0, 0, 0, 0, 0]),
    ("MDS_REINT RENAME", [0, 0, 3, 0, 1, 0, 0, 0, 0]),
    ("MDS_REINT SETATTR", [0, 0, 3, 7, 0, 0, 1, 0, 0]),
    ("MDS_REINT SETXATTR", [0, 0, 1, 0, 1, 0, 0, 0, 0]),
    ("MDS_REINT SYMLINK", [0, 0, 1, 0, 0, 0, 0, 0, 0]),
    ("MDS_REINT UNLINK", [0, 0, 160, 8, 2, 32, 1, 0, 0]),
    ("MDS_STATFS", [2, 2, 2, 1, 0, 0, 1, 1, 0]),
    ("MDS_SYNC", [0, 0, 0, 5, 0, 0, 1, 0, 0]),
    ("MGS_CONFIG_READ", [1, 1, 0, 0, 0, 4, 2, 0, 2]),
    ("MGS_CONNECT", [1, 1, 0, 0, 0, 2, 1, 1, 2]),
    ("MGS_DISCONNECT", [1, 1, 0, 0, 0, 0, 1, 1, 1]),
    ("MGS_TARGET_REG", [0, 0, 0, 0, 0, 0, 2, 0, 0]),
    ("OBD_PING", [0, 12, 0, 0, 0, 12, 3, 0, 0]),
    ("OST_CONNECT", [2, 2, 0, 0, 0, 2, 2, 2, 2]),
    ("OST_CREATE", [0, 0, 0, 0, 0, 0, 2, 0, 0]),
    ("OST_DESTROY", [0, 0, 0, 0, 0, 0, 1, 0, 0]),
    ("OST_DISCONNECT", [2, 2, 0, 0, 0, 2, 0, 2, 1]),
    ("OST_FALLOCATE", [0, 0, 0, 2, 0, 0, 0, 0, 0]),
    ("OST_GET_INFO last_fid", [0, 0, 0, 0, 0, 0, 1, 0, 0]),
    ("OST_PUNCH", [0, 0, 0, 8, 0, 0, 1, 0, 2]),
    ("OST_READ", [0, 0, 0, 7, 5, 0, 0, 0, 4]),
    ("OST_SEEK", [0, 0, 0, 2, 0, 0, 0, 0, 0]),
    ("OST_SETATTR", [0, 0, 3, 2, 0, 0, 0, 0, 0]),
    ("OST_STATFS", [0, 0, 0, 2, 0, 0, 6, 2, 0]),
    ("OST_SYNC", [0, 0, 0, 12, 0, 22, 1, 0, 0]),
    ("OST_WRITE", [0, 0, 1, 12, 3, 23, 1, 0, 1]),
    ("SEQ_QUERY", [0, 0, 1, 0, 2, 1, 2, 0, 0]),
];

/// What belongs to the requests of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answers {
    /// Transmissions of requests.
    requests: usize,
    replies: usize,
    early: usize,
    errors: usize,
    with_ack: usize,
    bulk_puts: usize,
    bulk_gets: usize,
}

/// A row for each of [`NAMES`], with the fields in their order.
const ANSWERS: [[usize; 7]; 9] = [
    [30, 30, 0, 0, 0, 2, 0],
    [72, 72, 0, 12, 0, 2, 0],
    [736, 736, 0, 0, 325, 7, 4],
    [528, 528, 0, 0, 23, 9, 11],
    [131, 131, 0, 0, 6, 2, 1],
    [350, 350, 9, 8, 67, 6, 3],
    [87, 87, 0, 0, 3, 2, 1],
    [16, 16, 0, 0, 0, 0, 0],
    [57, 57, 0, 0, 0, 4, 1],
];

#[test]
fn requests_of_each_format_are_counted() {
    let mut found = BTreeMap::<String, [usize; 9]>::new();
    for (column, name) in NAMES.iter().enumerate() {
        with_calls(name, |calls| {
            for rpc in &calls.rpcs {
                let format = rpc.request.message.format().to_string();
                found.entry(format).or_default()[column] += 1;
            }
        });
    }
    let expected = REQUESTS.map(|(name, row)| (name.to_owned(), row));
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn every_request_has_one_reply() {
    for (name, row) in NAMES.into_iter().zip(ANSWERS) {
        let [requests, replies, early, errors, with_ack, bulk_puts, bulk_gets] = row;
        let expected = Answers { requests, replies, early, errors, with_ack, bulk_puts, bulk_gets };
        assert_eq!(with_calls(name, |calls| answers(&calls)), expected, "{name}");
    }
}

fn answers(calls: &Calls<'_>) -> Answers {
    assert_eq!(calls.strays, []);
    let mut found = Answers::default();
    for rpc in &calls.rpcs {
        assert_eq!(rpc.replies.len(), 1 + rpc.resends.len(), "{rpc:?}");
        found.requests += 1 + rpc.resends.len();
        found.replies += rpc.replies.len();
        found.early += rpc.early.len();
        let has_offset = rpc.request.message.head.flags.has(HeaderFlags::AT_SUPPORT);
        for reply in &rpc.replies {
            assert_eq!(reply.offset as usize, if has_offset { EARLY_LEN } else { 0 }, "{rpc:?}");
            found.errors += usize::from(reply.message.body.kind == Kind::ERROR);
            found.with_ack += usize::from(reply.wants_ack);
        }
        found.bulk_puts += rpc.bulk.iter().filter(|part| part.from_server).count();
        found.bulk_gets += rpc.bulk.iter().filter(|part| !part.from_server).count();
    }
    found
}
