//! `--tcp KEY=VALUE`.

use std::str::FromStr;

use fulmar_sim::options::{Control, HyStart, Tcp};
use fulmar_tune::quantity;

/// One setting of TCP.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    key: &'static Key,
    value: String,
}

/// A setting that exists.
#[derive(Debug)]
struct Key {
    name: &'static str,
    /// Its values and its meaning, for people.
    help: &'static str,
    set: fn(&mut Tcp, &str) -> Result<(), String>,
}

const KEYS: [Key; 9] = [
    Key {
        name: "window",
        help: "SIZE: data in flight of a connection, that both buffers hold",
        set: |tcp, text| bytes(text).map(|size| (tcp.read_buffer, tcp.write_buffer) = (size, size)),
    },
    Key {
        name: "rmem",
        help: "SIZE: the limit of tcp_rmem; half of it is the largest window [6M]",
        set: |tcp, text| bytes(text).map(|size| tcp.read_buffer = size / 2),
    },
    Key {
        name: "wmem",
        help: "SIZE: the limit of tcp_wmem, unsent and unacknowledged data [4M]",
        set: |tcp, text| bytes(text).map(|size| tcp.write_buffer = size),
    },
    Key {
        name: "congestion",
        help: "cubic, reno or bbr [cubic]",
        set: |tcp, text| control(text).map(|control| tcp.congestion = control),
    },
    Key {
        name: "initial-window",
        help: "PACKETS: the first congestion window [10]",
        set: |tcp, text| packets(text).map(|packets| tcp.initial_window = packets),
    },
    Key {
        name: "hystart",
        help: "off, delay, train or both: what ends slow start before a loss [both]",
        set: |tcp, text| hystart(text).map(|hystart| tcp.hystart = hystart),
    },
    Key {
        name: "idle-restart",
        help: "on or off: a connection that was idle starts with a small window [on]",
        set: |tcp, text| switch(text).map(|on| tcp.idle_restart = on),
    },
    Key {
        name: "autotune",
        help: "on or off: buffers begin small and grow with the traffic [on]",
        set: |tcp, text| switch(text).map(|on| tcp.autotune = on),
    },
    Key {
        name: "delayed-acks",
        help: "on or off: single packets are acknowledged later [on]",
        set: |tcp, text| switch(text).map(|on| tcp.delayed_acks = on),
    },
];

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            let all = KEYS.iter().map(|key| format!("\n  {}={}", key.name, key.help));
            let all = format!("the settings of TCP are{}", all.collect::<String>());
            if name == "help" { all } else { format!("there is no setting \"{name}\": {all}") }
        })?;
        if value.is_empty() {
            return Err(format!("{name} has no value: write {name}={}", key.help));
        }
        (key.set)(&mut Tcp::linux(), value).map_err(|error| format!("{name}={error}"))?;
        Ok(Self { key, value: value.to_owned() })
    }
}

/// Returns the settings of Linux with these changes.
pub(super) fn settings(changes: &[Setting], mtu: u32) -> Tcp {
    let mut tcp = Tcp { mtu, ..Tcp::linux() };
    for Setting { key, value } in changes {
        (key.set)(&mut tcp, value).expect("it was parsed before");
    }
    tcp
}

fn bytes(text: &str) -> Result<u64, String> {
    match quantity::size(text)? {
        bytes @ 4096.. => Ok(bytes),
        _ => Err(format!("{text}: a buffer has 4096 bytes or more, such as 64M")),
    }
}

fn packets(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(packets @ 1..=1_000_000) => Ok(packets),
        _ => Err(format!("{text:?}: write 1 to 1000000 packets")),
    }
}

fn control(text: &str) -> Result<Control, String> {
    let all = [Control::Cubic, Control::Reno, Control::Bbr];
    let found = all.into_iter().find(|control| control.name() == text);
    found.ok_or_else(|| format!("{text:?}: write cubic, reno or bbr"))
}

fn hystart(text: &str) -> Result<HyStart, String> {
    let found = HyStart::ALL.into_iter().find(|hystart| hystart.name() == text);
    found.ok_or_else(|| format!("{text:?}: write off, delay, train or both"))
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text:?}: write on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_change_what_linux_does() {
        let all = ["rmem=64M", "wmem=32M", "congestion=bbr", "hystart=off", "autotune=off"];
        let all: Vec<Setting> = all.iter().map(|text| text.parse().unwrap()).collect();
        let tcp = settings(&all, 1500);
        let expected = Tcp {
            read_buffer: 32 << 20,
            write_buffer: 32 << 20,
            congestion: Control::Bbr,
            hystart: HyStart::Off,
            autotune: false,
            ..Tcp::linux()
        };
        assert_eq!(tcp, expected);
        for (text, says) in [
            ("help", "rmem=SIZE"),
            ("rmem=1", "4096 bytes or more"),
            ("congestion=vegas", "write cubic, reno or bbr"),
            ("autotune=1", "write on or off"),
            ("hystart=on", "write off, delay, train or both"),
            ("initial-window=0", "write 1 to"),
        ] {
            let error = text.parse::<Setting>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
