//! `lctl conf_param`, `set_param` and `pool_*`: what is changed at the management service on its node, or
//! with `set_param` at the targets of the node.

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{
    AdminError, CallError, MgsPool, MgsPools, MgsSet, Operation, PoolChange,
};
use fulmar_control::show::exit;

use super::parameters::{self, How};
use super::{CommandResult, failed};
use crate::context::{Context, Status, complain, print};

mod osts;

use osts::osts;

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(super) enum Command {
    /// Set a parameter of a target or a file system for good: lustre-OST0000.osc.max_dirty_mb=64
    ///
    /// The command is for the node that serves the MGS. Clients and targets apply it within seconds.
    /// Parameters of a file system are sys.*, llite.*, mdt.* and quota.*, as in lustre.sys.timeout=40;
    /// those of a target osc.*, mdc.*, lov.*, mdt.*, mdd.*, ost.* and others.
    ConfParam {
        /// Delete it; nodes have their default again when they start
        #[arg(short = 'd')]
        delete: bool,
        /// TARGET.PARAMETER=VALUE or FSNAME.PARAMETER=VALUE
        parameter: String,
    },
    /// Set parameters of this node, of its targets and of mounts, or with -P those of all nodes for good
    ///
    /// Without -P they hold until the node ends, or the mount: debug=+net, mdt.*.root_squash=99:99,
    /// osc.*.max_dirty_mb=512. Of mounts
    /// max_cached_mb, max_read_ahead_mb, max_dirty_mb and max_rpcs_in_flight of osc.* can be set; the last two hold for
    /// all OSTs of the mount. With -P the command is for the node
    /// that serves the MGS: clients and targets that have such a parameter apply it within seconds.
    SetParam {
        /// For good, on all nodes
        #[arg(short = 'P', long = "perm", alias = "permanent")]
        permanent: bool,
        /// Delete it; nodes have their default again when they start
        #[arg(short = 'd', long, requires = "permanent")]
        delete: bool,
        /// Do not print what was set
        #[arg(short = 'n', long = "noname", conflicts_with = "permanent")]
        quiet: bool,
        /// Parameters of modules too, such as lnet_retry_count
        #[arg(short = 'o', long = "module", conflicts_with = "permanent")]
        modules: bool,
        /// PARAMETER=VALUE, or PARAMETER VALUE; * stands for any device
        #[arg(required = true, allow_hyphen_values = true)]
        parameters: Vec<String>,
    },
    /// Make a pool of OSTs: pool_new lustre.flash
    PoolNew {
        /// FSNAME.POOL; the pool has 1 to 15 letters, digits, _ or -
        pool: String,
    },
    /// Add OSTs to a pool: pool_add lustre.flash lustre-OST[0-3]
    PoolAdd {
        /// FSNAME.POOL
        pool: String,
        /// OSTs, such as OST0001 or lustre-OST[0-7/2,a]
        #[arg(required = true)]
        osts: Vec<String>,
    },
    /// Remove OSTs from a pool
    PoolRemove {
        /// FSNAME.POOL
        pool: String,
        /// OSTs, such as OST0001 or lustre-OST[0-7/2,a]
        #[arg(required = true)]
        osts: Vec<String>,
    },
    /// Destroy a pool that has no OSTs
    PoolDestroy {
        /// FSNAME.POOL
        pool: String,
    },
    /// List the pools of a file system, or the OSTs of a pool
    PoolList {
        /// FSNAME or FSNAME.POOL
        pool: String,
    },
}

/// There is no such pool.
const ENOMEDIUM: i32 = -123;

impl Command {
    pub(super) fn run(self, context: &Context) -> CommandResult {
        match self {
            Self::ConfParam { delete, parameter } => {
                set(context, MgsSet { parameter, all: false, delete })
            }
            Self::SetParam { permanent: true, delete, parameters, .. } => {
                let mut last = Ok(0);
                for parameter in parameters {
                    last = last.and(set(context, MgsSet { parameter, all: true, delete }));
                }
                last
            }
            Self::SetParam { quiet, modules, parameters, .. } => {
                parameters::set(&parameters, &How { quiet, modules }, context)
            }
            Self::PoolNew { pool } => Pool::of("pool_new", &pool)?.make(context),
            Self::PoolDestroy { pool } => Pool::of("pool_destroy", &pool)?.destroy(context),
            Self::PoolAdd { pool, osts } => {
                Pool::of("pool_add", &pool)?.change(context, &osts, PoolChange::Add)
            }
            Self::PoolRemove { pool, osts } => {
                Pool::of("pool_remove", &pool)?.change(context, &osts, PoolChange::Remove)
            }
            Self::PoolList { pool } => list(context, &pool),
        }
    }
}

fn set(context: &Context, mut request: MgsSet) -> CommandResult {
    if request.delete && !request.parameter.contains('=') {
        request.parameter.push('=');
    }
    context.client.call(&request).map_err(failed)?;
    Ok(0)
}

/// A pool, and the command about it.
struct Pool<'a> {
    command: &'static str,
    /// As it was given.
    full: &'a str,
    fsname: &'a str,
    name: &'a str,
}

impl<'a> Pool<'a> {
    fn of(command: &'static str, full: &'a str) -> Result<Self, Status> {
        let parts = full.split_once('.').filter(|(fs, pool)| !fs.is_empty() && !pool.is_empty());
        let Some((fsname, name)) = parts else {
            complain(&format!("{command}: {full} is not FSNAME.POOL\n"));
            return Err(exit::BAD_PARAM);
        };
        Ok(Self { command, full, fsname, name })
    }

    fn request(&self, change: PoolChange) -> MgsPool {
        MgsPool { fsname: self.fsname.to_owned(), pool: self.name.to_owned(), change }
    }

    fn make(&self, context: &Context) -> CommandResult {
        self.call(context, &self.request(PoolChange::New), "")?;
        Ok(print(&format!("Pool {} created\n", self.full)))
    }

    fn destroy(&self, context: &Context) -> CommandResult {
        self.call(context, &self.request(PoolChange::Destroy), "")?;
        Ok(print(&format!("Pool {} destroyed\n", self.full)))
    }

    /// Adds or removes OSTs, all that can be.
    fn change(
        &self,
        context: &Context,
        given: &[String],
        change: impl Fn(String) -> PoolChange,
    ) -> CommandResult {
        let names = osts(self.fsname, given).map_err(|why| {
            complain(&format!("{}: {why}\nWrong format for OST list\n", self.command));
            exit::BAD_PARAM
        })?;
        let done = match change(String::new()) {
            PoolChange::Add(_) => "added to",
            _ => "removed from",
        };
        let mut last = Ok(0);
        for name in names {
            let called = self.call(context, &self.request(change(name.clone())), &name);
            if called.is_ok() {
                print(&format!("OST {name}_UUID {done} pool {}\n", self.full));
            }
            last = last.and(called.map(|()| 0));
        }
        last
    }

    fn call<O: Operation<Reply = ()>>(
        &self,
        context: &Context,
        request: &O,
        ost: &str,
    ) -> Result<(), Status> {
        context.client.call(request).map_err(|error| match error {
            CallError::Refused(error) if self.explains(&error, ost) => exit::of_errno(error.errno),
            other => failed(other),
        })
    }

    /// Says what is wrong as lctl does. Returns false for what lctl has no words for.
    fn explains(&self, error: &AdminError, ost: &str) -> bool {
        let (full, fs) = (self.full, self.fsname);
        let why = match Errno(-error.errno) {
            Errno::ENAMETOOLONG => {
                "either the pool or file system name is too long (max pool name \
                                    len is 15 and file system name is 8)"
                    .to_owned()
            }
            Errno::EEXIST if ost.is_empty() => format!("pool {full} already exists"),
            Errno::EEXIST => format!("{ost}_UUID is already in pool {full}"),
            Errno::ENOENT if ost.is_empty() => format!("pool {full} not found"),
            Errno::ENOENT => format!("{ost}_UUID not found in pool {full}"),
            Errno::ENOTEMPTY => format!("pool {full} not empty, please remove all members"),
            Errno::ENODEV if !ost.is_empty() && error.hint.is_none() => {
                format!("{ost}_UUID is not part of the '{fs}' fs.")
            }
            _ if error.errno == ENOMEDIUM => format!("pool {full} not found"),
            _ => return false,
        };
        complain(&format!("{}: {why}\n", self.command));
        true
    }
}

fn list(context: &Context, given: &str) -> CommandResult {
    let (fsname, pool) = match given.split_once('.') {
        Some((fsname, pool)) => (fsname, Some(pool)),
        None => (given, None),
    };
    let request = MgsPools { fsname: fsname.to_owned() };
    let mut pools = context.client.call(&request).map_err(failed)?.pools;
    let Some(pool) = pool else {
        let lines: String = pools.keys().map(|pool| format!("{fsname}.{pool}\n")).collect();
        return Ok(print(&format!("Pools from {fsname}:\n{lines}")));
    };
    let Some(osts) = pools.remove(pool) else {
        complain(&format!("pool_list: pool {given} not found\n"));
        return Err(exit::of_errno(-Errno::ENOENT.0));
    };
    let lines: String = osts.iter().map(|ost| format!("{ost}_UUID\n")).collect();
    Ok(print(&format!("Pool: {given}\n{lines}")))
}
