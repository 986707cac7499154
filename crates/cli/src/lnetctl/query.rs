//! `lnetctl ping` and `lnetctl discover`. Spec: lnet-admin §11.

use fulmar_base::Errno;
use fulmar_control::api::{self, AdminError};
use fulmar_control::config::nid_list;
use fulmar_control::show::{Answer, answers, exit};
use fulmar_control::value::{Dialect, Report};
use fulmar_lnet_wire::Nid;

use crate::context::{Context, Form, Status, complain};

#[derive(Debug, clap::Args)]
pub(super) struct Ping {
    /// NID of this node to send from
    #[arg(short, long, value_name = "NID")]
    source: Option<Nid>,
    /// Timeout of an answer
    #[arg(short, long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// NIDs to query, such as 10.0.0.[1-4]@tcp
    #[arg(required = true, value_name = "NID")]
    nids: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Discover {
    /// Query even peers that are already known
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    ping: Ping,
}

impl Ping {
    pub(super) fn run(self, context: &Context) -> Status {
        let Some(nids) = parse(&self.nids, "ping", context) else { return exit::BAD_PARAM };
        let Self { source, timeout, .. } = self;
        ping(&api::Ping { nids, source, timeout }, context)
    }
}

impl Discover {
    pub(super) fn run(self, context: &Context) -> Status {
        let Some(nids) = parse(&self.ping.nids, "discover", context) else {
            return exit::BAD_PARAM;
        };
        let Ping { source, timeout, .. } = self.ping;
        discover(&api::Discover { nids, source, timeout, force: self.force }, context)
    }
}

pub(super) fn ping(request: &api::Ping, context: &Context) -> Status {
    context.query(Form::Listing, "manage", "ping", request, |all| print("ping", &all, context))
}

pub(super) fn discover(request: &api::Discover, context: &Context) -> Status {
    context
        .query(Form::Listing, "manage", "discover", request, |all| print("discover", &all, context))
}

fn parse(lists: &[String], what: &str, context: &Context) -> Option<Vec<Nid>> {
    match nid_list(&lists.join(",")) {
        Ok(nids) => Some(nids),
        Err(error) => {
            let descr = "\"Unable to parse nidlist: no valid NIDs in string\"";
            let error = AdminError::new(Errno::EINVAL, descr).with_hint(error.brief());
            context.refuse(Form::Listing, "manage", what, &error);
            None
        }
    }
}

/// Prints the answers, then the failures; these on standard output too, except in cyaml.
fn print(what: &str, all: &[Answer], context: &Context) -> Status {
    let printed = answers(what, all, context.dialect);
    let failed = !printed.failed.0.is_empty();
    match context.dialect {
        Dialect::Cyaml if !context.json => {
            context.show(&printed.answered);
            complain(&printed.failed.to_yaml(Dialect::Cyaml));
        }
        _ => {
            context.show(&Report([printed.answered.0, printed.failed.0].concat()));
        }
    }
    if failed { exit::FAILED } else { 0 }
}
