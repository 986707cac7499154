//! `lnetctl peer`. Spec: lnet-admin §6.

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, PeerAdd, PeerDel, PeerSet, PeerShow};
use fulmar_control::config::{PeerConf, nid_list};
use fulmar_control::show::{self, exit};
use fulmar_lnet_wire::Nid;

use super::level;
use crate::context::{Context, Form, Status};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a peer, or NIDs to one
    Add {
        /// Primary NID of the peer
        #[arg(long = "prim_nid", alias = "prim-nid", value_name = "NID")]
        primary: Option<Nid>,
        /// NIDs of the peer, such as 10.0.[0-1].2@tcp
        #[arg(long, alias = "ip2nets", value_name = "NIDS")]
        nid: Vec<String>,
        /// The peer is not multi-rail
        #[arg(long = "non_mr", alias = "non-mr")]
        non_mr: bool,
        /// Keep the primary NID, whatever the peer reports
        #[arg(long = "lock_prim", alias = "lock-prim")]
        lock_prim: bool,
    },
    /// Remove a peer, or NIDs from one
    Del {
        /// Primary NID of the peer
        #[arg(long = "prim_nid", alias = "prim-nid", value_name = "NID")]
        primary: Option<Nid>,
        /// NIDs to remove; the whole peer by default
        #[arg(long, alias = "ip2nets", value_name = "NIDS")]
        nid: Vec<String>,
        /// Remove it even if the primary NID is locked
        #[arg(long)]
        force: bool,
    },
    /// Print peers
    Show {
        /// The peer that has this NID
        #[arg(long)]
        nid: Option<Nid>,
        /// How much to print: 1 credits and statistics, 2 messages by type and health, 3 state,
        /// 4 all
        #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1",
            default_value_t = 0, value_parser = level, hide_default_value = true)]
        verbose: u8,
    },
    /// Print the primary NIDs of the peers
    List,
    /// Change peers
    Set {
        /// NID of the peer
        #[arg(long, required_unless_present = "all")]
        nid: Option<Nid>,
        /// All peers
        #[arg(long, conflicts_with = "nid")]
        all: bool,
        /// Health value, at most 1000; below that the peer NI recovers by itself
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        health: Option<i64>,
        /// State as a number; for tests only
        #[arg(long, value_name = "N")]
        state: Option<u32>,
    },
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Add { primary, nid, non_mr, lock_prim } => {
                let request = named(primary, &nid).map(|(primary, mut nids)| {
                    if !nids.contains(&primary) {
                        nids.insert(0, primary);
                    }
                    let peer = PeerConf { primary, multi_rail: !non_mr, nids };
                    PeerAdd { peer, lock_primary: lock_prim }
                });
                match request {
                    Ok(request) => context.execute(Form::Listing, "add", "peer", &request),
                    Err(error) => context.refuse(Form::Listing, "add", "peer", &error),
                }
            }
            Self::Del { primary, nid, force } => match named(primary, &nid) {
                Ok((primary, nids)) => {
                    let request = PeerDel { primary, nids, force };
                    context.execute(Form::Listing, "del", "peer", &request)
                }
                Err(error) => context.refuse(Form::Listing, "del", "peer", &error),
            },
            Self::Show { nid, verbose } => {
                context.query(Form::Listing, "show", "peer", &PeerShow { nid }, |peers| {
                    if let Some(nid) = nid.filter(|_| peers.is_empty()) {
                        // Lustre's tool has only the status.
                        let text = format!("# hint: no peer has the NID {nid}\n");
                        context.tell("show", "peer", &text, Errno::ENOENT);
                        return exit::BAD_PARAM;
                    }
                    context.show(&show::peer_show(&peers, verbose, context.dialect))
                })
            }
            Self::List => {
                context.query(Form::Listing, "show", "peer", &PeerShow::default(), |peers| {
                    context.show(&show::peer_list(&peers))
                })
            }
            Self::Set { nid, health, state, .. } => {
                // A negative value stands for no change.
                let health = health.and_then(|health| u32::try_from(health).ok());
                let request = PeerSet { nid, health, state };
                if state.is_some() {
                    return context.execute(Form::Listing, "set", "peer", &request);
                }
                let absent = (Errno::ENOENT, "there is no such peer");
                context.execute_if_there(("set", "peer"), &request, absent)
            }
        }
    }
}

fn named(primary: Option<Nid>, nids: &[String]) -> Result<(Nid, Vec<Nid>), AdminError> {
    let primary = primary.ok_or_else(|| {
        AdminError::new(Errno::EINVAL, "missing primary NID").with_hint("give it: --prim_nid NID")
    })?;
    let lists = nids.iter().map(|list| nid_list(list));
    let nids: Vec<Vec<Nid>> = lists.collect::<Result<_, _>>().map_err(|error| {
        AdminError::new(Errno::EINVAL, "invalid NIDs list").with_hint(error.brief())
    })?;
    Ok((primary, nids.concat()))
}
