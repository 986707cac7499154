//! A management service and an OST for tests beside a real file system.
//!
//! ```text
//! fulmar-targets ADDRESS FSNAME MDT_NID    serves ADDRESS@tcp until standard input ends
//! ```
//!
//! Clients that mount `ADDRESS@tcp:/FSNAME` read from here that the MDT is at MDT_NID, and OST0000
//! here, in memory. What the real OST0000 has is not seen.
//!
//! A line `kept` on standard input prints what the targets keep for clients, as JSON; a line `evict`
//! evicts all clients.
#![forbid(unsafe_code)]
// This program uses real clocks, sockets and arguments.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_mgs::{Start, Target, TargetName};
use fulmar_net::{Buffer, NiOptions, Node, Options, Running, Runtime};
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Memories, MgsTarget, RunningTargets, TargetHost};
use fulmar_socklnd::AcceptMode;
use fulmar_store::{Policy, Store};
use fulmar_testbed::targets::{TargetOptions, evict_all, kept, targets};

/// Serve a management service and an OST in memory, until standard input ends
#[derive(Debug, Parser)]
#[command(name = "fulmar-targets")]
struct Args {
    address: IpAddr,
    /// The file system
    name: String,
    /// Where its MDT is
    mdt: Nid,
    /// Seconds that the holder of a lock has for a callback, and to cancel it when others wait
    #[arg(long)]
    lock_timeout: Option<u64>,
    /// Seconds that LNet waits for answers
    #[arg(long)]
    timeout: Option<u32>,
    /// Do not print each request
    #[arg(long)]
    quiet: bool,
}

/// The most bytes of bulk data under way.
const MOVING_MAX: usize = 128 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let runtime = Runtime::new(Some(2))?;
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::Secure;
    options.nis.push(NiOptions::at(args.address));
    if let Some(seconds) = args.timeout {
        options.config.lnet.globals.transaction_timeout = seconds;
    }
    let node = Node::start(&runtime, options)?;
    let served = serve(&node, &args);
    node.stop();
    served
}

fn serve(node: &Node, args: &Args) -> Result<(), Box<dyn Error>> {
    let clock = fulmar_net::wall_clock();
    let own: Nid = format!("{}@tcp", args.address).parse()?;
    let lock_timeout = args.lock_timeout.map(Duration::from_secs);
    let options = TargetOptions { lock_timeout, prints_requests: !args.quiet };
    let memories = Memories::new(MOVING_MAX, Buffer::new);
    let mgs = logs(args, own, memories.clone())?;
    let ost = format!("{}-OST0000", args.name);
    let machine = targets(clock.into(), mgs, &ost, &memories, options)?;
    let served = RunningTargets::start(node, machine, memories.clone())?;
    let running = served.running();
    println!("serving {} at {own}", args.name);
    for line in std::io::stdin().lines() {
        obey(running, &memories, &line?)?;
    }
    Ok(())
}

/// Does what a line of standard input says.
fn obey(
    running: &Running<TargetHost>,
    memories: &Memories<Buffer>,
    line: &str,
) -> Result<(), Box<dyn Error>> {
    match line {
        "kept" => {
            let kept = running.call(|targets, _| kept(targets, memories))??;
            println!("kept {}", serde_json::to_string(&kept)?);
        }
        "evict" => running.call(evict_all)?,
        _ => return Err(format!("{line:?} is neither kept nor evict").into()),
    }
    Ok(())
}

/// Returns a management service with the configuration of the file system.
fn logs(
    args: &Args,
    own: Nid,
    memories: Arc<Memories<Buffer>>,
) -> Result<Arc<MgsTarget<Buffer>>, Box<dyn Error>> {
    let Args { name, mdt, .. } = args;
    let store = Arc::new(Store::memory(b"fulmar-targets", Policy::default()));
    let target = MgsTarget::open(store, memories, seconds)?;
    target.change(|mgs, now| {
        for (kind, nid) in [(TargetKind::Mdt, *mdt), (TargetKind::Ost, own)] {
            let name = TargetName { file_system: name.into(), kind, index: 0 };
            mgs.add(now, &name, Target { nodes: vec![vec![nid]] })?;
        }
        let instance = fulmar_testbed::targets::INSTANCE;
        let start = Start { kind: TargetKind::Ost, index: 0, instance, nids: vec![own] };
        mgs.table(name).started(start);
        Ok::<(), Errno>(())
    })?;
    Ok(target)
}

/// Returns the seconds since 1970.
fn seconds() -> i64 {
    (fulmar_net::wall_clock() / 1_000_000_000) as i64
}
