//! What holds of every selftest, whatever goes wrong in the network.

use fulmar_base::Time;
use fulmar_selftest::{Notice, Selftest};

use super::{Verdict, require};
use crate::HostId;
use crate::options::Options;
use crate::signal::Signal;
use crate::world::World;

const CHECKER: &str = "selftest";

/// Listens to what selftests complain about.
#[derive(Debug)]
pub(crate) struct Selftests {
    /// Nodes damage data on purpose.
    damaging: bool,
}

impl Selftests {
    pub(super) fn new(options: &Options) -> Self {
        let damaging = |selftest: &crate::options::Selftest| selftest.config.inject_errors > 0;
        Self { damaging: options.selftest.as_ref().is_some_and(damaging) }
    }

    /// What a transfer brings is good if the transfer ends well, and nodes understand each other.
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

/// Judges a node when it has been told everything.
pub(super) fn settled(world: &World, host: HostId) -> Verdict {
    let own = world.selftest(host).map_or(Ok(()), Selftest::check_invariants);
    require(own.is_ok(), CHECKER, || format!("{host}: {own:?}"))
}

/// Judges each node when it should have nothing to do.
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
