//! `--tcp KEY=VALUE`.

use std::str::FromStr;

use fulmar_sim::options::{Control, HyStart, Tcp};
use fulmar_tune::quantity;

/// One setting of TCP.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    key: &'static Key,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Bytes(u64),
    Packets(u32),
    Control(Control),
    HyStart(HyStart),
    Switch(bool),
}

/// A setting that exists.
#[derive(Debug)]
struct Key {
    name: &'static str,
    /// Its values and its meaning, for people.
    help: &'static str,
    parse: fn(&str) -> Result<Value, String>,
    set: fn(&mut Tcp, Value),
}

const KEYS: [Key; 9] = [
    Key {
        name: "window",
        help: "SIZE: data in flight of a connection, that both buffers hold",
        parse: bytes,
        set: |tcp, value| {
            if let Value::Bytes(bytes) = value {
                (tcp.read_buffer, tcp.write_buffer) = (bytes, bytes);
            }
        },
    },
    Key {
        name: "rmem",
        help: "SIZE: the limit of tcp_rmem; half of it is the largest window [6M]",
        parse: bytes,
        set: |tcp, value| {
            if let Value::Bytes(bytes) = value {
                tcp.read_buffer = (bytes / 2).max(1);
            }
        },
    },
    Key {
        name: "wmem",
        help: "SIZE: the limit of tcp_wmem, unsent and unacknowledged data [4M]",
        parse: bytes,
        set: |tcp, value| {
            if let Value::Bytes(bytes) = value {
                tcp.write_buffer = bytes;
            }
        },
    },
    Key {
        name: "congestion",
        help: "cubic, reno or bbr [cubic]",
        parse: control,
        set: |tcp, value| {
            if let Value::Control(control) = value {
                tcp.congestion = control;
            }
        },
    },
    Key {
        name: "initial-window",
        help: "PACKETS: the first congestion window [10]",
        parse: packets,
        set: |tcp, value| {
            if let Value::Packets(packets) = value {
                tcp.initial_window = packets;
            }
        },
    },
    Key {
        name: "hystart",
        help: "off, delay, train or both: what ends slow start before a loss [both]",
        parse: hystart,
        set: |tcp, value| {
            if let Value::HyStart(hystart) = value {
                tcp.hystart = hystart;
            }
        },
    },
    Key {
        name: "idle-restart",
        help: "on or off: a connection that was idle starts with a small window [on]",
        parse: switch,
        set: |tcp, value| {
            if let Value::Switch(on) = value {
                tcp.idle_restart = on;
            }
        },
    },
    Key {
        name: "autotune",
        help: "on or off: buffers begin small and grow with the traffic [on]",
        parse: switch,
        set: |tcp, value| {
            if let Value::Switch(on) = value {
                tcp.autotune = on;
            }
        },
    },
    Key {
        name: "delayed-acks",
        help: "on or off: single packets are acknowledged later [on]",
        parse: switch,
        set: |tcp, value| {
            if let Value::Switch(on) = value {
                tcp.delayed_acks = on;
            }
        },
    },
];

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            let all = KEYS.iter().map(|key| format!("\n  {}={}", key.name, key.help));
            format!("the settings are{}", all.collect::<String>())
        })?;
        (key.parse)(value).map(|value| Self { key, value })
    }
}

/// Returns the settings of Linux with these changes.
pub(super) fn settings(changes: &[Setting], mtu: u32) -> Tcp {
    let mut tcp = Tcp { mtu, ..Tcp::linux() };
    for Setting { key, value } in changes {
        (key.set)(&mut tcp, *value);
    }
    tcp
}

fn bytes(text: &str) -> Result<Value, String> {
    match quantity::size(text)? {
        bytes @ 4096.. => Ok(Value::Bytes(bytes)),
        _ => Err(format!("{text}: a buffer has 4096 bytes or more")),
    }
}

fn packets(text: &str) -> Result<Value, String> {
    match text.parse() {
        Ok(packets @ 1..=1_000_000) => Ok(Value::Packets(packets)),
        _ => Err(format!("{text:?}: write 1 to 1000000 packets")),
    }
}

fn control(text: &str) -> Result<Value, String> {
    let all = [Control::Cubic, Control::Reno, Control::Bbr];
    let found = all.into_iter().find(|control| control.name() == text);
    found.map(Value::Control).ok_or_else(|| format!("{text:?}: write cubic, reno or bbr"))
}

fn hystart(text: &str) -> Result<Value, String> {
    let found = HyStart::ALL.into_iter().find(|hystart| hystart.name() == text);
    found.map(Value::HyStart).ok_or_else(|| format!("{text:?}: write off, delay, train or both"))
}

fn switch(text: &str) -> Result<Value, String> {
    match text {
        "on" => Ok(Value::Switch(true)),
        "off" => Ok(Value::Switch(false)),
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
