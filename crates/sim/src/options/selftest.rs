//! Runs with LNet selftest.

use std::fmt;
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_selftest::Config as SelftestConfig;
use fulmar_text::duration;

use super::{Cut, Options, pick};

/// LNet selftest on every node, and its administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selftest {
    /// Settings of each node; the wall clock is set at each start.
    pub config: SelftestConfig,
    /// Number of nodes, from the first, with an administrator who runs tests all the time.
    pub administrators: u32,
    /// Whether some of the tests run until they are stopped.
    pub endless: bool,
}

impl Options {
    /// Draws the options of a run with selftests in addition to operations.
    pub fn draw_selftest(seed: u64) -> Self {
        let mut options = Self::draw(seed);
        let mut rng = Rng::new(seed ^ SELFTEST_STREAM);
        let rng = &mut rng;
        let calm = options.faults.is_none();
        // A test unit has one RPC at a time, so the delay limits the rate of an endless test.
        let endless = !rng.one_in(3);
        let delay_max = Duration::from_millis(if endless { 50 } else { *pick(rng, &[1, 5]) });
        let network = &mut options.network;
        network.topology.spread(delay_max, delay_max / *pick(rng, &[1, 10, 1000]));
        // Small windows would cut a megabyte into too many pieces.
        let window = *pick(rng, &[256 << 10, 1 << 20, 8 << 20]);
        network.tcp = network.tcp.clone().with_buffers(window);
        network.cut = *pick(rng, &[Cut::Whole, Cut::Pieces(64), Cut::Pieces(1460)]);
        options.operations = rng.between(0, 40) as u32;
        options.safety = Time::from_secs(rng.between(10, 90));
        options.faults.longest = options.faults.longest.min(Duration::from_secs(45));
        options.selftest = Some(Self::selftest(rng, calm, endless));
        options
    }

    fn selftest(rng: &mut Rng, calm: bool, endless: bool) -> Selftest {
        let seconds = |range: (u64, u64), rng: &mut Rng| {
            Duration::from_secs(if calm { range.1 } else { rng.between(range.0, range.1) })
        };
        let config = SelftestConfig {
            rpc_timeout: seconds((1, 20), rng),
            session_timeout: seconds((20, 100), rng),
            ..SelftestConfig::default()
        };
        // Two consoles take nodes from each other.
        let administrators = if calm { 1 } else { 1 + u32::from(rng.one_in(3)) };
        Selftest { config, administrators, endless }
    }
}

impl fmt::Display for Selftest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, administrators, endless } = self;
        let SelftestConfig { rpc_timeout, session_timeout, inject_errors, .. } = config;
        write!(
            f,
            "{administrators} consoles, RPC timeout {}, session timeout {}, {inject_errors} injected \
             errors, endless {endless}",
            duration(*rpc_timeout),
            duration(*session_timeout)
        )
    }
}

/// Gives these options a random stream of their own.
const SELFTEST_STREAM: u64 = 0x7365_6c66_7465_7374;
