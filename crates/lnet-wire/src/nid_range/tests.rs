use proptest::prelude::*;

use super::*;

fn range(text: &str) -> NidRange {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn list(text: &str) -> NidList {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn nid(text: &str) -> Nid {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn expand(text: &str) -> Vec<String> {
    let nids = list(text).expand(8).unwrap_or_else(|error| panic!("{text}: {error}"));
    nids.iter().map(ToString::to_string).collect()
}

#[test]
fn a_pattern_matches_part_by_part() {
    let odd = range("10.0.0.[1-9/2]@tcp3");
    assert!(odd.matches(nid("10.0.0.7@tcp3")));
    assert!(!odd.matches(nid("10.0.0.8@tcp3")));
    assert!(!odd.matches(nid("10.0.0.7@tcp")));
    assert!(!odd.matches(nid("10.0.0.7@o2ib3")));
    let many = range("10.0.[1-5].*@tcp");
    assert!(many.matches(nid("10.0.5.250@tcp")));
    assert!(!many.matches(nid("10.0.6.250@tcp")));
    assert!(range("[1-20]@gni").matches(nid("20@gni")));
    assert!(range("0@lo").matches(Nid::LOOPBACK));
}

#[test]
fn a_star_matches_every_address_of_the_networks() {
    let nets = range("*@o2ib[0-3]");
    assert!(nets.matches(nid("10.0.0.1@o2ib")));
    assert!(nets.matches(nid("fd00::1@o2ib3")));
    assert!(!nets.matches(nid("10.0.0.1@o2ib4")));
    assert!(range("*@tcp*").matches(nid("10.0.0.1@tcp77")));
    assert!(!range("*@tcp*").matches(Nid::ANY));
    assert!(!range("*@tcp").matches(Nid::LOOPBACK));
}

#[test]
fn a_prefix_matches_its_network_in_its_own_family() {
    let wide = range("192.168.1.0/16@tcp");
    assert!(wide.matches(nid("192.168.77.1@tcp")));
    assert!(!wide.matches(nid("192.169.0.1@tcp")));
    assert!(range("0.0.0.0/0@tcp").matches(nid("1.2.3.4@tcp")));
    assert!(!range("0.0.0.0/0@tcp").matches(nid("fd00::1@tcp")));
    assert!(range("fd00:99::/32@tcp").matches(nid("fd00:99:1::4@tcp")));
    assert!(range("::/0@tcp").matches(nid("fd00::1@tcp")));
    assert!(range("fd00::1@tcp").matches(nid("fd00::1@tcp")));
    assert!(!range("fd00::1@tcp").matches(nid("fd00::2@tcp")));
}

#[test]
fn network_ranges_stand_alone_too() {
    let nets: NetRange = "o2ib[0-3]".parse().unwrap();
    assert!(nets.contains(Net::new(NetType::O2IB, 3)));
    assert!(!nets.contains(Net::new(NetType::O2IB, 4)));
    assert!(!"tcp*".parse::<NetRange>().unwrap().contains(Net::ANY));
    assert_eq!("tcp0".parse::<NetRange>().unwrap().to_string(), "tcp");
}

#[test]
fn lists_expand_in_the_order_written_without_repetition() {
    let text = "10.0.[1,0].[1-3/2]@tcp, 10.0.0.3 17@gni";
    let nids = ["10.0.1.1@tcp", "10.0.1.3@tcp", "10.0.0.1@tcp", "10.0.0.3@tcp", "17@gni"];
    assert_eq!(expand(text), nids);
    assert_eq!(expand("10.0.0.1@tcp[0-1]"), ["10.0.0.1@tcp", "10.0.0.1@tcp1"]);
    assert_eq!(expand("10.0.0.7/31@tcp"), ["10.0.0.6@tcp", "10.0.0.7@tcp"]);
    assert_eq!(expand("fd00::1@tcp\t0@lo"), ["fd00::1@tcp", "0@lo"]);
    assert_eq!(expand("255.255.255.255/32 ffff::/128"), ["255.255.255.255@tcp", "ffff::@tcp"]);
}

#[test]
fn sets_that_are_too_large_to_list_are_refused_quickly() {
    let error = |text: &str| list(text).expand(4).unwrap_err().to_string();
    for text in ["*@tcp", "10.0.0.*@tcp", "10.0.0.1@tcp*"] {
        let expected = format!("{text} cannot be listed: write a range such as [1-20]");
        assert!(error(text).starts_with(&expected), "{}", error(text));
    }
    for text in [
        "10.0.0.[1-5]@tcp",
        "::/0@tcp",
        "0.0.0.0/0@tcp",
        "[0-4294967295]@gni",
        "[0-255].[0-255].[0-255].[0-255]@tcp[0-65535]",
        "10.0.0.[1-3]@tcp 10.0.0.[4-5]@tcp",
    ] {
        let error = error(text);
        assert!(error.ends_with("more than 4 NIDs: write smaller ranges"), "{error}");
    }
    assert_eq!(list("10.0.0.[1-4]@tcp 10.0.0.[1-4]@tcp").expand(4).unwrap().len(), 4);
}

#[test]
fn errors_name_the_column_and_the_correction() {
    for (text, error) in [
        ("", "column 1: nothing is given here"),
        (" , ", "column 1: nothing is given here"),
        ("10.0.0.[1-300]@tcp", "column 11: 300 is too large: use numbers from 0 to 255"),
        ("10.0.0.1@tcp 10.0.0.[9-3]@tcp", "column 22: the range 9-3 runs backwards: write 3-9"),
        ("10.0.[1-5]@tcp", "column 1: an IPv4 pattern has four parts and this one has 3"),
        ("10.0.0.1@tcp,10.0.0@tcp", "column 14: \"10.0.0\" is not an address on tcp"),
        ("10.0.0.1@ethernet", "column 10: \"ethernet\" is not a network"),
        ("10.0.0.1@tcp[0-65536]", "column 16: 65536 is too large: use numbers from 0 to 65535"),
        ("10.0.0.0/33@tcp", "column 10: \"33\" is not a prefix length: write a number"),
        ("10.0.0.[1-5@tcp", "column 8: brackets are not balanced"),
        ("0@lo3", "column 3: \"lo3\" is not a network: the loopback"),
        ("fd00::[1-3]@tcp", "column 1: an IPv4 pattern has four parts"),
        ("fd00::/64@gip", "column 1: \"fd00::\" is not an address on gip"),
        ("@tcp", "column 1: nothing is given here"),
    ] {
        let got = text.parse::<NidList>().unwrap_err().to_string();
        assert!(got.starts_with(error), "{text:?}: {got}");
    }
    let long = "1.1.1.1 ".repeat(1025);
    let error = long.parse::<NidList>().unwrap_err().to_string();
    assert!(error.contains("more than 1024 items"), "{error}");
}

#[test]
fn lists_print_in_the_order_of_the_text() {
    for text in [
        "10.0.0.[1-9/2]@tcp3",
        "10.0.[1-5].*@tcp *@o2ib[0-3]",
        "192.168.0.0/16@tcp fd00::/64@tcp fd00::1@tcp1",
        "[1-20,40]@kfi 0@lo *@tcp*",
    ] {
        assert_eq!(list(text).to_string(), text);
    }
    assert_eq!(list("10.0.0.1,10.0.0.2@tcp0").to_string(), "10.0.0.1@tcp 10.0.0.2@tcp");
}

fn number_list() -> impl Strategy<Value = String> {
    let range = (0..200u32, 0..56u32, 1..9u32)
        .prop_map(|(low, more, stride)| format!("{low}-{}/{stride}", low + more));
    prop_oneof![
        Just("*".to_owned()),
        (0..256u32).prop_map(|n| n.to_string()),
        prop::collection::vec(range, 1..4).prop_map(|ranges| format!("[{}]", ranges.join(","))),
    ]
}

proptest! {
    #[test]
    fn printed_lists_can_be_parsed(
        parts in prop::collection::vec(number_list(), 5),
        ip in any::<IpAddr>(),
        len in 0..=32u8,
    ) {
        let [a, b, c, d, net] = parts.as_slice() else { unreachable!() };
        let text = format!("{a}.{b}.{c}.{d}@tcp{net} {ip}/{len}@o2ib{net} {a}@gni");
        let list: NidList = text.parse().unwrap();
        prop_assert_eq!(list.to_string().parse::<NidList>(), Ok(list));
    }

    #[test]
    fn listed_nids_are_matched(a in number_list(), b in number_list(), len in 120..=128u8) {
        let list: NidList = format!("10.0.{a}.{b}@tcp fd00::/{len}@tcp").parse().unwrap();
        if let Ok(nids) = list.expand(70_000) {
            prop_assert!(nids.into_iter().all(|nid| list.matches(nid)));
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[-0-9a-z@/:.,*\\[\\] \u{e9}]*") {
        let _ = text.parse::<NidList>().map(|list| list.expand(100));
    }
}

#[test]
fn a_pattern_without_gaps_has_a_first_and_a_last_nid() {
    let bounds = |text: &str| {
        let range: NidRange = text.parse().unwrap();
        range.bounds().map(|(first, last)| format!("{first} {last}"))
    };
    for (text, expected) in [
        ("10.0.0.7@tcp", "10.0.0.7@tcp 10.0.0.7@tcp"),
        ("10.0.[1-2].*@tcp3", "10.0.1.0@tcp3 10.0.2.255@tcp3"),
        ("10.0.0.0/23@tcp", "10.0.0.0@tcp 10.0.1.255@tcp"),
        ("*@o2ib", "0.0.0.0@o2ib 255.255.255.255@o2ib"),
        ("[3-9]@gni", "3@gni 9@gni"),
    ] {
        assert_eq!(bounds(text).as_deref(), Some(expected), "{text}");
    }
    for text in
        ["10.0.[1-2].[1-9]@tcp", "10.0.0.[1-9/2]@tcp", "10.0.0.1@tcp[0-1]", "*@tcp*", "fd00::1"]
    {
        assert_eq!(bounds(text), None, "{text}");
    }
    let prefix = |text: &str| text.parse::<NidRange>().unwrap().prefix();
    assert_eq!(prefix("fd00::/64@tcp"), Some(("fd00::@tcp".parse().unwrap(), 64)));
    assert_eq!((prefix("10.0.0.0/8@tcp"), prefix("fd00::1@tcp[0-1]")), (None, None));
}
