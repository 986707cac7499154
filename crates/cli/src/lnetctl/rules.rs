//! `lnetctl udsp` and `lnetctl fault`. Spec: lnet-admin §13, §14.

use clap::{Args, Subcommand};
use fulmar_base::Errno;
use fulmar_control::api::{
    AdminError, CallError, FaultReset, FaultShow, Operation, UdspAdd, UdspDel, UdspShow,
};
use fulmar_control::config::{FaultAction, UdspConf};
use fulmar_control::show::{self, exit};
use fulmar_lnet_wire::Selector;

use crate::context::{Context, Form, Status};
use crate::fault::{DelArgs, DelayArgs, DropArgs};

#[derive(Debug, Subcommand)]
pub(super) enum Udsp {
    /// Add a rule: --src, --dst, both, or --dst with --rte
    Add(Box<Policy>),
    /// Remove a rule
    Del {
        /// Index of the rule
        #[arg(long, conflicts_with = "all")]
        idx: Option<u32>,
        /// Remove all rules
        #[arg(long)]
        all: bool,
    },
    /// Print the rules
    Show {
        /// Index of the rule; all by default
        #[arg(long)]
        idx: Option<u32>,
    },
}

/// A rule and its position.
#[derive(Debug, Args)]
pub(super) struct Policy {
    /// Local NIDs, such as 10.0.0.[1-4]@tcp, or a network
    #[arg(long, value_name = "NIDS")]
    src: Option<Selector>,
    /// NIDs of peers, or a network
    #[arg(long, value_name = "NIDS")]
    dst: Option<Selector>,
    /// NIDs of routers
    #[arg(long, value_name = "NIDS")]
    rte: Option<Selector>,
    /// 0 is the highest; only for --src alone or --dst alone
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Position in the list; the end by default
    #[arg(long)]
    idx: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Fault {
    /// Messages that are dropped
    #[command(subcommand)]
    Drop(Drops),
    /// Messages that are delayed
    #[command(subcommand)]
    Delay(Delays),
}

#[derive(Debug, Subcommand)]
pub(super) enum Drops {
    /// Add a rule, which is tried before existing ones
    Add(DropArgs),
    /// Remove rules
    Del(DelArgs),
    /// Reset the counts
    Reset,
    /// Print the rules
    Show,
}

#[derive(Debug, Subcommand)]
pub(super) enum Delays {
    /// Add a rule, which is tried before existing ones
    Add(DelayArgs),
    /// Remove rules; delayed messages are sent on
    Del(DelArgs),
    /// Reset the counts
    Reset,
    /// Print the rules
    Show,
}

impl Udsp {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Add(policy) => policy.add(context),
            // Lustre's tool reports failures of removal as those of addition.
            Self::Del { idx, all } if idx.is_some() || all => {
                context.execute(Form::Classic, "add", "udsp", &UdspDel { idx })
            }
            Self::Del { .. } => {
                context.tell("del", "udsp", "Must specify --idx or --all\n", Errno::EINVAL);
                exit::BAD_PARAM
            }
            Self::Show { idx } => {
                context.query(Form::Classic, "show", "udsp", &UdspShow {}, |mut rules| {
                    rules.retain(|rule| idx.is_none() || rule.idx == idx);
                    context.show(&show::udsp_show(&rules))
                })
            }
        }
    }
}

impl Policy {
    fn add(self, context: &Context) -> Status {
        let Self { src, dst, rte, priority, idx } = self;
        let Ok(priority) = priority.map(u32::try_from).transpose() else {
            let text = format!("Invalid priority \"{}\"\n", priority.unwrap_or_default());
            context.tell("add", "udsp", &text, Errno::EINVAL);
            return exit::BAD_PARAM;
        };
        let rule = UdspConf { idx, src, dst, rte, priority };
        match context.client.call(&UdspAdd { rule }) {
            Ok(()) => 0,
            // Lustre's tool has this number of the kernel without its sign.
            Err(CallError::Refused(error)) if error.is(Errno::EALREADY) => {
                let error = AdminError { errno: -error.errno, ..error };
                context.refuse(Form::Classic, "add", "udsp", &error)
            }
            Err(error) => context.failed(Form::Classic, "add", "udsp", error),
        }
    }
}

impl Fault {
    pub(super) fn run(self, context: &Context) -> Status {
        use FaultAction::{Delay, Drop};
        match self {
            Self::Drop(Drops::Add(args)) => change("add", args.request(), context),
            Self::Delay(Delays::Add(args)) => change("add", args.request(), context),
            Self::Drop(Drops::Del(args)) => delete(&args, Drop, context),
            Self::Delay(Delays::Del(args)) => delete(&args, Delay, context),
            Self::Drop(Drops::Reset) => change("reset", Ok(FaultReset { action: Drop }), context),
            Self::Delay(Delays::Reset) => {
                change("reset", Ok(FaultReset { action: Delay }), context)
            }
            Self::Drop(Drops::Show) => print(Drop, context),
            Self::Delay(Delays::Show) => print(Delay, context),
        }
    }
}

fn change<O: Operation<Reply = ()>>(
    op: &str,
    request: Result<O, String>,
    context: &Context,
) -> Status {
    match request {
        Ok(request) => context.execute(Form::Listing, op, "fault", &request),
        Err(error) => wrong(&error, context),
    }
}

fn delete(args: &DelArgs, action: FaultAction, context: &Context) -> Status {
    match args.request(action) {
        Ok(request) => context.query(Form::Listing, "del", "fault", &request, |removed| {
            if removed.count > 0 {
                return 0;
            }
            let text = format!("failed to delete {} rule: Object not found\n", action.name());
            context.tell("del", "fault", &text, Errno::ENOENT);
            exit::of_errno(-Errno::ENOENT.0)
        }),
        Err(error) if args.selects_none() => {
            let text = format!("{error}, or --all\n");
            context.tell("del", "fault", &text, Errno::EINVAL);
            exit::BAD_PARAM
        }
        Err(error) => wrong(&error, context),
    }
}

fn print(action: FaultAction, context: &Context) -> Status {
    context.query(Form::Listing, "show", "fault", &FaultShow { action }, |faults| {
        context.show(&show::fault_show(&faults))
    })
}

fn wrong(error: &str, context: &Context) -> Status {
    context.tell("add", "fault", &format!("{error}\n"), Errno::EINVAL);
    exit::FAILED
}
