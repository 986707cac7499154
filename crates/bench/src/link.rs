//! The family `link`: what the emulated link carries, and how exact it is.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use fulmar_link::{DEFAULT_DEVICE, DEFAULT_MTU, Line, LinkError, SiteOptions, Sites, Tcp};
use fulmar_proof::iperf3::{IPERF3, Stream};
use fulmar_proof::lab::not_run;
use socket2::{Domain, Protocol, Socket, Type};

use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::stats::median;
use crate::{Effort, Failure};

const ROUND_TRIP: Duration = Duration::from_micros(50_500);
/// More than this machine will carry, so that the figure is the link's own.
const RATE: &str = "40Gbit";
const GIGA: f64 = 1e9;
/// What a connection grows up in is left out.
const SLOW_START: u32 = 3;
/// Nobody else is in the sites.
const IPERF3_PORT: u16 = 5201;
/// Echoes of one trial.
const ECHOES: u32 = 200;

/// One stream of iperf3 over a round trip of 50.5 ms, beside the same over a link without delay.
pub(crate) fn tcp(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let seconds = u32::try_from(effort.duration.as_secs()).unwrap_or(u32::MAX).max(1);
    let (mut far, mut near) = (vec![], vec![]);
    for _ in 0..effort.repeats {
        for (round_trip, into) in [(ROUND_TRIP, &mut far), (Duration::ZERO, &mut near)] {
            let Some(sites) = sites(RATE, round_trip)? else { return Ok(vec![]) };
            into.push(stream(&sites, seconds)? / GIGA);
        }
    }
    Ok(vec![
        Figure::plain("link.tcp_gbps", median(far), "Gbit/s")
            .beside(median(near))
            .held_to(Bar::AtLeast(4.0)),
    ])
}

/// Echoes of the kernel at the other end, which needs no program: by how much their round trip
/// differs from that of the link, in the median and in the 99th percentile. The baseline is the
/// round trip of a link without delay, which is what the hosts take themselves.
pub(crate) fn delay(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let (mut medians, mut tails, mut hosts) = (vec![], vec![], vec![]);
    for _ in 0..effort.repeats {
        for round_trip in [ROUND_TRIP, Duration::ZERO] {
            let Some(sites) = sites("10Gbit", round_trip)? else { return Ok(vec![]) };
            let (median, tail) = echo(&sites, round_trip)?;
            match round_trip {
                ROUND_TRIP => {
                    medians.push((median - round_trip.as_secs_f64() * 1e3).abs());
                    tails.push(tail - round_trip.as_secs_f64() * 1e3);
                }
                _ => hosts.push(median),
            }
        }
    }
    let hosts = median(hosts);
    Ok(vec![
        Figure::plain("link.delay_error_ms", median(medians), "ms")
            .beside(hosts)
            .held_to(Bar::AtMost(0.2)),
        Figure::plain("link.delay_error_p99_ms", median(tails), "ms").beside(hosts),
    ])
}

/// Makes sites; without leave to do so there are no figures, which is said loudly.
fn sites(rate: &str, round_trip: Duration) -> Result<Option<Sites>, Failure> {
    let rate = rate.parse().map_err(|error| Failure(format!("{error}")))?;
    let lines = [Line::new(rate, round_trip / 2); 2];
    let started = Sites::start(&SiteOptions {
        name: format!("bench{}", std::process::id()),
        device: DEFAULT_DEVICE.to_owned(),
        addresses: [HERE, THERE].map(|address| vec![format!("{address}/24")]),
        lines,
        mtu: DEFAULT_MTU,
        seed: 1,
        tcp: Tcp::filling(&lines),
    });
    match started {
        Ok(sites) => Ok(Some(sites)),
        Err(error @ (LinkError::Lock { .. } | LinkError::Command(_) | LinkError::Enter { .. })) => {
            not_run(&format!("the emulated link: {error}"));
            Ok(None)
        }
        Err(error) => Err(Failure(error.to_string())),
    }
}

const HERE: &str = "10.99.0.1";
const THERE: &str = "10.99.0.2";

/// Runs iperf3 across the link and returns bits per second.
fn stream(sites: &Sites, seconds: u32) -> Result<f64, Failure> {
    let address = THERE.parse().expect("it is an address");
    let stream = Stream { address, port: IPERF3_PORT, warmup: SLOW_START, seconds };
    let at = |side| sites.command(side, IPERF3.as_ref());
    let received = stream.run(at(0), at(1)).map_err(Failure)?;
    Ok(received.bytes_per_second() * 8.0)
}

/// Has a process at site A send echoes, and returns the median and the 99th percentile of their
/// round trips in milliseconds.
fn echo(sites: &Sites, round_trip: Duration) -> Result<(f64, f64), Failure> {
    let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let expected = round_trip.as_micros().to_string();
    // As the link's own threads, and after them: how long this process waits for a processor when
    // others are busy is not the link's.
    let mut command: Command = sites.command(0, "chrt".as_ref());
    command.args(["--fifo", "1"]).arg(&program).args(["link-echo", THERE, &expected]);
    let mut worker = Worker::spawn(&mut command)?;
    let found = (worker.number()?, worker.number()?);
    worker.finish()?;
    Ok(found)
}

/// The process that sends echoes: prints the median and the 99th percentile.
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
    println!("{}\n{tail}", median(trips));
    Ok(())
}

/// Sends one echo and returns how long its answer took.
fn one_echo(mut socket: &Socket, number: u8, expected: Duration) -> Result<Duration, Failure> {
    /// What a sleeping process would add is not the link's: the answer is watched for.
    const AWAKE: Duration = Duration::from_millis(2);
    let request = [ECHO, 0, !ECHO, !number, 0, 0, 0, number];
    let sent = Instant::now();
    socket.write_all(&request).map_err(Failure::io("send an echo"))?;
    std::thread::sleep(expected.saturating_sub(AWAKE));
    let mut answer = [0; 128];
    while sent.elapsed() < Duration::from_secs(2) {
        // The IP header comes before the answer.
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
