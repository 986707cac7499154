//! Tests of both sides in one process, and of hostile peers.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::evidence::{Device, Host};
use crate::finding::Place;
use crate::judge;
use crate::measure::{self, Direction, Load};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a server on loopback. Returns its address and its notices too.
fn server() -> (Server, SocketAddr, Arc<Mutex<Vec<Notice>>>) {
    server_for(&[])
}

fn server_for(from: &[IpAddr]) -> (Server, SocketAddr, Arc<Mutex<Vec<Notice>>>) {
    let options = ServerOptions { bind: Some(LOOPBACK), port: 0, from: from.to_vec() };
    let notices = Arc::new(Mutex::new(Vec::new()));
    let received = notices.clone();
    let server =
        Server::start(&options, move |notice| received.lock().unwrap().push(notice)).unwrap();
    let at = server.addresses()[0];
    (server, at, notices)
}

fn connect(at: SocketAddr) -> Examiner {
    Examiner::connect(at, None, TIMEOUT).unwrap()
}

/// Starts a server that sends `bytes` to the first connection, and then waits until it is closed.
fn hostile(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    at
}

fn frame_of(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

const WELCOME: &str = r#"{"welcome":{"version":2,"program":"x","token":7}}"#;

#[test]
fn evidence_and_clock_of_the_remote_host_are_received() {
    let (_server, at, _) = server();
    let examiner = connect(at);
    let host = examiner.host().unwrap();
    assert_eq!(host.device.as_deref(), Some("lo"));
    let clock = measure::clock(&examiner).unwrap();
    assert!(clock.ahead_us.abs() <= clock.error_us + 1000.0, "{clock:?}");
}

#[test]
fn the_path_mtu_of_loopback_is_that_of_its_interface() {
    let (_server, at, _) = server();
    let seen = measure::mtu(&connect(at), 65_536, 65_536).unwrap();
    assert_eq!((seen.out, seen.back), (Some(65_535), Some(65_535)));
    assert_eq!((seen.learned, seen.learned_remote), (None, None));
}

#[test]
fn datagrams_are_counted_in_both_directions() {
    let (_server, at, _) = server();
    let time = Duration::from_millis(300);
    let seen = measure::udp(&connect(at), 20_000_000, 1000, time).unwrap();
    for direction in [seen.out, seen.back] {
        assert!(direction.sent > 0 && direction.seen.received > 0, "{seen:?}");
        assert!(
            direction.seen.received <= direction.sent && direction.seen.jitter_us >= 0.0,
            "{seen:?}"
        );
    }
}

#[test]
fn streams_carry_data_in_both_directions() {
    let (_server, at, _) = server();
    let examiner = connect(at);
    for (direction, streams) in [(Direction::Out, 1), (Direction::In, 3)] {
        let load = Load { direction, streams, time: Duration::from_millis(300) };
        let run = measure::tcp(&examiner, load).unwrap();
        assert!(run.bytes > 0 && run.seconds > 0.0 && run.mean > 0.0, "{run:?}");
        assert!(run.sender.segments > 0 && run.sender.window > 0, "{run:?}");
        assert_eq!((run.direction, run.streams), (direction, streams));
    }
}

#[test]
fn datagrams_are_answered_from_the_address_of_the_connection() {
    let options = ServerOptions { bind: None, port: 0, from: Vec::new() };
    let server = Server::start(&options, |_| {}).unwrap();
    let second = Ipv4Addr::new(127, 0, 0, 3).into();
    let at = SocketAddr::new(second, server.addresses()[0].port());
    let examiner =
        Examiner::connect(at, Some(Ipv4Addr::new(127, 0, 0, 2).into()), TIMEOUT).unwrap();
    let answered =
        (0..5).find_map(|number| measure::round_trip(examiner.udp(), examiner.token(), number));
    assert!(answered.is_some(), "no datagram is answered");
    let seen = measure::udp(&examiner, 1_000_000, 1000, Duration::from_millis(300)).unwrap();
    assert!(seen.out.seen.received > 0 && seen.back.seen.received > 0, "{seen:?}");
}

#[test]
fn messages_of_every_size_come_back() {
    let (_server, at, _) = server();
    let rows = measure::latency(&connect(at), Duration::from_millis(200)).unwrap();
    assert_eq!(rows.iter().map(|row| row.size).collect::<Vec<_>>(), measure::SIZES);
    for row in rows {
        assert!(row.one_way.count >= 4 && row.one_way.min_us <= row.one_way.median_us, "{row:?}");
    }
}

#[test]
fn a_second_examiner_learns_who_the_first_is_and_may_follow() {
    let (_server, at, notices) = server();
    let first = connect(at);
    let busy = Examiner::connect(at, None, TIMEOUT).unwrap_err().to_string();
    assert!(busy.contains("is busy with an examination from 127.0.0.1"), "{busy}");
    drop(first);
    connect_in_turn(at);
    let notices = notices.lock().unwrap();
    assert!(matches!(notices[0], Notice::Began(_)), "{notices:?}");
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Ended(..))), "{notices:?}");
}

#[test]
fn an_address_outside_the_list_is_refused() {
    let (_server, at, _) = server_for(&["10.9.9.9".parse().unwrap()]);
    let refused = Examiner::connect(at, None, TIMEOUT).unwrap_err().to_string();
    assert!(refused.contains("127.0.0.1 is not in the list"), "{refused}");
}

#[test]
fn loads_stop_when_the_examiner_disconnects() {
    let (_server, at, _) = server();
    let (streams, millis) = (1, LOAD_MAX.as_millis() as u64);
    let (bits_per_second, size) = (1_000_000, 1000);
    for request in [
        Request::Flood { bits_per_second, size, millis },
        Request::Send { streams, millis },
        Request::Receive { streams, millis },
        Request::Echo { millis },
    ] {
        let examiner = connect_in_turn(at);
        measure::round_trip(examiner.udp(), examiner.token(), 1).unwrap();
        // They outlive the control connection, and nothing reads from them.
        let _streams = examiner.attach(streams).unwrap();
        examiner.send(&request).unwrap();
        if !matches!(request, Request::Flood { .. }) {
            examiner.ready(TIMEOUT).unwrap();
        }
        drop(examiner);
        drop(connect_in_turn(at));
    }
}

#[test]
fn datagrams_stop_with_the_server() {
    let (server, at, _) = server();
    let examiner = connect(at);
    measure::round_trip(examiner.udp(), examiner.token(), 1).unwrap();
    let millis = LOAD_MAX.as_millis() as u64;
    examiner.send(&Request::Flood { bits_per_second: 1_000_000, size: 1000, millis }).unwrap();
    examiner.udp().set_read_timeout(Some(TIMEOUT)).unwrap();
    examiner.udp().recv(&mut [0; 2000]).unwrap();
    drop(server);
    // Much longer than the interval between two datagrams.
    examiner.udp().set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let start = std::time::Instant::now();
    while examiner.udp().recv(&mut [0; 2000]).is_ok() {
        assert!(start.elapsed() < TIMEOUT, "datagrams arrive without a server");
    }
}

/// Connects when the examination before has ended.
fn connect_in_turn(at: SocketAddr) -> Examiner {
    let start = std::time::Instant::now();
    loop {
        match Examiner::connect(at, None, TIMEOUT) {
            Ok(examiner) => return examiner,
            Err(error) => assert!(start.elapsed() < TIMEOUT, "the server stays busy: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Connects from another address of this host.
fn other_peer(at: SocketAddr) -> TcpStream {
    peer_at(OTHER_ADDRESS, at)
}

fn peer_at(address: IpAddr, at: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
    socket.connect(&at.into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

const OTHER_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

#[test]
fn an_address_outside_the_list_learns_nothing_about_the_examination() {
    let (_server, at, _) = server_for(&[LOOPBACK]);
    let _far = connect(at);
    let mut outsider = other_peer(at);
    let mut text = String::new();
    outsider.read_to_string(&mut text).unwrap();
    assert!(text.contains("127.0.0.9 is not in the list"), "{text}");
    assert!(!text.contains("127.0.0.1"), "{text}");
}

#[test]
fn silent_connections_do_not_block_others() {
    let (_server, at, _) = server();
    let mut silent: Vec<TcpStream> =
        (0..GREETINGS_FROM_ONE_MAX + 1).map(|_| other_peer(at)).collect();
    // It is closed for the last one.
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    assert!(connect(at).host().is_ok());
}

#[test]
fn an_examiner_gets_through_while_many_addresses_hold_connections() {
    let (_server, at, _) = server();
    let addresses = 2 * GREETINGS_MAX / GREETINGS_FROM_ONE_MAX;
    let addresses = (1..=addresses).map(|number| Ipv4Addr::new(127, 0, 3, number as u8));
    let silent: Vec<TcpStream> = addresses
        .flat_map(|address| [address; GREETINGS_FROM_ONE_MAX])
        .map(|address| peer_at(address.into(), at))
        .collect();
    for mut stream in &silent[..4] {
        stream.write_all(&[0, 0]).unwrap();
    }
    assert!(connect(at).host().is_ok());
}

#[test]
fn an_examiner_may_open_all_connections_of_a_load_before_it_greets() {
    let (_server, at, _) = server();
    let examiner = connect(at);
    let mut silent: Vec<TcpStream> =
        (0..STREAMS_MAX).map(|_| TcpStream::connect(at).unwrap()).collect();
    let greeting = frame_of(&format!(r#"{{"attach":{{"token":{}}}}}"#, examiner.token()));
    for stream in &mut silent {
        stream.write_all(&greeting).unwrap();
    }
    examiner.send(&Request::Receive { streams: STREAMS_MAX, millis: 1 }).unwrap();
    examiner.ready(TIMEOUT).unwrap();
}

#[test]
fn a_long_greeting_is_refused() {
    let (_server, at, _) = server();
    let program = "x".repeat(GREETING_LEN_MAX);
    let greeting = format!(r#"{{"examine":{{"version":2,"program":"{program}"}}}}"#);
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(&frame_of(&greeting)).unwrap();
    let mut answer = [0; 300];
    let len = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..len]);
    assert!(answer.contains("above the limit of 512"), "{answer}");
}

#[test]
fn a_request_above_the_limits_is_refused_and_the_examination_continues() {
    let (_server, at, _) = server();
    let examiner = connect(at);
    let asked = examiner.call(&Request::Send { streams: 1000, millis: 1 }, TIMEOUT);
    let refused = asked.unwrap_err().to_string();
    assert!(refused.contains("1000 streams: the limit is 1 to 64"), "{refused}");
    assert!(examiner.host().is_ok());
}

#[test]
fn datagrams_without_the_token_are_not_answered() {
    let (_server, at, _) = server();
    let examiner = connect(at);
    let outsider = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    outsider.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut bytes = Vec::new();
    let kind = DatagramKind::Echo;
    for token in [0, examiner.token() ^ 1] {
        Datagram { kind, token, number: 1, time: 0 }.encode(HEADER_LEN, &mut bytes);
        outsider.send_to(&bytes, at).unwrap();
    }
    outsider.send_to(b"garbage", at).unwrap();
    assert!(outsider.recv(&mut [0; 100]).is_err(), "a datagram without the token was answered");
    let probed = examiner.call(&Request::Probe { size: 100, count: 1 }, TIMEOUT).unwrap_err();
    assert!(probed.to_string().contains("no datagram from you has arrived"), "{probed}");
}

#[test]
fn a_server_survives_invalid_greetings() {
    let (_server, at, notices) = server();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 4, b'n', b'u', b'l', b'l'], &[]] {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(garbage).unwrap();
        // The server may have closed the connection already.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(&frame_of(r#"{"attach":{"token":1}}"#)).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("no examination has this token"), "{answer}");
    assert!(connect(at).host().is_ok());
    let notices = notices.lock().unwrap();
    let refused = notices.iter().filter(|notice| matches!(notice, Notice::Refused(..))).count();
    assert_eq!(refused, 4, "{notices:?}");
}

#[test]
fn an_invalid_server_is_refused_with_its_address() {
    let huge = vec![0xff; 64];
    let garbage = frame_of("this is no JSON");
    let other = frame_of(r#"{"host":{}}"#);
    for (bytes, text) in [
        (huge, "announced a message of 4294967295 bytes"),
        (garbage, "sent an invalid message"),
        (other, "sent an invalid message"),
        (frame_of(r#"{"welcome":{"version":9,"program":"x","token":7}}"#), "uses version 9"),
        (frame_of(r#""ended""#), "sent an end notice instead of a welcome"),
        (frame_of("{\"busy\":{\"with\":\"\\u001b[2J\"}}"), "examination from ?[2J"),
    ] {
        let at = hostile(bytes);
        let error = Examiner::connect(at, None, TIMEOUT).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(&at.to_string()), "{error}");
    }
}

#[test]
fn evidence_of_a_hostile_host_is_sanitised() {
    let down = |name: &str| Device { name: name.into(), ..Device::default() };
    let host = Host {
        name: "a\nERROR (1)\u{202e}".into(),
        devices: vec![down("eth0; curl x|sh"), down("eth1")],
        device: Some("eth0; curl x|sh".into()),
        ..Host::default()
    };
    let reply = serde_json::to_string(&Reply::Host(Box::new(host))).unwrap();
    let at = hostile([frame_of(WELCOME), frame_of(&reply)].concat());
    let host = connect(at).host().unwrap();
    assert_eq!((host.name.as_str(), host.device.as_deref()), ("a?ERROR (1)?", None));
    let found = judge::nic(Place::Remote, &host);
    let remedies: Vec<_> = found.iter().filter_map(|one| one.remedy.as_deref()).collect();
    assert_eq!(remedies, ["ip link set eth1 up; see dmesg, the cable and the switch"]);
}

#[test]
fn text_of_a_peer_adds_no_lines_to_the_log() {
    let (_server, at, notices) = server();
    let mut stream = TcpStream::connect(at).unwrap();
    let said = "a\\n1.2.3.4:5 examines".to_owned() + &"x".repeat(400);
    stream.write_all(&frame_of(&format!("{{\"{said}\":1}}"))).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    let notices = notices.lock().unwrap();
    let [Notice::Refused(_, why)] = &notices[..] else { panic!("{notices:?}") };
    assert!(why.contains("a?1.2.3.4:5 examines") && why.len() < 600, "{why}");
}

#[test]
fn a_silent_server_times_out() {
    let at = hostile(frame_of(WELCOME));
    let examiner = connect(at);
    let error = examiner.call(&Request::Clock, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, RemoteError::Timeout { peer, .. } if peer == at), "{error}");
}

#[test]
fn a_server_that_sends_without_end_is_refused() {
    let endless: Vec<u8> = std::iter::repeat_n(frame_of(r#""ready""#), 1000).flatten().collect();
    let at = hostile([frame_of(WELCOME), endless].concat());
    let examiner = connect(at);
    let error = measure::clock(&examiner).unwrap_err().to_string();
    assert!(error.contains("sent a ready notice instead of a clock reading"), "{error}");
    let at = hostile([frame_of(WELCOME), vec![0, 3, 0xff, 0xff], vec![b'['; 1 << 18]].concat());
    let error = connect(at).host().unwrap_err().to_string();
    assert!(error.contains("sent an invalid message"), "{error}");
}

#[test]
fn a_rate_is_within_the_limits_of_a_server() {
    assert_eq!(parse_rate("10Gbps"), Ok(10_000_000_000));
    assert_eq!((parse_rate("1k"), parse_rate("400G")), (Ok(1_000), Ok(RATE_MAX)));
    for text in ["", "fast", "1", "999", "400.1G", "9999G"] {
        assert!(parse_rate(text).is_err(), "{text}");
    }
}
