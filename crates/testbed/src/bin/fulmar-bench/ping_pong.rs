//! The baseline of latency: two processes that exchange messages over plain TCP, with the lengths
//! of LNet messages on the wire.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::process::Worker;

/// Length of a socklnd frame, an LNet header and the 8 bytes of the PUT.
const REQUEST: usize = 24 + 72 + 8;
/// Length of a socklnd frame and the LNet header of the ACK.
const ANSWER: usize = 24 + 72;

/// Runs once and returns the round trips per second.
pub(crate) fn run(duration: Duration) -> Result<f64, Failure> {
    let mut server = Worker::start(&["ping-pong-server"])?;
    let address = server.line()?;
    let seconds = duration.as_secs_f64().to_string();
    let mut client = Worker::start(&["ping-pong-client", &address, &seconds])?;
    let rate = client.number()?;
    client.finish()?;
    server.finish()?;
    Ok(rate)
}

/// Answers one client until it closes the connection.
pub(crate) fn serve() -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Failure::io("bind"))?;
    println!("{}", listener.local_addr().map_err(Failure::io("find the port"))?);
    let (mut stream, _) = listener.accept().map_err(Failure::io("accept"))?;
    stream.set_nodelay(true).map_err(Failure::io("set TCP_NODELAY"))?;
    let (mut request, answer) = ([0; REQUEST], [0; ANSWER]);
    loop {
        match stream.read_exact(&mut request) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            result => result.map_err(Failure::io("read"))?,
        }
        stream.write_all(&answer).map_err(Failure::io("write"))?;
    }
}

/// Sends to a server for some time, and prints the round trips per second.
pub(crate) fn call(address: SocketAddr, duration: Duration) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(address).map_err(Failure::io("connect"))?;
    stream.set_nodelay(true).map_err(Failure::io("set TCP_NODELAY"))?;
    let (request, mut answer) = ([0; REQUEST], [0; ANSWER]);
    let begun = Instant::now();
    let mut round_trips = 0_u32;
    while begun.elapsed() < duration {
        stream.write_all(&request).map_err(Failure::io("write"))?;
        stream.read_exact(&mut answer).map_err(Failure::io("read"))?;
        round_trips += 1;
    }
    println!("{}", f64::from(round_trips) / begun.elapsed().as_secs_f64());
    Ok(())
}
