//! Checks selftests; these checks also hold with network faults.

use fulmar_base::Time;
use fulmar_selftest::{Notice, Selftest};

use super::{Verdict, require};
use crate::HostId;
use crate::options::Options;
use crate::signal::Signal;
use crate::world::World;

const CHECKER: &str = "selftest";

/// Checks the notices of selftests.
#[derive(Debug)]
pub(crate) struct Selftests {
    /// Nodes corrupt data on purpose.
    damaging: bool,
}

impl Selftests {
    pub(super) fn new(options: &Options) -> Self {
        let damaging = |selftest: &crate::options::Selftest| selftest.config.inject_errors > 0;
        Self { damaging: options.selftest.as_ref().is_some_and(damaging) }
    }

    /// A successful transfer has correct data, and all requests are valid.
    pub(super) fn observe(&self, signal: &Signal) -> Verdict {
        let Signal::SelftestNotice { host, notice } = signal else { return Ok(()) };
        let is_bad = match notice {
            Notice::Corrupted { .. } => !self.damaging,
            Notice::BadRequest { .. } => true,
            _ => false,
        };
        require(!is_bad, CHECKER, || format!("{host}: {notice:?}"))
    }
}

/// Checks a node after all notifications.
pub(super) fn settled(world: &World, host: HostId) -> Verdict {
    let own = world.selftest(host).map_or(Ok(()), Selftest::check_invariants);
    require(own.is_ok(), CHECKER, || format!("{host}: {own:?}"))
}

/// Checks that each node is idle.
pub(super) fn idle(world: &World, now: Time) -> Verdict {
    for host in world.host_ids() {
        let Some(selftest) = world.selftest(host) else { continue };
        let idle = selftest.is_idle();
        require(idle.is_ok(), "idle", || format!("{host} at {now}: {idle:?}"))?;
        let left = world.selftest_buffers(host);
        require(left == 0, "idle", || format!("{host} at {now}: {left} buffers are not freed"))?;
    }
    Ok(())
}
