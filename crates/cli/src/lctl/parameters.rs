//! `lctl get_param`, `set_param` and `list_param`: statistics of the network, and parameters of targets and of
//! mounts, as the files of a kernel node. Spec: lnet-admin §20.

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{CallError, ParameterSet, ParameterShow};
use fulmar_control::show::{self, Parameter, exit};

use super::mounted::{self, Mounted};
use super::{Ran, failed};
use crate::context::{Context, Status, complain, print};
use crate::mounts::mounts;

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(super) enum Command {
    /// Print statistics of the network, or parameters of targets and of mounts
    ///
    /// Of the network: nis, peers, stats, routers, routes, buffers. Of targets of the node, and of what "fulmar mount"
    /// has mounted on this machine: patterns such as 'mdt.*.md_stats' and 'osc.*.import', in which * stands for
    /// any characters between two dots. With --control, of that node only.
    GetParam {
        /// Print values without names
        #[arg(short = 'n')]
        values_only: bool,
        /// Print names without values
        #[arg(short = 'N', conflicts_with = "values_only")]
        names_only: bool,
        /// Table of the network, or pattern for parameters
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Print the names of parameters of targets and of mounts
    ListParam {
        /// Pattern, such as 'obdfilter.*.*'
        #[arg(required = true)]
        names: Vec<String>,
    },
}

/// The statistics of the network.
const TABLES: [&str; 6] = ["nis", "peers", "stats", "routers", "routes", "buffers"];

/// What is printed of a parameter.
#[derive(Clone, Copy)]
enum Form {
    Both,
    Value,
    Name,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Ran {
        let (command, form, names) = match self {
            Self::GetParam { values_only: true, names, .. } => ("get_param", Form::Value, names),
            Self::GetParam { names_only: false, names, .. } => ("get_param", Form::Both, names),
            Self::GetParam { names, .. } => ("get_param", Form::Name, names),
            Self::ListParam { names } => ("list_param", Form::Name, names),
        };
        let mut status = Ok(0);
        for name in names {
            let found = find(command, &name, form, context)?;
            if found.is_empty() {
                status = Err(missing(command, &name));
            }
            let is_table = TABLES.contains(&name.as_str());
            for parameter in &found {
                print(&form.text(parameter, is_table));
            }
        }
        status
    }
}

impl Form {
    /// `is_table`: its value begins behind its name, however few lines it has.
    fn text(self, parameter: &Parameter, is_table: bool) -> String {
        match self {
            Self::Name => parameter.full_name() + "\n",
            Self::Value => parameter.value.clone(),
            Self::Both if is_table => format!("{}=\n{}", parameter.full_name(), parameter.value),
            Self::Both => show::parameter(parameter),
        }
    }
}

/// Sets parameters of targets of the node and of mounts, given as `mdt.*.root_squash=99:99`.
pub(super) fn set(parameter: &str, quiet: bool, context: &Context) -> Ran {
    let Some((pattern, value)) = parameter.split_once('=') else {
        complain(&format!("error: set_param: {parameter} is not PARAMETER=VALUE\n"));
        return Err(exit::BAD_PARAM);
    };
    let mut status = Ok(0);
    let mounted = of_mounts(pattern, context);
    for one in &mounted {
        match one.set(value) {
            Ok(()) if quiet => {}
            Ok(()) => drop(print(&format!("{}={value}\n", one.name()))),
            Err(errno) => {
                let what = format!("setting {}={value}: {errno}", one.path());
                complain(&format!("error: set_param: {what}\n"));
                status = status.and(Err(exit::of_errno(-errno.0)));
            }
        }
    }
    let request = ParameterSet { pattern: pattern.to_owned(), value: value.to_owned() };
    match context.client.call(&request) {
        Ok(set) => {
            for name in set.iter().filter(|_| !quiet) {
                print(&format!("{name}={value}\n"));
            }
            status
        }
        Err(CallError::Refused(error)) if error.errno == -Errno::ENOENT.0 => match mounted[..] {
            [] => Err(missing("set_param", pattern)),
            _ => status,
        },
        Err(CallError::Refused(error)) => {
            complain(&format!("error: set_param: {}\n", error.descr));
            Err(exit::of_errno(error.errno))
        }
        Err(_) if !mounted.is_empty() => status,
        Err(error) => Err(without_node("set_param", pattern, error, context)),
    }
}

/// Returns what a table or a pattern selects. What is printed without values is not read.
fn find(
    command: &str,
    name: &str,
    form: Form,
    context: &Context,
) -> Result<Vec<Parameter>, Status> {
    if TABLES.contains(&name) {
        let value = context.client.get(&format!("/v1/table/{name}")).map_err(failed)?;
        return Ok(vec![Parameter { name: vec![name.to_owned()], value }]);
    }
    let mounted = of_mounts(name, context);
    let mut found = Vec::new();
    for one in &mounted {
        match form {
            Form::Name => found.push(one.unread()),
            Form::Both | Form::Value => found.extend(one.read().map_err(|errno| {
                let what = format!("reading {}: {errno}", one.path());
                complain(&format!("error: {command}: {what}\n"));
                exit::of_errno(-errno.0)
            })?),
        }
    }
    match context.client.call(&ParameterShow { patterns: vec![name.to_owned()] }) {
        Ok(of_targets) => found.extend(of_targets),
        Err(CallError::Refused(error)) => return Err(failed(CallError::Refused(error))),
        Err(_) if !mounted.is_empty() => {}
        Err(error) => return Err(without_node(command, name, error, context)),
    }
    Ok(found)
}

/// Returns the parameters of mounts that a pattern selects.
fn of_mounts(pattern: &str, context: &Context) -> Vec<Mounted> {
    if context.is_node_named { Vec::new() } else { mounted::find(pattern) }
}

/// Reports that nothing is selected on a machine without a node: where something is mounted, none is needed.
fn without_node(command: &str, name: &str, error: CallError, context: &Context) -> Status {
    match context.is_node_named || mounts().is_empty() {
        true => failed(error),
        false => missing(command, name),
    }
}

/// Reports that there is no such parameter.
fn missing(command: &str, name: &str) -> Status {
    let path = name.replace('.', "/");
    complain(&format!("error: {command}: param_path '{path}': No such file or directory\n"));
    exit::of_errno(-Errno::ENOENT.0)
}
