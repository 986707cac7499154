//! `lnetctl debug` and `lnetctl cpt-of-nid`. Spec: lnet-admin §12, §15.

use std::time::{Duration, Instant};

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, DebugCheck, DebugPeer, ListNids, RecoveryShow};
use fulmar_control::config::nid_list;
use fulmar_control::show::{self, exit};
use fulmar_lnet_wire::{Nid, NidList};

use crate::context::{Context, Form, Status, complain, print};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print NIDs in recovery: those that failed, or that were set to recover
    Recovery {
        /// NIDs of this node
        #[arg(short, long)]
        local: bool,
        /// NIDs of peers
        #[arg(short, long)]
        peer: bool,
    },
    /// Write into the node's log what is known of a NID of a peer
    ///
    /// "lctl dk" prints the log. The line has the columns of "lctl get_param peers".
    Peer {
        /// NID of the peer
        #[arg(short = 'k', long)]
        nid: Option<String>,
    },
    /// Make the node check itself: its credits, queues, buffers and counts against its messages
    ///
    /// Prints every inconsistency, and exits with 1 if there is any. That would be a bug of Fulmar:
    /// please report it with the output.
    Check {
        /// Also require that no message is in flight or lost
        #[arg(long)]
        idle: bool,
        /// With --idle, the time to wait for that
        #[arg(long, default_value_t = 5, requires = "idle", value_name = "SECONDS")]
        timeout: u32,
    },
    /// Show how a list of NIDs is parsed; needs no node
    Nidlist {
        /// Patterns, such as "10.0.[0-3].*@tcp 10.9.0.0/16@tcp"
        list: String,
        /// NID to match against the list
        nid: Option<Nid>,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct CptOfNid {
    /// NIDs, such as 10.0.0.[1-4]@tcp
    #[arg(required = true, value_name = "NID")]
    nids: Vec<String>,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Recovery { local, peer } => recovery(local, peer, context),
            Self::Peer { nid } => peer(nid.as_deref(), context),
            Self::Check { idle, timeout } => check(idle, timeout, context),
            Self::Nidlist { list, nid } => nidlist(&list, nid, context),
        }
    }
}

impl CptOfNid {
    pub(super) fn run(self, context: &Context) -> Status {
        match nid_list(&self.nids.join(",")) {
            // All threads of this node serve all NIDs; the call only checks that the node runs.
            Ok(nids) => {
                context.query(Form::Listing, "cpt-of-nid", "cpt-of-nid", &ListNids {}, |_| {
                    context.show(&show::cpt_of_nid(&nids))
                })
            }
            Err(error) => {
                let error = AdminError::new(Errno::EINVAL, "Invalid input data or parameter")
                    .with_hint(error.brief());
                context.refuse(Form::Listing, "show", "cpt-of-nid", &error)
            }
        }
    }
}

const UNNAMED: &str = "--nid must be specified";

fn peer(nid: Option<&str>, context: &Context) -> Status {
    let nid = match nid.map(|text| (text, text.parse::<Nid>())) {
        Some((_, Ok(nid))) => Ok(nid),
        Some((text, Err(error))) => {
            let descr = format!("badly formatted primary NID: {text}");
            Err(AdminError::new(Errno::EINVAL, descr).with_hint(error.to_string()))
        }
        None if context.json => Err(AdminError::new(Errno::EINVAL, UNNAMED)),
        None => {
            // The tool of kernel nodes leaves out the quotes here.
            complain(&format!(
                "debug:\n    - peer:\n          errno: -22\n          descr: {UNNAMED}\n"
            ));
            return exit::BAD_PARAM;
        }
    };
    match nid {
        Ok(nid) => context.execute(Form::Classic, "debug", "peer", &DebugPeer { nid }),
        Err(error) => context.refuse(Form::Classic, "debug", "peer", &error),
    }
}

fn nidlist(text: &str, nid: Option<Nid>, context: &Context) -> Status {
    let list: NidList = match text.parse() {
        Ok(list) => list,
        Err(error) => {
            let error = AdminError::new(Errno::EINVAL, "Unable to parse nidlist")
                .with_hint(error.to_string());
            context.refuse(Form::Listing, "debug", "nidlist", &error);
            return exit::BAD_PARAM;
        }
    };
    let mut text = format!("nidlist parsed to: {list}\n");
    if let Some(nid) = nid {
        let verb = if list.matches(nid) { "matches" } else { "does not match" };
        text += &format!("{nid} {verb} nidlist {list}\n");
    }
    print(&text)
}

fn check(idle: bool, timeout: u32, context: &Context) -> Status {
    let begun = Instant::now();
    let mut broken = Vec::new();
    loop {
        let operation = DebugCheck { idle };
        let asked = context.query(Form::Listing, "show", "debug check", &operation, |checked| {
            broken = checked.broken;
            0
        });
        if asked != 0 {
            return asked;
        }
        let limit = if idle { timeout } else { 0 };
        if broken.is_empty() || begun.elapsed() >= Duration::from_secs(limit.into()) {
            break;
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
    let holds = broken.is_empty();
    let text = match (context.json, holds) {
        (true, _) => serde_json::json!({ "broken": broken }).to_string(),
        (false, true) => "all invariants hold".to_owned(),
        (false, false) => broken.join("\n"),
    };
    match print(&format!("{text}\n")) {
        0 if !holds => BROKEN,
        status => status,
    }
}

/// Exit status for an inconsistent node; no command of the kernel tools uses it.
const BROKEN: Status = 1;
/// How soon a node that is not idle is checked again.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

fn recovery(local: bool, peer: bool, context: &Context) -> Status {
    if !local && !peer {
        let error = AdminError::new(Errno::EINVAL, "no queue is selected")
            .with_hint("select NIDs: --local for those of this node, --peer for those of peers");
        return context.refuse(Form::Listing, "show", "debug recovery", &error);
    }
    let mut status = 0;
    for (wanted, peers) in [(local, false), (peer, true)] {
        if wanted && status == 0 {
            status = context.query(
                Form::Listing,
                "show",
                "debug recovery",
                &RecoveryShow { peers },
                |found| context.show(&show::recovery(&found.nids, peers, context.dialect)),
            );
        }
    }
    status
}
