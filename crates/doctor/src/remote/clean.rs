//! Sanitises the evidence of a remote host for terminals and for commands.
//!
//! Findings put device names and CPU lists into commands that administrators run as root. Such
//! words are kept only in the form in which a kernel writes them; other text is made printable.

use fulmar_text::printable;

use crate::evidence::{Device, Host};

/// Most characters of a remote text that are shown.
const WORDS_MAX: usize = 300;
/// Longest name of a device, in bytes: the kernel's limit.
const NAME_MAX: usize = 15;

/// Returns a remote text as one printable line of limited length.
pub(super) fn words(text: &str) -> String {
    match text.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => printable(&text[..end]) + "...",
        None => printable(text),
    }
}

/// Returns the evidence of a remote host without invalid values.
pub(super) fn host(mut host: Host) -> Host {
    for text in [&mut host.name, &mut host.kernel, &mut host.fulmar] {
        *text = words(text);
    }
    let tcp = &mut host.tcp;
    for list in [&mut host.governors, &mut host.clock.available, &mut tcp.available] {
        list.iter_mut().for_each(|text| *text = words(text));
    }
    for text in [
        &mut host.clock.source,
        &mut tcp.congestion_control,
        &mut tcp.default_qdisc,
        &mut host.lustre,
        &mut host.firewall.tool,
    ] {
        *text = text.take().map(|text| words(&text));
    }
    // A NUMA node is identified by its index, so the list is kept completely or not at all.
    if !host.numa.iter().all(|list| is_cpu_list(list)) {
        host.numa.clear();
    }
    host.devices.retain(|device| is_device(&device.name));
    host.devices.iter_mut().for_each(clean_device);
    host.device = host.device.filter(|name| is_device(name));
    host
}

fn clean_device(device: &mut Device) {
    for text in [&mut device.duplex, &mut device.driver] {
        *text = text.take().map(|text| words(&text));
    }
    device
        .qdiscs
        .retain(|kind| is_made_of(kind, |c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_')));
    device.offloads.retain(|name, _| is_made_of(name, |c| matches!(c, b'a'..=b'z' | b'-')));
    for interrupt in &mut device.interrupts {
        interrupt.name = words(&interrupt.name);
        interrupt.affinity = interrupt.affinity.take().filter(|list| is_cpu_list(list));
    }
}

/// Returns whether this is a valid name of a network interface, and neither a command option nor a
/// directory.
fn is_device(name: &str) -> bool {
    let known = |c: u8| c.is_ascii_alphanumeric() || b"_.:@-".contains(&c);
    let first = name.bytes().next().is_some_and(|first| first != b'-');
    first && name.len() <= NAME_MAX && is_made_of(name, known) && !matches!(name, "." | "..")
}

/// Returns whether this is a CPU list such as `0-7,16`; a NUMA node without CPUs has an empty one.
fn is_cpu_list(list: &str) -> bool {
    list.is_empty() || is_made_of(list, |c| c.is_ascii_digit() || matches!(c, b',' | b'-'))
}

fn is_made_of(text: &str, known: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Interrupt, gather};

    #[test]
    fn valid_evidence_is_kept_unchanged() {
        let said = gather(Some("127.0.0.1".parse().unwrap()));
        assert_eq!(host(said.clone()), said);
    }

    #[test]
    fn only_valid_device_names_are_accepted() {
        for good in ["eth0", "bond0.12", "ens1f0np0", "wan-1", "br_lnet", "eth0:1", "veth1@if2"] {
            assert!(is_device(good), "{good}");
        }
        let bad =
            ["", ".", "..", "-K", "a b", "eth0;id", "a/b", "$(id)", "a\n", "abcdefghijklmnop"];
        for bad in bad.iter().chain(&["\u{e9}th0", "`id`", "a|b", "a>b", "a&b", "a'b", "a\"b"]) {
            assert!(!is_device(bad), "{bad}");
        }
    }

    #[test]
    fn text_that_is_unsafe_in_commands_is_removed() {
        let interrupt = Interrupt { affinity: Some("0;id".into()), ..Interrupt::default() };
        let device = Device {
            name: "eth0".into(),
            qdiscs: vec!["fq_codel".into(), "tbf; id".into()],
            offloads: [("tcp-segmentation-offload".to_owned(), true), ("a\nb".into(), true)].into(),
            interrupts: vec![interrupt],
            ..Device::default()
        };
        let hostile = Device { name: "eth0; curl x|sh".into(), ..Device::default() };
        let said = Host {
            numa: vec!["0-3".into(), "4-7 >/dev/null; id".into()],
            device: Some(hostile.name.clone()),
            devices: vec![device, hostile],
            ..Host::default()
        };
        let kept = host(said);
        assert_eq!((kept.numa.len(), kept.device, kept.devices.len()), (0, None, 1));
        let device = &kept.devices[0];
        assert_eq!(
            (device.qdiscs.as_slice(), device.offloads.len()),
            (&["fq_codel".into()][..], 1)
        );
        assert_eq!(device.interrupts[0].affinity, None);
    }

    #[test]
    fn a_text_becomes_one_line_of_limited_length() {
        assert_eq!(words("a\nERROR (1)"), "a?ERROR (1)");
        assert_eq!(words(&"\u{e9}".repeat(WORDS_MAX)).chars().count(), WORDS_MAX);
        assert_eq!(words(&"\u{e9}".repeat(WORDS_MAX + 1)).chars().count(), WORDS_MAX + 3);
    }
}
