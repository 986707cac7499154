//! Selection policies and fault injection, from the command line.

use super::lab::Lab;

#[test]
fn selection_policies_are_kept_in_their_order() {
    let lab = Lab::new("udsp");
    let a = lab.node(2);
    assert_eq!(a.output("lnetctl udsp show"), "");
    a.output("lnetctl udsp add --src tcp --priority 0");
    // As recorded on a real node.
    let tcp = "src: tcp\n      action:\n          priority: 0\n";
    assert_eq!(a.output("lnetctl udsp show"), format!("udsp:\n    - idx: 0\n      {tcp}"));
    a.output("lnetctl udsp add --src 127.0.0.2@tcp --dst 127.0.0.[3-9]@tcp --idx 0");
    let pair = "src: 127.0.0.2@tcp\n      dst: 127.0.0.[3-9]@tcp\n";
    let both = format!("udsp:\n    - idx: 0\n      {pair}    - idx: 1\n      {tcp}");
    assert_eq!(a.output("lnetctl udsp show"), both);
    let second = format!("udsp:\n    - idx: 1\n      {tcp}");
    assert_eq!(a.output("lnetctl udsp show --idx 1"), second);
    a.output("lnetctl export --backup rules.conf");
    assert!(a.output("lnetctl export").contains(&both));
    a.output("lnetctl udsp del --all");
    assert_eq!(a.output("lnetctl udsp show"), "");
    std::fs::write(lab.path("only.conf"), &both).unwrap();
    let done =
        "udsp src 127.0.0.2@tcp dst 127.0.0.[3-9]@tcp: added\nudsp src tcp priority 0: added\n";
    assert_eq!(a.output("lnetctl import only.conf"), done);
    assert_eq!(a.output("lnetctl udsp show"), both);
    std::fs::write(lab.path("one.conf"), "udsp:\n    - src: tcp\n").unwrap();
    a.output("lnetctl import --del one.conf");
    assert_eq!(a.output("lnetctl udsp show"), format!("udsp:\n    - idx: 0\n      {pair}"));
    drop(a);
    let again = lab.node_with(2, &["-c", "rules.conf"]);
    assert_eq!(again.output("lnetctl udsp show"), both, "a node starts with the rules of its file");
}

#[test]
fn wrong_selection_policies_are_refused() {
    let lab = Lab::new("udsp-wrong");
    let a = lab.node(2);
    a.output("lnetctl udsp add --src tcp1");
    for (words, status, expected) in [
        (
            "add --src tcp1 --priority 0",
            114,
            "add:\n    - udsp:\n          errno: 114\n          \
             descr: \"cannot add udsp: Operation already in progress\"\n",
        ),
        ("add --src tcp --rte 127.0.0.3@tcp", 234, "# hint: a rule has --src, --dst, --src with"),
        ("add --src tcp --dst tcp1 --priority 3", 234, "errno: -22\n"),
        ("add --src ethernet", 234, "\"ethernet\" is not an address on tcp"),
        ("del --idx 7", 254, "add:\n    - udsp:\n          errno: -2\n"),
        ("del", 234, "Must specify --idx or --all\n"),
        ("add --src tcp --priority -1", 234, "Invalid priority \"-1\"\n"),
    ] {
        let (got, _, err) = a.run(&format!("lnetctl udsp {words}"));
        assert!(got == status && err.contains(expected), "{words}: {got}\n{err}");
    }
    a.output("lnetctl udsp add --src tcp1 --priority 7");
    assert!(a.output("lnetctl udsp show").ends_with("priority: 7\n"), "a priority can be changed");
}

#[test]
fn faults_are_added_listed_and_removed() {
    let lab = Lab::new("faults");
    let a = lab.node(2);
    assert_eq!(a.output("lnetctl fault drop show"), "");
    a.output("lnetctl fault drop add -s 127.0.0.3@tcp -d *@tcp -r 100 -m PUT");
    let drop = "fault:\n-     rule_type: drop\n      fa_src: 127.0.0.3@tcp\n      \
                fa_dst: 255.255.255.255@tcp\n      fa_ptl_mask: 0\n      fa_msg_mask: 2\n      \
                da_rate: 100\n      da_interval: 0\n      ds_dropped: 0\n      fs_count: 0\n      \
                fs_put: 0\n      fs_ack: 0\n      fs_get: 0\n      fs_reply: 0\n";
    assert_eq!(a.output("lnetctl fault drop show"), drop);
    a.output("lnetctl fault delay add -s * -d * -i 7 -l 5");
    assert!(a.output("lnetctl fault delay show").contains("      la_latency: 5\n"));
    let (status, out, err) = a.run("lctl net_drop_list");
    let line = "127.0.0.3@tcp->255.255.255.255@tcp (1/100 | 0) ptl 0, msg 2, 0/0, \
                PUT 0, ACK 0, GET 0, REP 0\nfound total 1\n";
    assert_eq!((status, out.as_str(), err.as_str()), (0, line, "LNet drop rules:\n"));
    a.output("lctl net_delay add -s *@tcp -d 127.0.0.3@tcp -r 2 -l 1");
    let delays = "255.255.255.255@tcp->127.0.0.3@tcp (1/2 | 0) ptl 0, msg f, 0/0, \
                  PUT 0, ACK 0, GET 0, REP 0, latency 1\n\
                  <?>-><?> (1/0 | 7) ptl 0, msg f, 0/0, PUT 0, ACK 0, GET 0, REP 0, latency 5\n\
                  found total 2\n";
    assert_eq!(a.run("lctl net_delay list").1, delays, "the newest comes first");
    a.output("lctl net_delay_del -s *@tcp -d *");
    assert!(a.run("lctl net_delay_list").1.ends_with("found total 1\n"));
    a.output("lnetctl fault drop reset");
    a.output("lctl net_drop_reset");
    a.output("lnetctl fault drop del --all");
    a.output("lctl net_delay del -a");
    for words in ["lctl net_drop_list", "lctl net_delay_list"] {
        assert_eq!(a.run(words).1, "found total 0\n", "{words}");
    }
}

#[test]
fn a_rule_makes_every_second_ping_fail_until_it_is_removed() {
    let lab = Lab::new("faults-act");
    let (a, b) = (lab.node(2), lab.node(3));
    a.output("lnetctl discover 127.0.0.3@tcp");
    b.output("lnetctl fault drop add -s 127.0.0.2@tcp -d 127.0.0.3@tcp -r 2 -m GET");
    for window in 1..=2 {
        let pings = [(); 2].map(|()| a.run("lnetctl ping --timeout 3 127.0.0.3@tcp"));
        let failed: Vec<_> = pings.iter().filter(|(status, ..)| *status != 0).collect();
        assert_eq!(failed.len(), 1, "{pings:?}");
        assert!(failed[0].1.contains("errno: -110\n"), "{pings:?}");
        let counts = format!(
            "      ds_dropped: {window}\n      fs_count: {}\n      fs_put: 0\n      fs_ack: 0\n      \
             fs_get: {window}\n      fs_reply: 0\n",
            2 * window
        );
        let shown = b.output("lnetctl fault drop show");
        assert!(shown.ends_with(&counts), "{counts} is missing in:\n{shown}");
    }
    b.output("lnetctl fault drop del -s 127.0.0.2@tcp -d 127.0.0.3@tcp");
    for _ in 0..4 {
        a.output("lnetctl ping 127.0.0.3@tcp");
    }
    a.output("lctl fail 127.0.0.3@tcp 1");
    let (status, out, _) = a.run("lnetctl ping 127.0.0.3@tcp");
    assert!(status != 0 && out.contains("errno: -5\n"), "{status} {out}");
    a.output("lnetctl ping 127.0.0.3@tcp");
}

#[test]
fn wrong_faults_are_refused() {
    let lab = Lab::new("faults-wrong");
    let a = lab.node(2);
    let either = "please provide either drop rate or interval but not both at the same time.\n";
    for (words, status, expected) in [
        ("lnetctl fault drop add -s * -d *", 255, either),
        ("lctl net_drop_add -s * -d * -r 1 -i 1", 1, either),
        (
            "lctl net_delay_del -s *",
            1,
            "Please provide both source and destination of delay rule\n",
        ),
        (
            "lnetctl fault drop add -s * -d * -r 1 -p 3 -m ACK",
            234,
            "---\nadd:\n-     fault:\n      errno: -22\n      \
             descr: ! \"cannot add drop rule: Invalid argument\"\n...\n\
             # hint: only PUT and GET have a portal\n",
        ),
        (
            "lctl net_drop_add -s * -d * -r 1 -o 127.0.0.2@tcp -e random",
            22,
            "lctl: cannot add drop rule: Invalid argument\nhint: a rule has a rate or an interval; \
             --random needs an interval; --local_nid does not go with --health_error\n",
        ),
    ] {
        let (got, out, err) = a.run(words);
        assert_eq!((got, out.as_str(), err.as_str()), (status, "", expected), "{words}");
    }
    for words in ["lctl fail 127.0.0.3@tcp 2", "lctl fail _all_", "lctl fail _all_ 0"] {
        a.output(words);
    }
    let (status, _, err) = a.run("lctl fail nowhere");
    assert!(status == 22 && err.starts_with("Can't parse NID nowhere: "), "{err}");
}
