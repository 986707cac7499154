//! Selection policies and injected faults of a running node.

use fulmar_base::Errno;
use fulmar_control::api::{AdminError, FailNid, FaultDel, Removed};
use fulmar_control::config::{FaultAction, FaultConf, UdspConf};
use fulmar_control::show::Fault;

use crate::admin::{Daemon, Result};

impl Daemon {
    /// Returns the selection policies with their indices.
    pub(super) fn udsp(&self) -> Vec<UdspConf> {
        UdspConf::numbered(self.node.udsp())
    }

    pub(super) fn add_udsp(&self, conf: &UdspConf) -> Result<()> {
        let index = conf.idx.map(|idx| idx as usize);
        self.node.udsp_add(index, conf.rule()).map_err(|errno| {
            let error = AdminError::new(errno, format!("cannot add udsp: {errno}"));
            match errno {
                Errno::EINVAL => error.with_hint(
                    "a rule has --src, --dst, --src with --dst, or --dst with --rte; only the \
                     first two have a priority",
                ),
                Errno::EALREADY => error.with_hint("the rule exists already: see udsp show"),
                _ => error,
            }
        })
    }

    pub(super) fn del_udsp(&self, idx: Option<u32>) -> Result<()> {
        let index = idx.map(|idx| idx as usize);
        self.node.udsp_del(index).map_err(AdminError::udsp_del)
    }

    pub(super) fn faults(&self, action: FaultAction) -> Vec<Fault> {
        let faults = self.node.faults();
        let of_kind = faults.into_iter().filter(|fault| fault.rule.kind() == action.kind());
        of_kind.map(Fault::from).collect()
    }

    pub(super) fn add_fault(&self, rule: &FaultConf) -> Result<()> {
        self.node.fault_add(rule.rule()).map_err(|errno| {
            let descr = format!("cannot add {} rule: {errno}", rule.action.name());
            let error = AdminError::new(errno, descr);
            match errno {
                Errno::EINVAL if rule.portals != 0 => {
                    error.with_hint("only PUT and GET have a portal")
                }
                Errno::EINVAL => error.with_hint(
                    "a rule has a rate or an interval; --random needs an interval; --local_nid \
                     does not go with --health_error",
                ),
                _ => error,
            }
        })
    }

    pub(super) fn del_faults(&self, request: &FaultDel) -> Result<Removed> {
        let FaultDel { action, source, target } = *request;
        let count = self.node.fault_del(action.kind(), source, target);
        let count = count.map_err(|errno| AdminError::new(errno, "cannot remove the rules"))?;
        Ok(Removed { count: count as u64 })
    }

    pub(super) fn reset_faults(&self, action: FaultAction) -> Result<()> {
        self.node
            .fault_reset(action.kind())
            .map_err(|errno| AdminError::new(errno, "cannot reset the rules"))
    }

    pub(super) fn make_fail(&self, request: &FailNid) -> Result<()> {
        self.node
            .fail_nid(request.nid, request.times)
            .map_err(|errno| AdminError::new(errno, format!("cannot make {} fail", request.nid)))
    }
}
