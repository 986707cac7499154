//! Tests of the report and of its input.

use std::path::{Path, PathBuf};

use clap::CommandFactory;

use super::*;

const OCEAN: [&str; 7] = ["tune", "--rate", "100Gbit", "--rtt", "50.5ms", "--nodes", "2"];

fn args(words: &[&str]) -> Args {
    let words = OCEAN.iter().chain(["--elsewhere"].iter()).chain(words);
    Args::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"))
}

fn advice(words: &[&str]) -> Advice {
    advise(&args(words).site(None).unwrap())
}

/// A directory with the layout of the root of a host.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let name = format!("fulmar-tune-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_report_of_100_gbit_over_an_ocean_is_unchanged() {
    let text = report::text(&advice(&["--for", "kernel"]), None, &Names::default());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cli/tune-ocean.txt");
    if std::env::var_os("FULMAR_WRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    assert!(text == expected, "FULMAR_WRITE=1 updates the file; check the difference:\n{text}");
}

#[test]
fn lines_of_the_report_fit_a_terminal() {
    for whose in ["kernel", "fulmar"] {
        for load in ["selftest", "lustre"] {
            let words = ["--for", whose, "--load", load, "--routers", "3", "--memory", "1G"];
            let text = report::text(&advice(&words), None, &Names::default());
            let table = text.split("\n# ").next().unwrap();
            let long = table.lines().filter(|line| line.chars().count() > 100);
            assert_eq!(long.collect::<Vec<_>>(), [""; 0], "{words:?}");
        }
    }
}

#[test]
fn host_settings_are_read_from_files() {
    let root = Root::new("host");
    root.file("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n");
    root.file("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
    root.file("proc/meminfo", "MemTotal:       65536 kB\nMemFree: 1 kB\n");
    root.file("proc/net/route", "Iface\tDestination\neth1\t0000000A\t0\nens5\t00000000\t0\n");
    root.file("sys/class/net/ens5/mtu", "1500\n");
    root.file("sys/class/net/ens5/speed", "100000\n");
    root.file("sys/class/net/ens5/queues/tx-0/xps_cpus", "1\n");
    root.file("sys/class/net/ens5/queues/tx-1/xps_cpus", "2\n");
    root.file("sys/class/net/ens5/queues/rx-0/rps_cpus", "2\n");
    root.file("sys/module/ksocklnd/parameters/peer_credits", "16\n");
    let mut host = Host::of_files(&root.0, None);
    host.modules(&root.0.join("sys/module"));
    assert_eq!(host.present.get("net.ipv4.tcp_rmem"), Some("4096 131072 33554432"));
    assert_eq!(host.device.as_deref(), Some("ens5"));
    assert_eq!((host.memory, host.present.get("mtu")), (Some(64 << 20), Some("1500")));
    assert_eq!(host.present.get("peer_credits"), Some("16"));
    assert_eq!((host.present.device_bits, host.queues), (Some(100_000_000_000), 2));
    let advice = advice(&["--for", "kernel"]);
    let text = report::text(&advice, Some(&host), &Names::default());
    let expected =
        "Limited by peer_credits: 2 pairs x 16 credits x 1 MiB / (89.1 µs + 50.5 ms round trip)";
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("(parameters of the kernel's LNet)"), "{text}");
}

#[test]
fn a_host_without_settings_gets_defaults() {
    let root = Root::new("bare");
    let mut host = Host::of_files(&root.0, Some("eth9"));
    host.modules(&root.0.join("sys/module"));
    assert!(host.present.values.is_empty());
    assert_eq!((host.present.device_bits, host.queues), (None, 0));
    assert_eq!(host.lnet, "defaults: the kernel's LNet is not loaded here");
}

#[test]
fn each_queue_of_a_device_gets_a_discipline_of_its_own() {
    let device = |has_queues| {
        let names = Names { has_queues, ..Names::default() };
        only(&advice(&[]), &names, Language::Device).unwrap()
    };
    assert!(device(false).ends_with("tc qdisc replace dev eth0 root fq\n"));
    assert!(device(true).ends_with("tc qdisc replace dev eth0 root mq\n"));
}

#[test]
fn a_kernel_node_with_a_mount_is_told_how_to_change() {
    let lnetctl =
        |whose| only(&advice(&["--for", whose]), &Names::default(), Language::Lnetctl).unwrap();
    assert!(lnetctl("kernel").contains("umount -a -t lustre && lustre_rmmod"));
    assert!(!lnetctl("fulmar").contains("umount"));
}

#[test]
fn json_has_the_advice_the_prediction_and_the_texts() {
    let text = report::json(&advice(&[]), None, &Names::default());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["advice"]["prediction"]["bound"], "line");
    assert_eq!(value["advice"]["plan"]["congestion"], "bbr");
    assert_eq!(value["now"], serde_json::Value::Null);
    assert!(value["texts"].as_array().unwrap().len() >= 5);
    let settings = value["advice"]["settings"].as_array().unwrap();
    assert!(settings.iter().all(|setting| setting["why"].as_str().unwrap().len() > 3));
}

#[test]
fn every_option_has_help_and_errors_are_reported() {
    Args::command().debug_assert();
    let wrong = |words: &[&str]| {
        let words = OCEAN.iter().chain(words);
        Args::try_parse_from(words).unwrap_err().to_string()
    };
    assert!(wrong(&["--loss", "2"]).contains("such as 0.01%, or a fraction, such as 1e-4"));
    assert!(wrong(&["--device", "eth0; reboot"]).contains("not a valid name of a network device"));
    assert!(wrong(&["--memory", "much"]).contains("such as 64G"));
}

#[test]
fn the_round_trip_to_this_host_is_measured() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let took = measure::round_trip(&listener.local_addr().unwrap().to_string()).unwrap();
    assert!(took > Duration::ZERO);
    let error = measure::round_trip("no.such.host.invalid").unwrap_err();
    assert!(error.contains("cannot resolve"), "{error}");
}
