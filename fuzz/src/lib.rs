//! The bodies of the larger fuzz targets: bytes between machines, and operations of one machine.
#![forbid(unsafe_code)]

pub mod ldlm_client;
pub mod ldlm_server;
pub mod lnet_ops;
pub mod rpc_server;
pub mod socklnd_pair;
pub mod socklnd_stream;

use std::fmt::{Debug, Display};
use std::str::FromStr;

/// Requires that a parsed value prints to text that parses to the same, and that an error has a
/// text.
pub fn print_and_parse<T: FromStr<Err: Display> + Display + Debug + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => {
            let printed = value.to_string();
            let again = printed.parse::<T>().unwrap_or_else(|error| panic!("{printed:?}: {error}"));
            assert_eq!(again, value, "{printed:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Choices from the fuzzer's bytes; zeros after their end.
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Returns a number below `bound`, which is at most 65,536.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let number = usize::from(self.byte());
        let number = if bound > 256 { number << 8 | usize::from(self.byte()) } else { number };
        number % bound.max(1)
    }

    pub(crate) fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;

    use super::*;

    /// Runs a target with random bytes, as a fuzzer does at first. `FUZZ_RUNS` and `FUZZ_SEED` say
    /// how often, and from which seed on. With `FUZZ_CORPUS`, a directory of the example `seed`,
    /// the bytes are those of its files, some of them changed.
    fn run_random(target: fn(&[u8])) {
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => text.parse().expect("it is a number"),
            Err(_) => default,
        };
        let files = corpus();
        let first = number("FUZZ_SEED", 0);
        for seed in first..first + number("FUZZ_RUNS", 2000) {
            let mut rng = Rng::new(seed);
            // Only printed if the test fails.
            println!("seed {seed}");
            target(&input(&mut rng, &files));
        }
    }

    fn corpus() -> Vec<Vec<u8>> {
        let Some(directory) = std::env::var_os("FUZZ_CORPUS") else { return vec![] };
        let entries = std::fs::read_dir(directory).expect("the corpus can be read");
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read(path).expect("the file can be read")).collect()
    }

    fn input(rng: &mut Rng, files: &[Vec<u8>]) -> Vec<u8> {
        if files.is_empty() {
            let most = [20, 200, 1000][rng.below(3) as usize];
            return (0..rng.below(most)).map(|_| rng.below(256) as u8).collect();
        }
        let mut bytes = files[rng.below(files.len() as u64) as usize].clone();
        for _ in 0..rng.below(6) {
            let at = rng.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.below(256) as u8;
            }
        }
        bytes
    }

    #[test]
    fn a_server_that_sends_what_it_likes_does_not_confuse_the_locks_of_a_client() {
        run_random(ldlm_client::run);
    }

    #[test]
    fn random_operations_keep_the_promises_of_lnet() {
        run_random(lnet_ops::run);
    }

    #[test]
    fn random_requests_leave_nothing_behind_in_a_lock_namespace() {
        run_random(ldlm_server::run);
    }

    #[test]
    fn random_requests_leave_nothing_behind_in_a_server() {
        run_random(rpc_server::run);
    }

    #[test]
    fn random_operations_keep_the_promises_between_two_socket_drivers() {
        run_random(socklnd_pair::run);
    }

    #[test]
    fn random_bytes_do_not_confuse_a_socket_driver() {
        run_random(socklnd_stream::run);
    }
}
