//! Pure crates cannot observe the world; `unsafe` has one home.

use crate::Finding;
use crate::source::Source;

/// Crates that see no sockets, files, threads, clocks, environment or other sources of chance.
pub const PURE: &[&str] = &[
    "base",
    "text",
    "wire",
    "lnet-wire",
    "lnd",
    "socklnd",
    "lnet",
    "selftest",
    "trace",
    "node",
    "sim",
    "tune",
];

/// Crates that may hold `unsafe`.
pub const UNSAFE: &[&str] = &["net", "fuse"];

/// What would let a pure crate observe the world, or differ from run to run. Addresses
/// (`std::net::IpAddr`, `SocketAddr`) are values and not named here.
const WORLDLY: &[&str] = &[
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

/// Returns what the product code of a pure crate must not name. The programs of a crate (`main.rs`
/// and `bin/`) are shells around it and are let be.
pub fn check(source: &Source) -> Vec<Finding> {
    let pure = source.krate().is_some_and(|name| PURE.contains(&name));
    let library = source.path.contains("/src/")
        && !source.path.contains("/src/bin/")
        && !source.path.ends_with("/src/main.rs");
    if !pure || !library {
        return vec![];
    }
    let found = source.names_in_product().filter_map(|name| {
        let worldly = WORLDLY.iter().find(|path| name.contains(path))?;
        let what = format!("a pure crate may not know {worldly}: take what it gives as an input");
        Some(Finding::new("purity", &source.path, name.line, what))
    });
    found.collect()
}

/// Returns every `unsafe` outside of its home, tests included.
pub fn check_unsafe(source: &Source) -> Vec<Finding> {
    if source.krate().is_some_and(|name| UNSAFE.contains(&name)) {
        return vec![];
    }
    let found = source.names.iter().filter(|name| name.contains("unsafe"));
    found.map(|name| Finding::new("unsafe", &source.path, name.line, "unsafe code")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let source = Source::parse(path, text);
        check(&source).len() + check_unsafe(&source).len()
    }

    #[test]
    fn a_pure_crate_may_not_see_the_world() {
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
    fn tests_and_programs_and_other_crates_may_read_files() {
        let text = "fn f() { std::fs::read(p); }";
        assert_eq!(found("crates/trace/tests/traces.rs", text), 0);
        assert_eq!(found("crates/sim/src/main.rs", text), 0);
        assert_eq!(found("crates/net/src/lib.rs", text), 0);
    }
}
