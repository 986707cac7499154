//! `lctl get_param`, `set_param` and `list_param`: statistics of the network, and parameters of targets, as
//! the files of a kernel node. Spec: lnet-admin §20.

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{CallError, ParameterSet, ParameterShow};
use fulmar_control::show::{self, Parameter, exit};

use super::{Ran, failed};
use crate::context::{Context, Status, complain, print};

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(super) enum Command {
    /// Print statistics of the network, or parameters of targets
    ///
    /// Of the network: nis, peers, stats, routers, routes, buffers. Of targets: patterns such as
    /// 'mdt.*.md_stats', in which * stands for any characters between two dots.
    GetParam {
        /// Print values without names
        #[arg(short = 'n')]
        values_only: bool,
        /// Print names without values
        #[arg(short = 'N', conflicts_with = "values_only")]
        names_only: bool,
        /// Table of the network, or pattern for parameters of targets
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Print the names of parameters of targets
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
            let found = find(&name, context)?;
            if found.is_empty() {
                let path = name.replace('.', "/");
                let what = "No such file or directory";
                complain(&format!("error: {command}: param_path '{path}': {what}\n"));
                status = Err(exit::of_errno(-Errno::ENOENT.0));
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

/// Sets parameters of targets of the node, given as `mdt.*.root_squash=99:99`.
pub(super) fn set(parameter: &str, quiet: bool, context: &Context) -> Ran {
    let Some((pattern, value)) = parameter.split_once('=') else {
        complain(&format!("error: set_param: {parameter} is not PARAMETER=VALUE\n"));
        return Err(exit::BAD_PARAM);
    };
    let (pattern, value) = (pattern.to_owned(), value.to_owned());
    let path = pattern.replace('.', "/");
    let called = context.client.call(&ParameterSet { pattern, value: value.clone() });
    let set = called.map_err(|error| match error {
        CallError::Refused(error) if error.errno == -Errno::ENOENT.0 => {
            let what = "No such file or directory";
            complain(&format!("error: set_param: param_path '{path}': {what}\n"));
            exit::of_errno(error.errno)
        }
        CallError::Refused(error) => {
            complain(&format!("error: set_param: {}\n", error.descr));
            exit::of_errno(error.errno)
        }
        other => failed(other),
    })?;
    for name in set.iter().filter(|_| !quiet) {
        print(&format!("{name}={value}\n"));
    }
    Ok(0)
}

/// Returns what a table or a pattern selects.
fn find(name: &str, context: &Context) -> Result<Vec<Parameter>, Status> {
    if !TABLES.contains(&name) {
        let request = ParameterShow { patterns: vec![name.to_owned()] };
        return context.client.call(&request).map_err(failed);
    }
    let value = context.client.get(&format!("/v1/table/{name}")).map_err(failed)?;
    Ok(vec![Parameter { name: vec![name.to_owned()], value }])
}
