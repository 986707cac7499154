//! On whose behalf the kernel asks.

use fulmar_client::Caller;
use fuser::Request;
use rustix::process::Pid;
use rustix::thread::capabilities;

/// The capabilities with which groups decide nothing: to change owners, to read, write and search everything, to be
/// treated as each owner, and to leave privileges: `CAP_CHOWN` to `CAP_FSETID`.
const ABOVE_GROUPS: u32 = 0x1f;

/// Returns the caller of a request. Its groups and capabilities are those of its process, if that is visible.
pub(crate) fn caller(request: &Request, umask: u32) -> Caller {
    let mut caller = Caller { umask, ..Caller::new(request.uid(), request.gid()) };
    let process = i32::try_from(request.pid()).ok().and_then(Pid::from_raw);
    if let Some(sets) = process.and_then(|process| capabilities(Some(process)).ok()) {
        caller.capabilities = sets.effective.bits() as u32;
        // Then its status need not be read, which is long.
        if caller.uid == 0 && caller.capabilities & ABOVE_GROUPS == ABOVE_GROUPS {
            return caller;
        }
    }
    if let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", request.pid())) {
        refine(&mut caller, &status);
    }
    caller
}

/// Returns whether a caller may leave a file its privileges that it changes: the superuser with `CAP_FSETID`. Others
/// have that capability in a namespace of their own.
pub(crate) fn keeps_privileges(caller: &Caller) -> bool {
    caller.uid == 0 && caller.capabilities >> 4 & 1 != 0
}

/// Returns whether this process is the superuser's.
pub(crate) fn is_root() -> bool {
    Caller::of_process().uid == 0
}

fn refine(caller: &mut Caller, status: &str) {
    for line in status.lines() {
        if let Some(groups) = line.strip_prefix("Groups:") {
            caller.groups = groups.split_whitespace().flat_map(str::parse).collect();
        } else if let Some(effective) = line.strip_prefix("CapEff:")
            && let Ok(capabilities) = u64::from_str_radix(effective.trim(), 16)
        {
            caller.capabilities = capabilities as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_capabilities_are_those_of_the_process() {
        let mut caller = Caller::new(1000, 1000);
        refine(&mut caller, "Name:\tcp\nGroups:\t4 27 1000 \nCapEff:\t000001ffffffffff\n");
        assert_eq!((caller.groups, caller.capabilities), (vec![4, 27, 1000], u32::MAX));
    }
}
