//! Pure crates do no I/O; `unsafe` is allowed in few crates.

use crate::Finding;
use crate::source::Source;

/// Crates without sockets, files, threads, clocks, environment or other sources of nondeterminism.
pub const PURE: &[&str] = &[
    "base",
    "text",
    "wire",
    "lnet-wire",
    "lustre-wire",
    "checksum",
    "lnd",
    "socklnd",
    "lnet",
    "selftest",
    "rpc",
    "ldlm",
    "data",
    "mgs",
    "nodemap",
    "trace",
    "node",
    "sim",
    "tune",
    "top",
];

/// Crates that may contain `unsafe`.
pub const UNSAFE: &[&str] = &["net", "fuse", "testbed"];

/// Names that do I/O, or whose results differ from run to run. Addresses (`std::net::IpAddr`,
/// `SocketAddr`) are values and allowed.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::thread",
    "std::process",
    "std::os",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "ToSocketAddrs",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "RandomState",
    "async",
    "await",
    "tokio",
    "socket2",
    "rustix",
    "libc",
    "rand",
    "getrandom",
    "println",
    "eprintln",
    "print",
    "eprint",
];

/// Returns the impure names in the product code of a pure crate. Its programs (`main.rs` and
/// `bin/`) are not checked.
pub fn check(source: &Source) -> Vec<Finding> {
    let pure = source.krate().is_some_and(|name| PURE.contains(&name));
    let library = source.path.contains("/src/")
        && !source.path.contains("/src/bin/")
        && !source.path.ends_with("/src/main.rs");
    if !pure || !library {
        return vec![];
    }
    let found = source.names_in_product().filter_map(|name| {
        let impure = IMPURE.iter().find(|path| name.contains(path))?;
        let what = format!("a pure crate may not use {impure}: take its result as an input");
        Some(Finding::new("purity", &source.path, name.line, what))
    });
    found.collect()
}

/// Returns every `unsafe` outside the crates that may contain it, including tests.
pub fn check_unsafe(source: &Source) -> Vec<Finding> {
    if source.krate().is_some_and(|name| UNSAFE.contains(&name)) {
        return vec![];
    }
    let found = source.names.iter().filter(|name| name.contains("unsafe"));
    let what = "unsafe code belongs to the crate net";
    found.map(|name| Finding::new("unsafe", &source.path, name.line, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let source = Source::parse(path, text);
        check(&source).len() + check_unsafe(&source).len()
    }

    #[test]
    fn a_pure_crate_may_not_do_io() {
        for text in [
            "use std::time::{Duration, Instant};",
            "fn f() { std::fs::read(p); }",
            "async fn f() {}",
            "fn f() { println!(); }",
            "fn f() { unsafe { g() } }",
        ] {
            assert_eq!(found("crates/lnet/src/lib.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn addresses_and_durations_are_values() {
        let text = "use std::net::{IpAddr, SocketAddr}; use std::time::Duration;";
        assert_eq!(found("crates/lnet/src/lib.rs", text), 0);
    }

    #[test]
    fn tests_programs_and_other_crates_may_do_io() {
        let text = "fn f() { std::fs::read(p); }";
        assert_eq!(found("crates/trace/tests/traces.rs", text), 0);
        assert_eq!(found("crates/sim/src/main.rs", text), 0);
        assert_eq!(found("crates/net/src/lib.rs", text), 0);
    }
}
