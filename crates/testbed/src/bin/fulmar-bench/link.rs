//! The family `link`: throughput and accuracy of the emulated link.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fulmar::demo::ocean::{LINK_IPS, Ocean, Sites};
use fulmar_link::Rate;
use fulmar_testbed::lab::not_run;
use socket2::{Domain, Protocol, Socket, Type};

use crate::namespaces::{Maker, measured};
use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::stats::Series;
use crate::{Effort, Failure};

const ROUND_TRIP: Duration = Duration::from_micros(50_500);
/// More than this machine can carry, so that the link is the limit of the figure.
const GIGABITS: u64 = 40;
/// Rate of the link for echoes.
const ECHO_GIGABITS: u64 = 10;
const GIGA: f64 = 1e9;
/// Warm-up, in which a connection opens its windows.
const SLOW_START: Duration = Duration::from_secs(3);
/// Echoes of one trial.
const ECHOES: u32 = 200;

/// One iperf3 stream over a round trip of 50.5 ms, beside the same over a link without delay.
pub(crate) fn tcp(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, duration| {
        let (mut far, mut near) = (vec![], vec![]);
        for _ in 0..effort.repeats {
            for (round_trip, into) in [(ROUND_TRIP, &mut far), (Duration::ZERO, &mut near)] {
                let sites = sites(make, GIGABITS, round_trip)?;
                let Some(stream) = sites.iperf3(SLOW_START, duration)? else {
                    not_run("iperf3 is needed: scripts/need.sh iperf3");
                    return Ok(vec![]);
                };
                into.push(stream * 8.0 / GIGA);
            }
        }
        Ok(vec![
            Figure::median("link.tcp_gbps", &Series::new(far), "Gbit/s")
                .beside_median(&Series::new(near))
                .held_to(Bar::AtLeast(4.0)),
        ])
    })
}

/// Echoes of the remote kernel, which need no program there: the difference of their round trip
/// from that of the link, as median and 99th percentile. The baseline is the round trip of a link
/// without delay, which is the time of the hosts themselves.
pub(crate) fn delay(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, _| {
        let (mut medians, mut tails, mut hosts) = (vec![], vec![], vec![]);
        for _ in 0..effort.repeats {
            for round_trip in [ROUND_TRIP, Duration::ZERO] {
                let sites = sites(make, ECHO_GIGABITS, round_trip)?;
                let (median, tail) = echo(&sites, round_trip).map_err(|failure| failure.0)?;
                match round_trip {
                    ROUND_TRIP => {
                        medians.push((median - round_trip.as_secs_f64() * 1e3).abs());
                        tails.push(tail - round_trip.as_secs_f64() * 1e3);
                    }
                    _ => hosts.push(median),
                }
            }
        }
        // Errors of microseconds vary widely.
        let median = |values: Vec<f64>| Series::new(values).median();
        let hosts = median(hosts);
        Ok(vec![
            Figure::plain("link.delay_error_ms", median(medians), "ms")
                .beside(hosts)
                .held_to(Bar::AtMost(0.2)),
            Figure::plain("link.delay_error_p99_ms", median(tails), "ms").beside(hosts),
        ])
    })
}

fn sites(make: &Maker, gigabits: u64, round_trip: Duration) -> Result<Sites, String> {
    let rate = Rate::bits_per_second(gigabits * 1_000_000_000);
    make.sites(Ocean::new(rate, round_trip))
}

/// Makes a process at site A send echoes, and returns the median and the 99th percentile of their
/// round trips in milliseconds.
fn echo(sites: &Sites, round_trip: Duration) -> Result<(f64, f64), Failure> {
    let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let expected = round_trip.as_micros().to_string();
    // Same scheduling class as the threads of the link, started after them: the wait of this
    // process for a processor is not an error of the link.
    let mut command = sites.link_hosts()[0].command("chrt".as_ref());
    command.args(["--fifo", "1"]).arg(&program).args(["link-echo", LINK_IPS[1], &expected]);
    let mut worker = Worker::spawn(&mut command)?;
    let found = (worker.number()?, worker.number()?);
    worker.finish()?;
    Ok(found)
}

/// Runs the process that sends echoes: prints the median and the 99th percentile.
pub(crate) fn send_echoes(to: IpAddr, expected: Duration) -> Result<(), Failure> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))
        .map_err(Failure::io("open a socket for ICMP"))?;
    let connected = socket.connect(&SocketAddr::new(to, 0).into());
    connected.map_err(Failure::io(format!("connect to {to}")))?;
    socket.set_nonblocking(true).map_err(Failure::io("set a socket to non-blocking"))?;
    let mut trips: Vec<f64> = vec![];
    for number in 0..ECHOES {
        trips.push(one_echo(&socket, number as u8, expected)?.as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(5));
    }
    trips.sort_by(f64::total_cmp);
    let tail = trips[trips.len() * 99 / 100];
    println!("{}\n{tail}", Series::new(trips).median());
    Ok(())
}

/// Sends one echo and returns its round trip.
fn one_echo(mut socket: &Socket, number: u8, expected: Duration) -> Result<Duration, Failure> {
    /// A sleeping process would wake up late, so it polls from this time before the expected
    /// answer.
    const AWAKE: Duration = Duration::from_millis(2);
    let request = [ECHO, 0, !ECHO, !number, 0, 0, 0, number];
    let sent = Instant::now();
    socket.write_all(&request).map_err(Failure::io("send an echo"))?;
    std::thread::sleep(expected.saturating_sub(AWAKE));
    let mut answer = [0; 128];
    while sent.elapsed() < Duration::from_secs(2) {
        // The IP header precedes the answer.
        match socket.read(&mut answer) {
            Ok(28..) if answer[20] == ECHO_REPLY && answer[27] == number => {
                return Ok(sent.elapsed());
            }
            _ => std::hint::spin_loop(),
        }
    }
    Err(Failure("an echo was not answered".into()))
}

const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;
