//! Suites of others, where they are installed.

use std::io::Write;
use std::process::Command;

use crate::rig::Rig;

const PJDFSTEST: &str = include_str!("pjdfstest.toml");

#[test]
fn pjdfstest_passes() {
    // By `cargo install pjdfstest`.
    if Command::new("pjdfstest").arg("--version").output().is_err() {
        let line = "\nNOT RUN: pjdfstest, which is not installed";
        return writeln!(std::io::stderr(), "{line}").unwrap();
    }
    let Some(mut rig) = Rig::start("pjdfstest") else { return };
    let lv = rig.mount("");
    let configuration = lv.with_extension("toml");
    std::fs::write(&configuration, PJDFSTEST).unwrap();
    let mut suite = Command::new("pjdfstest");
    suite.arg("-c").arg(&configuration).arg("-p").arg(&lv);
    let output = suite.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    rig.stop();
}
