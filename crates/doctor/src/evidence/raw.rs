//! Raw evidence for a bundle: files and tool output, without secrets: no keys, no firewall rules,
//! no user names.

use fulmar_control::api::{Client, ExportAll};

use super::command::output;
use super::{Host, read};

/// Files that are copied.
const FILES: [&str; 17] = [
    "/proc/version",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/interrupts",
    "/proc/softirqs",
    "/proc/net/dev",
    "/proc/net/snmp",
    "/proc/net/netstat",
    "/proc/net/sockstat",
    "/proc/net/softnet_stat",
    "/proc/net/route",
    "/proc/sys/fs/file-nr",
    "/proc/uptime",
    "/proc/loadavg",
    "/etc/os-release",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/module/lnet/version",
];
/// Directories of sysctls that are copied, except keys.
const SYSCTLS: [&str; 2] = ["/proc/sys/net/core", "/proc/sys/net/ipv4"];
/// Commands whose output is kept.
const COMMANDS: [&[&str]; 9] = [
    &["uname", "-a"],
    &["ip", "-d", "-s", "link"],
    &["ip", "address"],
    &["ip", "route", "show", "table", "all"],
    &["ip", "rule"],
    &["tc", "-s", "qdisc"],
    &["ss", "-tmin", "state", "established", "( sport = 988 or dport = 988 )"],
    &["lscpu"],
    &["lnetctl", "export"],
];
/// Options with which ethtool runs for each interface.
const ETHTOOL: [&str; 6] = ["-i", "-g", "-k", "-c", "-l", "-S"];

/// A file of the bundle: its name and its text.
pub type Piece = (String, String);

/// Gathers all that is available, with the export of the local Fulmar node if one runs.
pub fn gather(host: &Host, client: &Client) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = FILES.iter().filter_map(|path| file(path)).collect();
    for directory in SYSCTLS {
        let names = super::entries(directory).into_iter();
        // The TCP fast open key is a secret.
        let lines = names.filter(|name| !name.contains("key") && !name.contains("secret"));
        let lines = lines.filter_map(|name| {
            let value = read(format!("{directory}/{name}"))?;
            Some(format!("{name} = {}\n", value.replace('\n', " ")))
        });
        let name = directory.trim_start_matches("/proc/sys/").replace('/', ".");
        pieces.push((format!("sysctl/{name}.txt"), lines.collect()));
    }
    for words in COMMANDS {
        if let Some(text) = output(words[0], &words[1..]) {
            let words = words.iter().take_while(|word| **word != "state");
            let name: Vec<&str> = words.copied().collect();
            pieces.push((format!("commands/{}.txt", name.join("_")), text));
        }
    }
    for device in host.devices.iter().filter(|device| !device.loopback) {
        for option in ETHTOOL {
            if let Some(text) = output("ethtool", &[option, &device.name]) {
                pieces.push((format!("commands/ethtool_{option}_{}.txt", device.name), text));
            }
        }
    }
    pieces.extend(node(client));
    pieces
}

fn file(path: &str) -> Option<Piece> {
    let text = read(path)?;
    Some((format!("files{path}"), text + "\n"))
}

fn node(client: &Client) -> Option<Piece> {
    let export = client.call(&ExportAll {}).ok()?;
    let text = serde_json::to_string_pretty(&export).ok()?;
    Some(("node/export.json".to_owned(), text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_sysctls_are_copied_without_keys() {
        let pieces = gather(&Host::default(), &Client::new("/no/such.sock"));
        let text = |name: &str| {
            let piece = pieces.iter().find(|(piece, _)| piece == name);
            piece.map(|(_, text)| text.as_str()).unwrap_or_default()
        };
        assert!(text("files/proc/version").contains("Linux"));
        assert!(text("sysctl/net.ipv4.txt").contains("tcp_congestion_control = "));
        assert!(!text("sysctl/net.ipv4.txt").contains("fastopen_key"));
    }
}
