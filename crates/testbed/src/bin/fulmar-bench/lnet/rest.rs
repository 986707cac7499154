//! Two connected nodes without traffic.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::processor_time;

use super::{runtime, start};
use crate::Failure;

/// Time to open connections and for discovery.
const WARM_UP: Duration = Duration::from_secs(2);

/// Runs both nodes; prints the share of a core that they use.
pub(crate) fn run_idle_nodes(port: u16, duration: Duration) -> Result<(), Failure> {
    let addresses = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];
    let runtimes = [runtime()?, runtime()?];
    let a = start(&runtimes[0], addresses[0].into(), port)?;
    let b = start(&runtimes[1], addresses[1].into(), port)?;
    let target = ProcessId::lustre(Nid::of_ip(Net::TCP, addresses[1].into()));
    a.admin()
        .ping(target, None, Duration::from_secs(5))
        .map_err(|errno| Failure(format!("the nodes cannot connect: {errno}")))?;
    sleep(WARM_UP);
    let (begun, before) = (Instant::now(), processor_time());
    sleep(duration);
    let share = (processor_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("{share}");
    a.stop();
    b.stop();
    Ok(())
}
