//! Without faults everything succeeds. Checks invariants 7, 10 and 11 of lnet-behaviour §17.

use std::net::IpAddr;

use fulmar_base::Errno;
use fulmar_lnet::EventKind;
use fulmar_lnet_wire::Nid;
use fulmar_node::Notice;
use fulmar_selftest::Notice as SelftestNotice;
use fulmar_selftest::console::{Answer as ConsoleAnswer, NodeAnswer, Reply};

use super::ledger::{Expect, Ledger};
use super::{Verdict, require};
use crate::signal::Signal;
use crate::world::World;

const CHECKER: &str = "calm";

/// The checker of runs without faults.
#[derive(Debug, Default)]
pub(crate) struct Calm {
    notices: u64,
}

impl Calm {
    pub(super) fn observe(
        &mut self,
        world: &World,
        ledger: &Ledger,
        incarnation: u32,
        signal: &Signal,
    ) -> Verdict {
        match signal {
            Signal::Event { host, event } if event.kind == EventKind::Send => {
                let number = ledger.own_operation(*host, incarnation, event);
                let expect = number.map(|number| ledger.operations[number].expect);
                let may_fail = event.status.is_ok() || expect == Some(Expect::Anything);
                require(may_fail, CHECKER, || format!("{host}: a send fails: {event:?}"))
            }
            Signal::Answered { host, query, result: Err(errno) } => {
                require(false, CHECKER, || format!("{host}: {query:?} fails: {errno:?}"))
            }
            Signal::Commanded { host, command, answer } => {
                require(is_fulfilled(answer), CHECKER, || {
                    format!("{host}: {command:?}: {answer:?}")
                })
            }
            Signal::Notice { host, notice } => {
                self.notices += 1;
                let harmless = is_harmless(notice) || !is_about_nodes(world, notice);
                require(harmless, CHECKER, || format!("{host}: {notice}"))
            }
            Signal::SelftestNotice { host, notice } => {
                self.notices += 1;
                let harmless = matches!(
                    notice,
                    SelftestNotice::SessionBegun { .. } | SelftestNotice::SessionEnded { .. }
                );
                require(harmless, CHECKER, || format!("{host}: {notice}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finished(&self, ledger: &Ledger) -> Verdict {
        for (number, operation) in ledger.operations.iter().enumerate() {
            let seen = &operation.seen;
            let good = match operation.expect {
                Expect::Anything => true,
                Expect::Dropped => seen.served == 0 && seen.responses == 0,
                Expect::Moved(_) if operation.answer => seen.served == 1 && seen.response_ok,
                Expect::Moved(_) => seen.served == 1 && seen.responses == 0,
            };
            require(good, CHECKER, || format!("operation {number} fails: {operation:?}"))?;
        }
        Ok(())
    }
}

/// Returns whether all addresses in a notice are of nodes, and none of a hostile host or without a host.
fn is_about_nodes(world: &World, notice: &Notice) -> bool {
    let text = notice.to_string();
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let mut addresses = words.filter_map(|word| word.parse().ok());
    let of_nodes = addresses.all(|address: IpAddr| world.is_of_node(address));
    // An address may be a node's, and not on that network.
    let words = text.split(|c: char| c.is_whitespace() || ";,()".contains(c));
    let mut nids = words.filter_map(|word| word.trim_end_matches(':').parse().ok());
    of_nodes && nids.all(|nid: Nid| nid.is_loopback() || world.host_of(nid).is_some())
}

fn is_harmless(notice: &Notice) -> bool {
    use fulmar_lnd::Notice as Lnd;
    use fulmar_lnet::Notice as Lnet;
    match notice {
        // A PUT that is dropped on purpose has no response, so its timeout is harmless.
        Notice::Lnet(notice) => matches!(
            notice,
            Lnet::Dropped { .. }
                | Lnet::ResponseTimeout { .. }
                | Lnet::Discovered { .. }
                | Lnet::GatewayUp { .. }
                | Lnet::Routing { .. }
        ),
        Notice::Lnd(notice) => matches!(notice, Lnd::PeerUp { .. }),
    }
}

/// Returns whether the command succeeded on every node.
fn is_fulfilled(answer: &ConsoleAnswer) -> bool {
    match answer {
        // The cleanup may find no session to end.
        Err(errno) => *errno == Errno::ESRCH,
        Ok(Reply::Nodes(reply)) => all_ok(&reply.nodes),
        Ok(Reply::Active(nodes)) => all_ok(nodes),
        Ok(Reply::Sessions(nodes)) => all_ok(nodes),
        Ok(Reply::Stats(nodes)) => all_ok(nodes),
        Ok(Reply::Measures(nodes)) => all_ok(nodes),
        Ok(
            Reply::Done | Reply::Session(_) | Reply::Names(_) | Reply::Group(_) | Reply::Batch(_),
        ) => true,
    }
}

fn all_ok<T>(nodes: &[NodeAnswer<T>]) -> bool {
    nodes.iter().all(|node| node.result.is_ok())
}
