//! The page in a headless Chromium.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_control::api::{PAGE, Place};

use super::{NodeFixture, serve};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The ground of the page in light and dark.
const LIGHT: [u8; 3] = [0xf6, 0xf7, 0xf9];
const DARK: [u8; 3] = [0x10, 0x14, 0x18];

/// Returns the browser; `None`, with a NOT RUN line, where none is installed.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        let line =
            "NOT RUN: the web page in a browser: there is no chromium (apt-get install chromium)";
        let mut errors = std::io::stderr();
        writeln!(errors, "\n{line}").unwrap();
    }
    found
}

/// Runs the browser on the page of a node, and returns what it prints.
fn browse(browser: &Path, served: &NodeFixture, args: &[&str]) -> String {
    let profile = served.directory.join("profile");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-extensions", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(args)
        .arg(format!("http://{}/", served.port))
        .env("HOME", &served.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(served.directory.join("browser.log")).unwrap())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            let log = std::fs::read_to_string(served.directory.join("browser.log"));
            panic!("the browser does not end: {log:?}");
        }
        sleep(Duration::from_millis(20));
    }
    reader.join().unwrap().unwrap()
}

/// Lets the node take two samples, so that there are rates and curves.
fn watch(served: &NodeFixture) {
    served.client.get("/v1/view").unwrap();
    sleep(Duration::from_millis(700));
    served.node.count(|stats| {
        stats.send_count += 1000;
        stats.send_length += 64 << 20;
        stats.drop_count += 1;
    });
    served.client.get("/v1/view").unwrap();
}

#[test]
fn a_browser_shows_figures_troubles_and_tables() {
    let Some(browser) = browser() else { return };
    let served = NodeFixture::start("dom");
    serve(&served.node, "lv-OST0001", Some("<img src=x onerror=\"document.title='harm'\">"));
    watch(&served);
    let page = browse(&browser, &served, &["--dump-dom"]);
    // Without the style and the script.
    let page = page.split("<body>").nth(1).and_then(|page| page.split("<script>").next());
    let page = page.unwrap_or_default();
    for part in [
        "<h1 id=\"name\">10.0.0.1@tcp</h1>",
        "role=\"status\" class=\"up\">up</span>",
        "<h2>Interfaces</h2>",
        "<h2>Peers</h2>",
        "<td>10.0.0.2@tcp</td>",
        "<td class=\"number\">512 MiB (50 %)</td>",
        "<li class=\"bad\">target lv-OST0001 is not served: &lt;img src=x",
        "aria-label=\"sent: now ",
        " MiB/s\"><path",
    ] {
        assert!(page.contains(part), "{part} is missing in:\n{page}");
    }
    let curve = page.split("class=\"curve\" d=\"").nth(1).unwrap_or_default();
    assert!(curve.starts_with('M'), "there is a curve: {curve:.80}");
    assert!(!page.contains("<title>harm") && !page.contains("<img"), "{page}");
}

#[test]
fn it_is_light_or_dark_as_the_browser_prefers() {
    let Some(browser) = browser() else { return };
    let served = NodeFixture::start("colours");
    watch(&served);
    for (scheme, ground) in [("1", LIGHT), ("0", DARK)] {
        let shot = served.directory.join(format!("{scheme}.png"));
        let screenshot = format!("--screenshot={}", shot.display());
        let prefers = format!("--blink-settings=preferredColorScheme={scheme}");
        browse(&browser, &served, &[&screenshot, &prefers, "--window-size=900,700"]);
        let colours = colours(&shot);
        assert_eq!(colours.first(), Some(&ground), "in the corner, scheme {scheme}");
        let others = colours.iter().filter(|colour| **colour != ground).count();
        assert!(others > 10_000, "the rest is not empty: {others} of {}", colours.len());
    }
}

/// Returns the colours of a picture.
fn colours(path: &Path) -> Vec<[u8; 3]> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = png::Decoder::new(BufReader::new(file)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let samples = info.color_type.samples();
    bytes[..info.buffer_size()]
        .chunks(samples)
        .map(|pixel| [pixel[0], pixel[1], pixel[2]])
        .collect()
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    for (start, allowed) in
        [("src=\"", &[][..]), ("href=\"", &["data:,", "metrics"]), ("url(", &[])]
    {
        for found in PAGE.split(start).skip(1) {
            let target = found.split('"').next().unwrap_or_default();
            assert!(allowed.contains(&target), "{start}{target}");
        }
    }
    assert!(!PAGE.contains("@import") && !PAGE.contains("innerHTML"));
    let served = NodeFixture::start("policy");
    let mut stream = TcpStream::connect(served.port).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(reply.contains("content-security-policy: default-src 'none';"), "{reply}");
}

#[test]
fn a_sample_is_the_same_at_the_socket_and_at_the_port() {
    let served = NodeFixture::start("sample");
    let socket = Place::Socket(served.client.path().to_owned());
    let samples = [socket, Place::Port(served.port.to_string())]
        .map(|place| fulmar_top::Sample { at_ms: 0, ..place.sample(TIMEOUT).unwrap() });
    let resident = |sample: &fulmar_top::Sample| fulmar_top::Sample {
        totals: fulmar_top::Totals { resident_bytes: 0, ..sample.totals.clone() },
        ..sample.clone()
    };
    assert_eq!(resident(&samples[0]), resident(&samples[1]));
    assert_eq!((samples[0].name.as_str(), samples[0].targets[0].clients), ("10.0.0.1@tcp", 3));
    served.node.fail("a credit was returned twice");
    let failed = Place::Port(served.port.to_string()).sample(TIMEOUT).unwrap();
    assert_eq!(failed.failure.as_deref(), Some("a credit was returned twice"));
}

#[test]
fn what_is_not_a_node_does_not_harm_who_asks() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::Port(listener.local_addr().unwrap().to_string());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    let long = format!("{head}{{\"name\":\"{}", "x".repeat(9 << 20));
    for (answer, why) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", "invalid answer at"),
        (&format!("{head}{{\"name\":7}}"), "invalid type"),
        (&long, "invalid answer at"),
        ("", "invalid answer at"),
    ] {
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            });
            place.sample(TIMEOUT).unwrap_err().to_string()
        });
        assert!(error.contains(why), "{error}");
    }
    let silent = place.sample(Duration::from_millis(100)).unwrap_err().to_string();
    assert!(silent.contains("it took longer"), "{silent}");
    drop(listener);
    let refused = place.sample(TIMEOUT).unwrap_err().to_string();
    assert!(refused.contains("fulmar node --metrics"), "{refused}");
}
