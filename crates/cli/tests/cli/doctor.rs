//! `fulmar doctor` on one host. Checks that need two hosts are tested in the testbed.

use std::process::Command;

#[test]
fn invalid_requests_and_findings_have_different_statuses() {
    let doctor = |words: &[&str]| {
        let fulmar = env!("CARGO_BIN_EXE_fulmar");
        let output = Command::new(fulmar).arg("doctor").args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), text)
    };
    let (status, text) = doctor(&["--only", "tcp"]);
    assert_eq!((status, text.contains("tcp needs a remote host: fulmar doctor HOST")), (2, true));
    let (status, text) = doctor(&["--only", "cpu", "--skip", "cpu"]);
    assert_eq!((status, text.contains("no check is left")), (2, true), "{text}");
    assert_eq!(doctor(&["no-such-host.invalid", "--only", "names"]).0, 1);
    assert_eq!(doctor(&["--only", "limits,cpu"]).0, 0);
}
