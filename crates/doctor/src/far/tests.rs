//! Both ends in one process, and ends that mean no good.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::evidence::{Device, Host};
use crate::finding::Place;
use crate::judge;
use crate::measure::{self, Load, Way};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(10);

/// A server on loopback, and what it has noticed.
fn server() -> (Server, SocketAddr, Arc<Mutex<Vec<Notice>>>) {
    server_for(&[])
}

fn server_for(from: &[IpAddr]) -> (Server, SocketAddr, Arc<Mutex<Vec<Notice>>>) {
    let options = ServerOptions { bind: Some(LOOPBACK), port: 0, from: from.to_vec() };
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = notices.clone();
    let server = Server::start(&options, move |notice| heard.lock().unwrap().push(notice)).unwrap();
    let at = server.addresses()[0];
    (server, at, notices)
}

fn examiner(at: SocketAddr) -> Examiner {
    Examiner::connect(at, None, PATIENCE).unwrap()
}

/// A far end that says `bytes` to whoever calls, and then nothing more until the caller goes.
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
fn both_hosts_are_told_and_their_clocks_agree_on_one_machine() {
    let (_server, at, _) = server();
    let far = examiner(at);
    let host = far.host().unwrap();
    assert_eq!(host.device.as_deref(), Some("lo"));
    let clock = measure::clock(&far).unwrap();
    assert!(clock.ahead_us.abs() <= clock.error_us + 1000.0, "{clock:?}");
}

#[test]
fn loopback_carries_its_mtu_uncut_both_ways() {
    let (_server, at, _) = server();
    let seen = measure::mtu(&examiner(at), 65_536, 65_536).unwrap();
    assert_eq!((seen.out, seen.back), (Some(65_535), Some(65_535)));
    assert_eq!((seen.learned, seen.learned_there), (None, None));
}

#[test]
fn datagrams_are_counted_both_ways() {
    let (_server, at, _) = server();
    let time = Duration::from_millis(300);
    let seen = measure::udp(&examiner(at), 20_000_000, 1000, time).unwrap();
    for way in [seen.out, seen.back] {
        assert!(way.sent > 0 && way.seen.received > 0, "{seen:?}");
        assert!(way.seen.received <= way.sent && way.seen.jitter_us >= 0.0, "{seen:?}");
    }
}

#[test]
fn streams_carry_what_the_kernel_counts_both_ways() {
    let (_server, at, _) = server();
    let far = examiner(at);
    for (way, streams) in [(Way::Out, 1), (Way::Back, 3)] {
        let load = Load { way, streams, time: Duration::from_millis(300) };
        let run = measure::tcp(&far, load).unwrap();
        assert!(run.bytes > 0 && run.seconds > 0.0 && run.mean > 0.0, "{run:?}");
        assert!(run.sender.segments > 0 && run.sender.window > 0, "{run:?}");
        assert_eq!((run.way, run.streams), (way, streams));
    }
}

#[test]
fn datagrams_are_answered_from_the_address_that_was_called() {
    let options = ServerOptions { bind: None, port: 0, from: Vec::new() };
    let server = Server::start(&options, |_| {}).unwrap();
    let second = Ipv4Addr::new(127, 0, 0, 3).into();
    let at = SocketAddr::new(second, server.addresses()[0].port());
    let far = Examiner::connect(at, Some(Ipv4Addr::new(127, 0, 0, 2).into()), PATIENCE).unwrap();
    let answered = (0..5).find_map(|number| measure::round_trip(far.udp(), far.token(), number));
    assert!(answered.is_some(), "no datagram is answered");
    let seen = measure::udp(&far, 1_000_000, 1000, Duration::from_millis(300)).unwrap();
    assert!(seen.out.seen.received > 0 && seen.back.seen.received > 0, "{seen:?}");
}

#[test]
fn messages_of_every_size_come_back() {
    let (_server, at, _) = server();
    let rows = measure::latency(&examiner(at), Duration::from_millis(200)).unwrap();
    assert_eq!(rows.iter().map(|row| row.size).collect::<Vec<_>>(), measure::SIZES);
    for row in rows {
        assert!(row.one_way.count >= 4 && row.one_way.min_us <= row.one_way.median_us, "{row:?}");
    }
}

#[test]
fn a_second_examiner_is_told_who_the_first_is_and_comes_next() {
    let (_server, at, notices) = server();
    let first = examiner(at);
    let busy = Examiner::connect(at, None, PATIENCE).unwrap_err().to_string();
    assert!(busy.contains("is examining with 127.0.0.1 just now"), "{busy}");
    drop(first);
    examiner_in_turn(at);
    let notices = notices.lock().unwrap();
    assert!(matches!(notices[0], Notice::Began(_)), "{notices:?}");
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Ended(..))), "{notices:?}");
}

#[test]
fn who_is_not_named_is_refused() {
    let (_server, at, _) = server_for(&["10.9.9.9".parse().unwrap()]);
    let refused = Examiner::connect(at, None, PATIENCE).unwrap_err().to_string();
    assert!(refused.contains("127.0.0.1 is not among those"), "{refused}");
}

#[test]
fn loads_break_off_when_the_examiner_leaves() {
    let (_server, at, _) = server();
    let (streams, millis) = (1, LOAD_MAX.as_millis() as u64);
    let (bits_per_second, size) = (1_000_000, 1000);
    for request in [
        Request::Flood { bits_per_second, size, millis },
        Request::Send { streams, millis },
        Request::Receive { streams, millis },
        Request::Echo { millis },
    ] {
        let far = examiner_in_turn(at);
        measure::round_trip(far.udp(), far.token(), 1).unwrap();
        // They outlive the control connection, and nobody reads from them.
        let _streams = far.attach(streams).unwrap();
        far.tell(&request).unwrap();
        if !matches!(request, Request::Flood { .. }) {
            far.ready(PATIENCE).unwrap();
        }
        drop(far);
        drop(examiner_in_turn(at));
    }
}

#[test]
fn datagrams_cease_with_the_server() {
    let (server, at, _) = server();
    let far = examiner(at);
    measure::round_trip(far.udp(), far.token(), 1).unwrap();
    let millis = LOAD_MAX.as_millis() as u64;
    far.tell(&Request::Flood { bits_per_second: 1_000_000, size: 1000, millis }).unwrap();
    far.udp().set_read_timeout(Some(PATIENCE)).unwrap();
    far.udp().recv(&mut [0; 2000]).unwrap();
    drop(server);
    // Well over what lies between two datagrams.
    far.udp().set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let begun = std::time::Instant::now();
    while far.udp().recv(&mut [0; 2000]).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "datagrams come without a server");
    }
}

/// Examines when whoever examines before has gone.
fn examiner_in_turn(at: SocketAddr) -> Examiner {
    let begun = std::time::Instant::now();
    loop {
        match Examiner::connect(at, None, PATIENCE) {
            Ok(far) => return far,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "no place is free: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A caller from another address than this host's first.
fn stranger(at: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(STRANGER, 0).into()).unwrap();
    socket.connect(&at.into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

#[test]
fn who_is_not_named_is_refused_unheard_and_learns_nothing_of_who_examines() {
    let (_server, at, _) = server_for(&[LOOPBACK]);
    let _far = examiner(at);
    let mut stranger = stranger(at);
    let mut told = String::new();
    stranger.read_to_string(&mut told).unwrap();
    assert!(told.contains("127.0.0.9 is not among those"), "{told}");
    assert!(!told.contains("127.0.0.1"), "{told}");
}

#[test]
fn callers_that_say_nothing_do_not_keep_others_out() {
    let (_server, at, _) = server();
    let silent: Vec<TcpStream> = (0..2 * GREETINGS_MAX).map(|_| stranger(at)).collect();
    // Who is one too many is sent away at once, and callers are taken in their order.
    assert_eq!((&silent[silent.len() - 1]).read(&mut [0]).unwrap(), 0);
    let ended = silent.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        (&mut &**stream).read(&mut [0]).is_ok_and(|count| count == 0)
    });
    assert_eq!(ended.count(), silent.len() - GREETINGS_FROM_ONE_MAX);
    assert!(examiner(at).host().is_ok());
}

#[test]
fn an_examiner_may_open_all_connections_of_a_load_before_it_speaks_on_any() {
    let (_server, at, _) = server();
    let far = examiner(at);
    let mut silent: Vec<TcpStream> =
        (0..STREAMS_MAX).map(|_| TcpStream::connect(at).unwrap()).collect();
    let greeting = frame_of(&format!(r#"{{"attach":{{"token":{}}}}}"#, far.token()));
    for stream in &mut silent {
        stream.write_all(&greeting).unwrap();
    }
    far.tell(&Request::Receive { streams: STREAMS_MAX, millis: 1 }).unwrap();
    far.ready(PATIENCE).unwrap();
}

#[test]
fn a_greeting_is_short() {
    let (_server, at, _) = server();
    let program = "x".repeat(GREETING_LEN_MAX);
    let greeting = format!(r#"{{"examine":{{"version":2,"program":"{program}"}}}}"#);
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(&frame_of(&greeting)).unwrap();
    let mut answer = [0; 300];
    let len = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..len]);
    assert!(answer.contains("and 512 are the most"), "{answer}");
}

#[test]
fn what_is_asked_beyond_the_bounds_is_refused_and_the_examination_goes_on() {
    let (_server, at, _) = server();
    let far = examiner(at);
    let asked = far.ask(&Request::Send { streams: 1000, millis: 1 }, PATIENCE);
    let refused = asked.unwrap_err().to_string();
    assert!(refused.contains("streams may be 1 to 64"), "{refused}");
    assert!(far.host().is_ok());
}

#[test]
fn datagrams_without_the_token_are_not_answered() {
    let (_server, at, _) = server();
    let far = examiner(at);
    let stranger = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut bytes = Vec::new();
    let kind = DatagramKind::Echo;
    for token in [0, far.token() ^ 1] {
        Datagram { kind, token, number: 1, time: 0 }.encode(HEADER_LEN, &mut bytes);
        stranger.send_to(&bytes, at).unwrap();
    }
    stranger.send_to(b"garbage", at).unwrap();
    assert!(stranger.recv(&mut [0; 100]).is_err(), "a stranger was answered");
    let probed = far.ask(&Request::Probe { size: 100, count: 1 }, PATIENCE).unwrap_err();
    assert!(probed.to_string().contains("no datagram of yours has come"), "{probed}");
}

#[test]
fn a_server_survives_callers_that_talk_nonsense() {
    let (_server, at, notices) = server();
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 4, b'n', b'u', b'l', b'l'], &[]] {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(nonsense).unwrap();
        // The server may have had enough already.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(&frame_of(r#"{"attach":{"token":1}}"#)).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("no examination has this token"), "{answer}");
    assert!(examiner(at).host().is_ok());
    let notices = notices.lock().unwrap();
    let refused = notices.iter().filter(|notice| matches!(notice, Notice::Refused(..))).count();
    assert_eq!(refused, 4, "{notices:?}");
}

#[test]
fn a_far_end_that_is_none_is_refused_by_its_address() {
    let huge = vec![0xff; 64];
    let garbage = frame_of("this is no JSON");
    let other = frame_of(r#"{"host":{}}"#);
    for (bytes, told) in [
        (huge, "announces a message of 4294967295 bytes"),
        (garbage, "says what is not understood"),
        (other, "says what is not understood"),
        (frame_of(r#"{"welcome":{"version":9,"program":"x","token":7}}"#), "speaks version 9"),
        (frame_of(r#""ended""#), "answers that it has ended"),
        (frame_of("{\"busy\":{\"with\":\"\\u001b[2J\"}}"), "examining with ?[2J"),
    ] {
        let at = hostile(bytes);
        let error = Examiner::connect(at, None, PATIENCE).unwrap_err().to_string();
        assert!(error.contains(told) && error.contains(&at.to_string()), "{error}");
    }
}

#[test]
fn a_far_host_puts_no_lines_into_the_report_and_no_words_into_commands() {
    let down = |name: &str| Device { name: name.into(), ..Device::default() };
    let host = Host {
        name: "a\nERROR (1)\u{202e}".into(),
        devices: vec![down("eth0; curl x|sh"), down("eth1")],
        device: Some("eth0; curl x|sh".into()),
        ..Host::default()
    };
    let reply = serde_json::to_string(&Reply::Host(Box::new(host))).unwrap();
    let at = hostile([frame_of(WELCOME), frame_of(&reply)].concat());
    let host = examiner(at).host().unwrap();
    assert_eq!((host.name.as_str(), host.device.as_deref()), ("a?ERROR (1)?", None));
    let found = judge::nic(Place::There, &host);
    let mends: Vec<_> = found.iter().filter_map(|one| one.mend.as_deref()).collect();
    assert_eq!(mends, ["ip link set eth1 up; see dmesg, the cable and the switch"]);
}

#[test]
fn what_a_caller_says_puts_no_lines_into_the_log() {
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
fn a_far_end_that_stops_talking_is_not_waited_for() {
    let at = hostile(frame_of(WELCOME));
    let far = examiner(at);
    let error = far.ask(&Request::Clock, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, FarError::Silent { who, .. } if who == at), "{error}");
}

#[test]
fn a_far_end_that_talks_without_end_is_cut_off() {
    let endless: Vec<u8> = std::iter::repeat_n(frame_of(r#""ready""#), 1000).flatten().collect();
    let at = hostile([frame_of(WELCOME), endless].concat());
    let far = examiner(at);
    let error = measure::clock(&far).unwrap_err().to_string();
    assert!(error.contains("answers that it is ready where its clock was asked"), "{error}");
    let at = hostile([frame_of(WELCOME), vec![0, 3, 0xff, 0xff], vec![b'['; 1 << 18]].concat());
    let error = examiner(at).host().unwrap_err().to_string();
    assert!(error.contains("says what is not understood"), "{error}");
}

#[test]
fn a_rate_is_within_what_a_far_end_accepts() {
    assert_eq!(parse_rate("10Gbps"), Ok(10_000_000_000));
    assert_eq!((parse_rate("1k"), parse_rate("400G")), (Ok(1_000), Ok(RATE_MAX)));
    for text in ["", "fast", "1", "999", "400.1G", "9999G"] {
        assert!(parse_rate(text).is_err(), "{text}");
    }
}
