//! `lnetctl routing`. Spec: lnet-admin §8; draining is ours.

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, CallError, RoutingDrain, RoutingShow};
use fulmar_control::show::{self, Routing, RoutingState};

use crate::context::{Context, Form, Status, complain, print};

/// How often a node that drains is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How often it is told what is left.
const TELL: Duration = Duration::from_secs(5);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the router's buffers, and whether it forwards
    Show {
        /// How much to print: 1 the state and what has memory, 4 messages and latencies between
        /// networks too
        #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1",
            default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4),
            hide_default_value = true)]
        verbose: u8,
    },
    /// Stop being a router without losing a message, and wait for it
    ///
    /// Peers are told at once to use other routers. What is here, and what still comes from those
    /// that have not heard, is forwarded. When nothing more comes, forwarding ends. "lnetctl set
    /// routing 0" ends it too, but waits until every peer has looked by itself.
    Drain {
        /// How long to wait; the node goes on without that
        #[arg(short, long, value_name = "SECONDS", default_value_t = 120)]
        timeout: u32,
    },
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Show { verbose } => {
                context.ask(Form::Classic, "show", "routing", &RoutingShow {}, |routing| {
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
        return Ok(say(context, "This node forwards nothing: there is nothing to drain."));
    }
    context.client.call(&RoutingDrain {})?;
    say(
        context,
        "Draining: peers are told to use other routers, and what still comes is forwarded.",
    );
    let begun = Instant::now();
    let mut told = begun;
    loop {
        let routing = context.client.call(&RoutingShow {})?;
        if routing.state == RoutingState::Disabled {
            let text = "Drained: nothing is forwarded any more. \"lnetctl set routing 1\" begins \
                        again.";
            return Ok(say(context, text));
        }
        if begun.elapsed() >= timeout {
            return Err(late(&routing, timeout).into());
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            complain(&format!("# {}: {}\n", routing.state, in_hand(&routing)));
        }
        sleep(LOOK.min(timeout));
    }
}

/// Tells a person how it goes; who asked for JSON is told by the status alone.
fn say(context: &Context, text: &str) -> Status {
    if context.json { 0 } else { print(&format!("{text}\n")) }
}

fn in_hand(routing: &Routing) -> String {
    match routing.in_hand() {
        0 => "nothing in hand, waiting until nothing more comes".into(),
        1 => "1 message in hand".into(),
        n => format!("{n} messages in hand"),
    }
}

fn late(routing: &Routing, timeout: Duration) -> AdminError {
    let text =
        format!("still {} after {} s: {}", routing.state, timeout.as_secs(), in_hand(routing));
    AdminError::new(Errno::ETIMEDOUT, text).with_hint(
        "the node goes on with it: \"lnetctl routing show -v\" says when it is disabled; peers that \
         know no other router keep sending to this one",
    )
}
