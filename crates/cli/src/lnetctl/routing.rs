//! `lnetctl routing`. Spec: lnet-admin §8; draining is an extension of Fulmar.

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, CallError, RoutingDrain, RoutingShow};
use fulmar_control::show::{self, Routing};
use fulmar_lnet::views::RoutingState;

use super::level;
use crate::context::{Context, Form, Status, complain, print};

/// How often to check a draining node.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// How often to report progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the router buffers, and whether the node forwards
    Show {
        /// How much to print: 1 the state and what uses memory, 4 messages and latencies between
        /// networks too
        #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1",
            default_value_t = 0, value_parser = level, hide_default_value = true)]
        verbose: u8,
    },
    /// Stop routing without losing a message, and wait until done
    ///
    /// Notifies peers at once to use other routers. Messages that are here, and those that still
    /// arrive from peers not yet notified, are forwarded. When no more arrive, forwarding ends.
    /// "lnetctl set routing 0" ends it too, but waits until every peer has checked by itself.
    Drain {
        /// Timeout; the node continues to drain after it
        #[arg(short, long, value_name = "SECONDS", default_value_t = 120)]
        timeout: u32,
    },
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Show { verbose } => {
                context.query(Form::Classic, "show", "routing", &RoutingShow {}, |routing| {
                    context.show(&show::routing_show(&routing, verbose))
                })
            }
            Self::Drain { timeout } => drain(Duration::from_secs(timeout.into()), context)
                .unwrap_or_else(|error| context.failed(Form::Classic, "drain", "routing", error)),
        }
    }
}

fn drain(timeout: Duration, context: &Context) -> Result<Status, CallError> {
    let before = context.client.call(&RoutingShow {})?;
    if before.state == RoutingState::Disabled {
        return Ok(say(context, "This node is not a router: there is nothing to drain."));
    }
    context.client.call(&RoutingDrain {})?;
    say(
        context,
        "Draining: peers are notified to use other routers; arriving messages are forwarded.",
    );
    let begun = Instant::now();
    let mut last_report = begun;
    loop {
        let routing = context.client.call(&RoutingShow {})?;
        if routing.state == RoutingState::Disabled {
            let text = "Drained: forwarding has ended. \"lnetctl set routing 1\" starts it \
                        again.";
            return Ok(say(context, text));
        }
        if begun.elapsed() >= timeout {
            return Err(late(&routing, timeout).into());
        }
        if last_report.elapsed() >= REPORT_INTERVAL {
            last_report = Instant::now();
            complain(&format!("# {}: {}\n", routing.state, in_transit(&routing)));
        }
        sleep(CHECK_INTERVAL.min(timeout));
    }
}

/// Prints progress; with JSON only the exit status reports the result.
fn say(context: &Context, text: &str) -> Status {
    if context.json { 0 } else { print(&format!("{text}\n")) }
}

fn in_transit(routing: &Routing) -> String {
    match routing.in_transit() {
        0 => "no messages left, waiting until no more arrive".into(),
        1 => "1 message left".into(),
        n => format!("{n} messages left"),
    }
}

fn late(routing: &Routing, timeout: Duration) -> AdminError {
    let text =
        format!("still {} after {} s: {}", routing.state, timeout.as_secs(), in_transit(routing));
    AdminError::new(Errno::ETIMEDOUT, text).with_hint(
        "the node continues to drain: \"lnetctl routing show -v\" shows when it is disabled; peers \
         that know no other router continue to send to this one",
    )
}
