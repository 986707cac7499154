//! Every structure of the captures is decoded, and encodes to the bytes that the nodes sent. Their
//! numbers agree with ptlrpc-ldlm-mgs §39.1 and mdt-ost §26.1.

use crate::buffers::Counts;
use crate::messages::puts;

/// Decodes a trace, and requires `total` structures, among them these.
fn check(trace: &str, total: usize, expected: &[(&str, usize)]) {
    let mut counts = Counts::default();
    puts(trace).iter().for_each(|put| counts.add(put));
    for (name, count) in expected {
        assert_eq!(counts.0.get(name), Some(count), "{name} in {trace}: {:?}", counts.0);
    }
    assert_eq!(counts.0.values().sum::<usize>(), total, "{trace}: {:?}", counts.0);
}

#[test]
fn a_mount_reads_the_configuration() {
    // Two logs of 29 records; the table of NIDs.
    let expected = [("ConfigRecord", 58), ("LogHeader", 2), ("NidTable", 1), ("Intent", 2)];
    check("mount", 110, &expected);
    check("mount-fresh", 203, &[("ConfigRecord", 70), ("OstLvb", 9)]);
}

#[test]
fn metadata_is_changed() {
    let expected = [("IoEpoch", 162), ("BatchHeader", 9), ("DirectoryPage", 7), ("Reint", 498)];
    check("meta", 3318, &expected);
}

#[test]
fn data_is_read_and_written() {
    let expected = [("IoObject", 19), ("Niobuf", 19), ("IoEpoch", 29), ("LayoutIntent", 6)];
    check("data", 1105, &expected);
}

#[test]
fn two_clients_share_files() {
    let expected = [("IoObject", 8), ("Intent", 34), ("IoEpoch", 11), ("LayoutIntent", 1)];
    check("contend", 396, &expected);
}

#[test]
fn servers_restart() {
    let expected = [("IoObject", 23), ("IoEpoch", 36), ("ConfigRead", 4), ("LogHeader", 4)];
    check("recovery", 1437, &expected);
}

#[test]
fn an_ost_joins() {
    let expected = [("TargetInfo", 4), ("ConfigRecord", 148), ("IndexPage", 1), ("SeqRanges", 1)];
    check("ost-join", 342, &expected);
}
