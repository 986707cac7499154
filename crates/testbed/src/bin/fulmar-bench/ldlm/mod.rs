//! The family `ldlm`: the locks of a client, alone and with a server.

mod client;
mod server;

use std::io::{copy, sink, stdin};

use fulmar_base::Time;
use fulmar_ldlm::client::{Answer, LockSpec, Namespace, Output, Settings, Start};
use fulmar_lustre_wire::ldlm::{
    InodeBits, InodebitsPolicy, LockMode, LockReply, LockType, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::{Fid, Handle, Status};

use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::stats::{Series, interleave};
use crate::{Effort, Failure, iperf3, ping_pong};

pub(crate) use client::run as run_client;
pub(crate) use server::run as run_server;

/// How many enqueues are under way.
const CONCURRENCY: u32 = 64;

/// Extent locks of different objects, each enqueued and cancelled, beside a plain TCP ping-pong.
pub(crate) fn latency(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let (ours, bare) =
        interleave(effort.repeats, || locks(effort), || ping_pong::run(effort.duration))?;
    let (ours, bare) = (Series::new(ours), Series::new(bare));
    Ok(vec![
        Figure::median("ldlm.enqueue_c64.rate", &ours, "1/s").beside_median(&bare),
        Figure::ratio("ldlm.enqueue_c64.vs_tcp_pingpong", &ours, &bare).held_to(Bar::AtLeast(2.5)),
    ])
}

/// Returns how many locks per second were enqueued and cancelled, from one process to another.
fn locks(effort: Effort) -> Result<f64, Failure> {
    let port = iperf3::free_port()?.to_string();
    let mut server = Worker::start(&["ldlm-server", &port])?;
    server.line()?;
    let (concurrency, seconds) = (CONCURRENCY.to_string(), effort.duration.as_secs_f64());
    let arguments = ["ldlm-client", &port, &concurrency, &seconds.to_string()];
    let mut client = Worker::start(&arguments)?;
    let rate = client.number()?;
    client.finish()?;
    server.finish()?;
    Ok(rate)
}

/// The memory of a client that has cached a lock of each of a million files.
pub(crate) fn million(_effort: Effort) -> Result<Vec<Figure>, Failure> {
    let mut worker = Worker::start(&["ldlm-locks", "1000000"])?;
    worker.line()?;
    let resident = worker.resident_mib()?;
    worker.finish()?;
    let figure = Figure::plain("ldlm.million_locks.rss_mib", resident, "MiB");
    Ok(vec![figure.held_to(Bar::AtMost(400.0))])
}

/// Caches locks of files; prints a line when they are cached.
pub(crate) fn hold_locks(files: u32) -> Result<(), Failure> {
    let unused_max = files as usize;
    let mut namespace = Namespace::new(Settings { unused_max, ..Settings::new(1) });
    (0..files).try_for_each(|file| cache(&mut namespace, file))?;
    println!("{}", namespace.unused_len());
    // An error ends it too.
    let _ = copy(&mut stdin(), &mut sink());
    drop(namespace);
    Ok(())
}

fn cache(namespace: &mut Namespace, file: u32) -> Result<(), Failure> {
    let failed = |what| Failure(format!("file {file}: {what}"));
    let fid = Fid { seq: 0x2_0000_0401, oid: file, version: 0 };
    let id = ResourceId::of_fid(fid);
    let resource = ResourceDesc { kind: LockType::IBITS, id, ..ResourceDesc::default() };
    let (bits, try_bits) = (InodeBits::LOOKUP | InodeBits::UPDATE, InodeBits::NONE);
    let policy = InodebitsPolicy { bits, try_bits, gid: 0, initiator: 0 };
    let wanted = LockSpec::new(resource, LockMode::PR, policy);
    let Ok(Start::Sent(lock)) = namespace.acquire(Time::ZERO, wanted) else {
        return Err(failed("is held already"));
    };
    let Some(Output::Enqueue { request, .. }) = namespace.poll_output() else {
        return Err(failed("no request"));
    };
    let handle = Handle(u64::from(file) + 1);
    let reply = Some(LockReply { lock: request.lock, handle, ..LockReply::default() });
    let answer = Answer { status: Status::OK, reply, lvb: &[] };
    namespace.handle_enqueued(Time::ZERO, lock, Ok(answer));
    let Some(Output::Granted { .. }) = namespace.poll_output() else {
        return Err(failed("not granted"));
    };
    if namespace.release(Time::ZERO, lock) { Ok(()) } else { Err(failed("has no use")) }
}
