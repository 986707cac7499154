//! Configurations as sites write them, and as kernel nodes export them: `testdata/configs`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use fulmar_net::Interface;

use super::{Interfaces, LnetConf, NodeConfig, Source};
use crate::show;
use crate::value::Dialect;

/// A machine with the Ethernet interfaces of all files.
struct Site;

impl Interfaces for Site {
    fn list(&self) -> Vec<Interface> {
        let interface = |name: &str, addresses: &[&str]| Interface {
            name: name.into(),
            addresses: addresses.iter().map(|ip| ip.parse::<IpAddr>().unwrap()).collect(),
            up: true,
            speed: Some(10_000),
        };
        vec![
            interface("lo", &["127.0.0.1"]),
            interface("eth0", &["10.99.0.2", "10.99.0.202"]),
            interface("eth1", &["10.99.1.2"]),
            interface("bond0.120", &["10.120.0.5"]),
        ]
    }
}

/// Files with networks that need another LND.
const INFINIBAND: [&str; 2] = ["infiniband-and-ethernet.yaml", "infiniband.conf"];

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/configs");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 30, "{files:?}");
    files
}

fn source(file: &Path) -> (String, Source) {
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(file).unwrap();
    (name.clone(), Source::new(name, text))
}

#[test]
fn each_is_read_and_fits_a_machine_with_its_interfaces() {
    for file in files() {
        let (name, source) = source(&file);
        let config = NodeConfig::parse(&source).unwrap_or_else(|error| panic!("{error}"));
        let problems = config.problems(&Site);
        if INFINIBAND.contains(&name.as_str()) {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(told, ["network o2ib needs an LND that this node does not have"], "{name}");
        } else {
            assert_eq!(problems, [], "{name}");
            assert!(!config.nis(&Site).unwrap().is_empty(), "{name}");
        }
        config.globals().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn each_lnet_conf_is_printed_and_read_again_the_same() {
    let is_yaml = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "yaml");
    for file in files().into_iter().filter(is_yaml) {
        let (name, source) = source(&file);
        let conf = LnetConf::parse(&source).unwrap();
        for dialect in [Dialect::Netlink, Dialect::Cyaml] {
            let printed = show::backup(&conf).to_yaml(dialect);
            let at = |section: &str| printed.find(&format!("\n{section}:\n"));
            assert!(
                at("peer").is_none() || at("route").is_none_or(|route| at("peer") < Some(route))
            );
            let again = LnetConf::parse(&Source::new("printed", printed.clone()));
            let again = again.unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
            assert_eq!(again, conf, "{name}:\n{printed}");
        }
    }
}

fn nis_of(name: &str) -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/configs");
    let (_, source) = source(&directory.join(name));
    let config = NodeConfig::parse(&source).unwrap();
    let nis = config.nis(&Site).unwrap();
    let one = |ni: &super::NiSpec| {
        let cpts = ni.cpts.as_ref().map_or(String::new(), |cpts| format!(" {cpts:?}"));
        format!(
            "{} {} {}/{}{cpts}",
            ni.nid, ni.interface, ni.tunables.peer_credits, ni.tunables.credits
        )
    };
    nis.iter().map(one).collect()
}

#[test]
fn their_settings_reach_the_interfaces() {
    for (name, wanted) in [
        (
            "multirail-client.yaml",
            vec!["10.99.0.2@tcp eth0 16/512 [0]", "10.99.1.2@tcp eth1 16/512 [1]"],
        ),
        ("defaults-spelled-out.yaml", vec!["10.99.0.2@tcp eth0 8/256"]),
        ("by-address.yaml", vec!["10.99.0.202@tcp eth0 8/256"]),
        ("before-2.10.yaml", vec!["10.99.0.2@tcp eth0 8/256 [0]"]),
        ("continued-lines.conf", vec!["10.99.0.2@tcp eth0 16/512", "10.99.1.2@tcp1 eth1 16/512"]),
        ("single-quotes.conf", vec!["10.99.0.2@tcp eth0 8/256", "10.99.1.2@tcp1 eth1 8/256"]),
        ("ip2nets.yaml", vec!["10.99.0.2@tcp eth0 32/256", "10.99.1.2@tcp1 eth1 8/256"]),
        (
            "export-2.17-multirail.yaml",
            vec!["10.99.0.2@tcp eth0 8/256 [0]", "10.99.1.2@tcp eth1 8/256 [0]"],
        ),
    ] {
        assert_eq!(nis_of(name), wanted, "{name}");
    }
}
