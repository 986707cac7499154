//! Nodes at the usual port, which accept only privileged ports, in network namespaces.

mod cable;
mod tshark;

use self::cable::{Cable, IPV4, IPV6, not_run};

#[test]
fn over_ipv6_nodes_speak_version_4() {
    let Some(cable) = Cable::new() else { return };
    let server = cable.serve(1, IPV6[1]);
    let text = cable.run(0, &["converse", IPV6[0], IPV6[1]]);
    // RTE_DISABLED, NI_STATUS, MULTI_RAIL, DISCOVERY, LARGE_ADDR and PRIMARY_LARGE.
    for line in [
        "pinged [fd00:77::2@tcp]",
        "discovered fd00:77::2@tcp multi-rail=true",
        "pushed",
        "features 0x7e",
        "put 100",
        "put 65536",
        "put 1048576",
        "got 100 right",
        "got 1048576 right",
    ] {
        assert!(text.lines().any(|got| got == line), "{line:?} is missing in:\n{text}");
    }
    for kind in 1..=3 {
        let start = format!("connection {kind} version 4 port ");
        let port = text.lines().find_map(|line| line.strip_prefix(&start));
        let port: u16 = port.unwrap_or_else(|| panic!("{start:?} in:\n{text}")).parse().unwrap();
        assert!(port <= 1023, "port {port} is privileged");
    }
    let served = server.finish().unwrap();
    assert!(served.contains("stored 1048576 right") && !served.contains("WRONG"), "{served}");
    assert!(served.contains("refused 0"), "{served}");
}

#[test]
fn connections_from_unprivileged_ports_are_refused() {
    let Some(cable) = Cable::new() else { return };
    let server = cable.serve(1, IPV4[1]);
    // Root without the capability cannot bind a privileged port.
    let without = ["--inh-caps=-net_bind_service", "--bounding-set=-net_bind_service"];
    let peer = env!("CARGO_BIN_EXE_fulmar-peer");
    let mut call = cable.command(0, "setpriv");
    let output = call.args(without).args([peer, "call", IPV4[0], IPV4[1]]).output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if errors.contains("setpriv") {
        return not_run(&format!("setpriv of util-linux is needed: {errors}"));
    }
    assert!(text.starts_with("kept out: "), "{text}{errors}");
    let text = cable.run(0, &["call", IPV4[0], IPV4[1]]);
    assert_eq!(text, "let in: [10.77.0.2@tcp]\n", "the same with the privilege");
    let served = server.finish().unwrap();
    let refused = served.lines().find_map(|line| line.strip_prefix("refused "));
    let refused: u32 = refused.unwrap().parse().unwrap();
    assert!(refused > 0, "{served}");
}
