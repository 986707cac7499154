//! Measures two nodes over loopback: `loopback serve ADDRESS`, then `loopback WORK ADDRESS PEER
//! [SECONDS]` with WORK one of `bulk`, `pingpong`, `many`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fulmar_lnet::{Event, EventKind, Md, MdOptions, Me, MePosition, Put};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::{NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

const PORTAL: u32 = 9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = Runtime::new(None)?;
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = 9987;
    options.nis.push(NiOptions::at(args.get(2).ok_or("an address")?.parse()?));
    let node = Node::start(&runtime, options)?;
    if args[1] == "serve" {
        serve(&node);
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    let peer = ProcessId::lustre(Nid::of_ip(Net::TCP, args.get(3).ok_or("a peer")?.parse()?));
    let seconds: f64 = args.get(4).map_or(Ok(3.0), |text| text.parse())?;
    let (len, flight) = match args[1] {
        "bulk" => (1 << 20, 8),
        "pingpong" => (8, 1),
        _ => (8, 64),
    };
    node.discover(peer.nid, true).map_err(|errno| format!("discover: {errno}"))?;
    std::thread::sleep(Duration::from_millis(200));
    run(&node, peer, len, flight, seconds);
    node.stop();
    Ok(())
}

fn serve(node: &Node) {
    let buffer = node.allocate(1 << 20);
    let me = Me {
        match_id: ProcessId::ANY,
        match_bits: 0,
        ignore_bits: u64::MAX,
        unlink: false,
        position: MePosition::After,
    };
    let me = node.me_attach(PORTAL, me).unwrap();
    let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
    let md = Md {
        buffer: buffer.id(),
        offset: 0,
        len: 1 << 20,
        threshold: None,
        options,
        max_size: 0,
        auto_unlink: false,
        user: 0,
    };
    node.md_attach(me, md, Arc::new(|_: &Node, _: &Event| ())).unwrap();
}

fn run(node: &Node, peer: ProcessId, len: usize, flight: u64, seconds: f64) {
    let acks = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicU64::new(0));
    let before = (node.io_counters(), cpu());
    let started = Instant::now();
    for _ in 0..flight {
        let buffer = node.allocate(len);
        let md = Md {
            buffer: buffer.id(),
            offset: 0,
            len: len as u64,
            threshold: None,
            options: MdOptions::default(),
            max_size: 0,
            auto_unlink: false,
            user: 0,
        };
        let (acks, stop) = (acks.clone(), stop.clone());
        let handler = move |node: &Node, event: &Event| {
            if event.kind == EventKind::Ack {
                acks.fetch_add(1, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) == 0 {
                    node.put(message(event.md, peer)).unwrap();
                }
            }
        };
        let md = node.md_bind(md, Arc::new(handler)).unwrap();
        node.put(message(md, peer)).unwrap();
    }
    std::thread::sleep(Duration::from_secs_f64(seconds));
    stop.store(1, Ordering::Relaxed);
    let (count, elapsed) = (acks.load(Ordering::Relaxed) as f64, started.elapsed().as_secs_f64());
    let (io, io_before) = (node.io_counters(), before.0);
    println!(
        "{:.0}/s  {:.2} us each  {:.2} GB/s  cpu {:.0}% ({:.3} s/GB)  {:.2} reads {:.2} empty {:.2} writes {:.2} short each",
        count / elapsed,
        elapsed / count * 1e6,
        count * len as f64 / elapsed / 1e9,
        (cpu() - before.1) / elapsed * 100.0,
        (cpu() - before.1) / (count * len as f64 / 1e9),
        (io.reads - io_before.reads) as f64 / count,
        (io.reads_empty - io_before.reads_empty) as f64 / count,
        (io.writes - io_before.writes) as f64 / count,
        (io.writes_short - io_before.writes_short) as f64 / count,
    );
}

fn message(md: fulmar_lnet::MdId, target: ProcessId) -> Put {
    Put {
        md,
        ack: true,
        source: None,
        target,
        portal: PORTAL,
        match_bits: 0,
        offset: 0,
        header_data: 0,
    }
}

/// Seconds of processor time of this process.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
