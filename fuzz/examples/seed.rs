//! Fills the corpora from the reference traces: fuzzing starts with messages of real nodes.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::{env, fs, io};

use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::selftest::Message;
use fulmar_lustre_wire::format::Format;
use fulmar_lustre_wire::message::Message as Request;
use fulmar_trace::lnet::{Item, Kind, parse};
use fulmar_trace::rpc::{Calls, Rpc};
use fulmar_trace::{Capture, Connection, Conversation, Direction, decompress};

/// Longer inputs only slow down the fuzzer.
const LEN_MAX: usize = 16 << 10;

fn main() -> io::Result<()> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = env::args_os().nth(1).map_or_else(|| fuzz.join("corpus"), Into::into);
    for entry in fs::read_dir(fuzz.join("../testdata/traces"))? {
        let file = fs::read(entry?.path())?;
        if file.len() <= LEN_MAX {
            add_seed(&corpus, "pcap_read", &file)?;
        }
        let file = decompress(&file).expect("the traces are complete");
        let capture = Capture::read(&file).expect("the traces are captures");
        let mut items = vec![];
        for connection in Conversation::of(&capture).connections {
            items.extend(parse(&connection));
            add_streams(&corpus, &connection)?;
        }
        for item in &items {
            add_item(&corpus, item)?;
        }
        for rpc in &Calls::of(&items).rpcs {
            add_rpc(&corpus, rpc)?;
        }
    }
    for (target, text) in TEXTS {
        add_seed(&corpus, target, text.as_bytes())?;
    }
    Ok(())
}

fn add_item(corpus: &Path, item: &Item) -> io::Result<()> {
    match &item.kind {
        Kind::ConnRequest(_) => add_seed(corpus, "decode_connreq", &item.bytes),
        Kind::Hello(_) => add_seed(corpus, "decode_hello", &item.bytes),
        Kind::Frame { lnet, .. } => {
            let (frame, header) = item.bytes.split_at(24.min(item.bytes.len()));
            add_seed(corpus, "decode_frame_header", frame)?;
            add_seed(corpus, "decode_lnet_header", header)?;
            match lnet {
                Some((_, payload)) if PingInfo::decode(payload).is_ok() => {
                    add_seed(corpus, "decode_ping_info", payload)
                }
                Some((_, payload)) if Message::decode(payload).is_ok() => {
                    add_seed(corpus, "decode_selftest", payload)
                }
                Some((_, payload)) if Request::decode(payload).is_ok() => {
                    let raw = [&[fulmar_fuzz::rpc_server::RAW], payload.as_slice()].concat();
                    add_seed(corpus, "rpc_server", &raw)
                }
                _ => Ok(()),
            }
        }
        Kind::Incomplete | Kind::Malformed(_) => Ok(()),
    }
}

/// Adds the messages of an RPC, and each buffer with the format and its place.
fn add_rpc(corpus: &Path, rpc: &Rpc<'_>) -> io::Result<()> {
    let format = rpc.request.message.format();
    let number = Format::ALL.iter().position(|other| *other == format).unwrap_or_default() as u8;
    let add_buffer = |place: usize, bytes: &[u8]| match bytes.len() {
        1..=LEN_MAX => {
            add_seed(corpus, "decode_lustre_buffer", &[&[number, place as u8], bytes].concat())
        }
        _ => Ok(()),
    };
    for packet in [&rpc.request].into_iter().chain(rpc.reply()) {
        if packet.bytes.len() <= LEN_MAX {
            add_seed(corpus, "decode_lustre_message", packet.bytes)?;
        }
        for (place, (_, bytes)) in packet.message.buffers().enumerate() {
            add_buffer(place, bytes)?;
        }
    }
    rpc.bulk.iter().filter(|part| format.bulk(part.bytes).is_some()).try_for_each(|part| {
        // The first place is that of another buffer, which is decoded too.
        add_buffer(0, part.bytes)
    })
}

/// Adds the bytes of each side as seeds for the machine on the other side.
fn add_streams(corpus: &Path, connection: &Connection<'_>) -> io::Result<()> {
    for direction in [Direction::FromActive, Direction::FromPassive] {
        let said = connection.chunks.iter().filter(|chunk| chunk.direction == direction);
        let bytes: Vec<u8> = said.flat_map(|chunk| chunk.bytes).copied().take(LEN_MAX).collect();
        let host = match connection.passive.ip() {
            std::net::IpAddr::V4(ip) => ip.octets()[3],
            std::net::IpAddr::V6(_) => continue,
        };
        let role = match direction {
            Direction::FromActive => 0,
            Direction::FromPassive => host.wrapping_sub(1) << 1 | 1,
        };
        add_seed(corpus, "socklnd_stream", &[&[0, role], bytes.as_slice()].concat())?;
    }
    Ok(())
}

fn add_seed(corpus: &Path, target: &str, bytes: &[u8]) -> io::Result<()> {
    let directory = corpus.join(target);
    fs::create_dir_all(&directory)?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    fs::write(directory.join(format!("seed-{:016x}", hasher.finish())), bytes)
}

const TEXTS: &[(&str, &str)] = &[
    ("nid_text", "10.0.0.1@tcp1"),
    ("nid_text", "2001:db8::1@tcp"),
    ("nid_text", "12345-0@lo"),
    ("nid_text", "U1500-10.1.0.3@o2ib2"),
    ("nid_text", "0x1f@gni"),
    ("nid_range", "10.0.[1-5,7-9/2].*@tcp 192.168.0.0/16@tcp1"),
    ("nid_range", "*@o2ib[0-3] [1-20]@gni"),
    ("nid_range", "2001:db8::/32@tcp"),
    ("module_strings", "tcp0(eth0[0,1],eth1),o2ib(ib0)"),
    ("module_strings", "tcp(eth2) 134.32.1.[4-10/2]; tcp *.*.*.*"),
    ("module_strings", "o2ib 1:10 10.0.0.[1-4]@tcp:2; tcp1 192.168.1.1@tcp"),
    ("config_yaml", "options lnet networks=\"tcp(eth0)\" accept=all\n"),
    ("config_yaml", "node:\n  roles: [lnet]\n  accept: all\n  networks: tcp(lo)\n"),
    (
        "config_yaml",
        "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 10.0.0.1@tcp\n        \
         interfaces:\n          0: eth0\n        tunables:\n          peer_credits: 8\n\
         peer:\n  - primary nid: 10.0.0.2@tcp\n    Multi-Rail: True\n    peer ni:\n      \
         - nid: 10.0.0.2@tcp\nglobal:\n  discovery: 1\n  retry_count: 2\n",
    ),
];
