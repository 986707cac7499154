//! Applies the texts that `fulmar tune` prints without changes.

use fulmar::demo::ocean::{DEVICE, LINK_IPS, Sites};
use fulmar_link::{Namespace, set_congestion};
use fulmar_tune::advice::Advice;
use fulmar_tune::texts::{self, Block, Language, Names};

use crate::lab::{LstReport, Settings, not_run};

/// Applies the texts of an advice to two nodes without routers: the configuration file, the
/// settings of TCP and of the device, and the command that measures. Returns the payload in bytes
/// per second.
///
/// Settings of the whole machine, `net.core`, are left out.
///
/// # Errors
/// Which text fails.
pub fn as_printed(sites: &Sites, advice: &Advice) -> Result<f64, String> {
    let names = Names {
        net: "tcp".into(),
        has_queues: false,
        interface: DEVICE.into(),
        clients: format!("{}@tcp", LINK_IPS[0]),
        servers: format!("{}@tcp", LINK_IPS[1]),
    };
    let blocks = texts::blocks(advice, &names);
    for host in sites.ends() {
        for line in text(&blocks, Language::Sysctl)?.lines() {
            set(host, line)?;
        }
        for line in text(&blocks, Language::Device)?.lines() {
            follow(host, line)?;
        }
    }
    let settings = || text(&blocks, Language::Node).map(Settings::verbatim);
    let [a, b] = sites.ends();
    let a = sites.start(a, &settings()?)?;
    let _b = sites.start(b, &settings()?)?;
    let command = text(&blocks, Language::Lst)?.trim();
    let words = command
        .strip_prefix("fulmar ")
        .ok_or_else(|| format!("{command:?} is not a command of fulmar"))?;
    let output = a.tool(&words.replacen("lst run", "lst run --json", 1)).output();
    let output = output.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let report: LstReport = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    report.rate()
}

fn text(blocks: &[Block], language: Language) -> Result<&str, String> {
    let block = blocks.iter().find(|block| block.language == language);
    block.map(|block| block.text.as_str()).ok_or_else(|| format!("{language:?} is not printed"))
}

/// Runs a command that configures a device. Not every kernel has the advised queueing discipline;
/// TCP paces itself without it.
fn follow(host: &Namespace, command: &str) -> Result<(), String> {
    match host.run("sh", &["-ec", command]) {
        Err(why) if why.to_string().contains("qdisc kind is unknown") => {
            not_run(&format!("{command}: this kernel lacks the queueing discipline"));
            Ok(())
        }
        result => result.map(drop).map_err(|error| error.to_string()),
    }
}

/// Applies a line of sysctl.d, if the setting belongs to a namespace.
fn set(host: &Namespace, line: &str) -> Result<(), String> {
    match line.split_once('=') {
        Some((name, value)) if name.trim() == "net.ipv4.tcp_congestion_control" => {
            set_congestion(host.name(), value.trim()).map_err(|error| error.to_string())
        }
        Some((name, value)) if name.starts_with("net.ipv4.") => {
            let setting = format!("{}={}", name.trim(), value.trim());
            host.run("sysctl", &["-qw", &setting]).map(drop).map_err(|error| error.to_string())
        }
        _ => Ok(()),
    }
}
