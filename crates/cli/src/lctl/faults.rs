//! `lctl net_drop_add`, `lctl net_delay_add` and their like, and `lctl fail`.
//! Spec: lnet-admin §19.4.

use clap::Subcommand;
use fulmar_control::api::{FailNid, FaultReset, FaultShow, Operation};
use fulmar_control::config::FaultAction::{self, Delay, Drop};
use fulmar_control::show::{exit, fault_lines};
use fulmar_lnet_wire::NidMatch;

use super::{CommandResult, failed};
use crate::context::{Context, complain, print};
use crate::fault::{DelArgs, DelayArgs, DropArgs};

/// Both spellings: `net_drop_add` and, from 2.15 on, `net_drop add`.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the variants are words of lctl")]
pub(super) enum Command {
    /// Rules that drop messages
    #[command(subcommand)]
    NetDrop(Drops),
    /// Add a rule that drops messages
    NetDropAdd(DropArgs),
    /// Remove rules that drop messages
    NetDropDel(DelArgs),
    /// Reset the counts of dropped messages
    NetDropReset,
    /// Print the rules that drop messages
    NetDropList,
    /// Rules that delay messages
    #[command(subcommand)]
    NetDelay(Delays),
    /// Add a rule that delays messages
    NetDelayAdd(DelayArgs),
    /// Remove rules that delay messages; delayed messages are sent on
    NetDelayDel(DelArgs),
    /// Reset the counts of delayed messages
    NetDelayReset,
    /// Print the rules that delay messages
    NetDelayList,
}

#[derive(Debug, Subcommand)]
pub(super) enum Drops {
    /// Add a rule
    Add(DropArgs),
    /// Remove rules
    Del(DelArgs),
    /// Reset the counts
    Reset,
    /// Print the rules
    List,
}

#[derive(Debug, Subcommand)]
pub(super) enum Delays {
    /// Add a rule
    Add(DelayArgs),
    /// Remove rules; delayed messages are sent on
    Del(DelArgs),
    /// Reset the counts
    Reset,
    /// Print the rules
    List,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> CommandResult {
        match self {
            Self::NetDropAdd(args) | Self::NetDrop(Drops::Add(args)) => {
                execute(args.request(), context)
            }
            Self::NetDelayAdd(args) | Self::NetDelay(Delays::Add(args)) => {
                execute(args.request(), context)
            }
            Self::NetDropDel(args) | Self::NetDrop(Drops::Del(args)) => {
                execute(args.request(Drop), context)
            }
            Self::NetDelayDel(args) | Self::NetDelay(Delays::Del(args)) => {
                execute(args.request(Delay), context)
            }
            Self::NetDropReset | Self::NetDrop(Drops::Reset) => {
                execute(Ok(FaultReset { action: Drop }), context)
            }
            Self::NetDelayReset | Self::NetDelay(Delays::Reset) => {
                execute(Ok(FaultReset { action: Delay }), context)
            }
            Self::NetDropList | Self::NetDrop(Drops::List) => list(Drop, context),
            Self::NetDelayList | Self::NetDelay(Delays::List) => list(Delay, context),
        }
    }
}

/// Calls the node; prints nothing on success, as releases from 2.16 on do.
fn execute<O: Operation>(request: Result<O, String>, context: &Context) -> CommandResult {
    let request = request.map_err(|error| {
        complain(&format!("{error}\n"));
        exit::FAILED
    })?;
    context.client.call(&request).map_err(failed)?;
    Ok(0)
}

fn list(action: FaultAction, context: &Context) -> CommandResult {
    let faults = context.client.call(&FaultShow { action }).map_err(failed)?;
    complain(&format!("LNet {} rules:\n", action.name()));
    Ok(print(&fault_lines(&faults)))
}

pub(super) fn fail(nid: &str, count: i64, context: &Context) -> CommandResult {
    let nid = match nid {
        "_all_" => NidMatch::Any,
        text => text.parse().map_err(|error| {
            complain(&format!("Can't parse NID {text}: {error}\n"));
            exit::BAD_PARAM
        })?,
    };
    execute(Ok(FailNid { nid, times: u32::try_from(count).ok() }), context)
}
