//! `lnetctl debug` and `lnetctl cpt-of-nid`. Spec: lnet-admin §12, §15.

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, ListNids, RecoveryShow};
use fulmar_control::config::nid_list;
use fulmar_control::show::{self, exit};
use fulmar_lnet_wire::{Nid, NidList};

use crate::context::{Context, Form, Status, print};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print NIDs that wait to recover: those to which messages failed, or which were told to
    Recovery {
        /// Those of this node
        #[arg(short, long)]
        local: bool,
        /// Those of peers
        #[arg(short, long)]
        peer: bool,
    },
    /// Say how a list of NIDs is understood; needs no node
    Nidlist {
        /// Patterns, such as "10.0.[0-3].*@tcp 10.9.0.0/16@tcp"
        list: String,
        /// NID that may be one of them
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
            Self::Nidlist { list, nid } => nidlist(&list, nid, context),
        }
    }
}

impl CptOfNid {
    pub(super) fn run(self, context: &Context) -> Status {
        match nid_list(&self.nids.join(",")) {
            // All threads of this node serve all NIDs; only its absence can be told.
            Ok(nids) => {
                context.ask(Form::Listing, "cpt-of-nid", "cpt-of-nid", &ListNids {}, |_| {
                    context.show(&show::cpt_of_nid(&nids))
                })
            }
            Err(error) => {
                let error =
                    AdminError::new(Errno::EINVAL, "invalid NID").with_hint(error.to_string());
                context.refuse(Form::Listing, "cpt-of-nid", "cpt-of-nid", &error)
            }
        }
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
    let mut told = format!("nidlist parsed to: {list}\n");
    if let Some(nid) = nid {
        let verb = if list.matches(nid) { "matches" } else { "does not match" };
        told += &format!("{nid} {verb} nidlist {list}\n");
    }
    print(&told)
}

fn recovery(local: bool, peer: bool, context: &Context) -> Status {
    if !local && !peer {
        let error = AdminError::new(Errno::EINVAL, "no queue is named").with_hint(
            "say which NIDs: --local for those of this node, --peer for those of others",
        );
        return context.refuse(Form::Listing, "show", "debug recovery", &error);
    }
    let mut status = 0;
    for (wanted, peers) in [(local, false), (peer, true)] {
        if wanted && status == 0 {
            status = context.ask(
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
