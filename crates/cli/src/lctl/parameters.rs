//! `lctl get_param`, `set_param` and `list_param`: parameters of the node, of its targets and of mounts, as the
//! files of a kernel node. Spec: lnet-admin §20.

use std::collections::{BTreeMap, BTreeSet};

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{CallError, ParameterList, ParameterSet, ParameterShow};
use fulmar_control::show::{Form, ParameterName, exit};

use super::entries::{Entry, select};
use super::mount_parameters::{self, MountParameter};
use super::{CommandResult, failed};
use crate::context::{Context, Status, complain, print};
use crate::mounts::mounts;

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(super) enum Command {
    /// Print parameters of the node, of its targets or of mounts
    ///
    /// Of the network: nis, peers, stats, routers, routes, buffers and others; "list_param '*'" lists them. Of targets
    /// of the node, and of what "fulmar mount" has mounted on this machine: patterns such as 'mdt.*.md_stats' and
    /// 'osc.*.import', in which * stands for any characters between two dots. With --control, of that node only.
    GetParam(Get),
    /// Print the names of parameters
    ListParam(List),
}

#[derive(Debug, clap::Args)]
pub(super) struct Get {
    /// Print values without names
    #[arg(short = 'n', long = "no-name")]
    values_only: bool,
    /// Print names without values
    #[arg(short = 'N', long = "only-name", alias = "name-only", conflicts_with = "values_only")]
    names_only: bool,
    /// Print the name before each line of a value
    #[arg(short = 'H', long = "header", conflicts_with = "names_only")]
    each_line: bool,
    /// Print NAME: VALUE
    #[arg(short = 'y', long, conflicts_with_all = ["names_only", "each_line"])]
    yaml: bool,
    #[command(flatten)]
    which: Which,
    /// Names, or patterns for names
    #[arg(required = true)]
    names: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// Print only directories
    #[arg(short = 'D', long = "dir-only", alias = "directory-only")]
    directories_only: bool,
    #[command(flatten)]
    which: Which,
    /// Names, or patterns for names, such as 'obdfilter.*.*'
    #[arg(required = true)]
    names: Vec<String>,
}

/// Options that both commands have.
#[derive(Debug, clap::Args)]
struct Which {
    /// Add / to the name of a directory, and = to that of what can be set
    #[arg(short = 'F', long)]
    classify: bool,
    /// Print what is in selected directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Only what can be read
    #[arg(short = 'r', long)]
    readable: bool,
    /// Only what can be set
    #[arg(short = 'w', long)]
    writable: bool,
    /// Parameters of modules too, such as lnet_retry_count
    #[arg(short = 'o', long = "module")]
    modules: bool,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> CommandResult {
        match self {
            Self::GetParam(get) => each(&get.names, |name| get.run(name, context)),
            Self::ListParam(list) => each(&list.names, |name| list.run(name, context)),
        }
    }
}

/// Runs a command for each name, and returns the first failure.
fn each(names: &[String], run: impl Fn(&str) -> CommandResult) -> CommandResult {
    let mut status = Ok(0);
    for name in names {
        status = status.and(run(name));
    }
    status
}

impl Get {
    fn form(&self) -> Form {
        match self {
            Self { names_only: true, .. } => Form::Name,
            Self { yaml: true, .. } => Form::Yaml,
            Self { each_line: true, .. } => Form::EachLine,
            Self { values_only: true, .. } => Form::Value,
            _ => Form::Both,
        }
    }

    fn run(&self, name: &str, context: &Context) -> CommandResult {
        let found = self.which.find("get_param", name, context)?;
        let files = found.entries.iter().filter(|one| !one.is_directory());
        let form = self.form();
        if form == Form::Name {
            let names: String = files.map(|one| form.text(&self.which.name(one), "")).collect();
            return Ok(print(&names));
        }
        let values = found.values(&self.which, name, context)?;
        let mut status = Ok(0);
        for one in files {
            // As a kernel's tool, it returns how the last of what a pattern selects was read.
            let value = values.get(&one.name).cloned();
            let unread = if one.is_readable() { None } else { Some(Err(Errno::EINVAL)) };
            status = match value.or(unread) {
                Some(Ok(value)) => Ok(print(&form.text(&self.which.name(one), &value))),
                Some(Err(errno)) => {
                    let path = one.name.join("/");
                    complain(&format!("error: read_param: '{path}': {errno}\n"));
                    Err(exit::of_errno(-errno.0))
                }
                None => status,
            };
        }
        status
    }
}

impl List {
    fn run(&self, name: &str, context: &Context) -> CommandResult {
        let found = self.which.find("list_param", name, context).inspect_err(|_| {
            let path = path(&self.which.pattern(name));
            complain(&format!("error: list_param: listing '{path}': {}\n", Errno::ENOENT));
        })?;
        for one in found.entries.iter().filter(|one| one.is_directory() || !self.directories_only) {
            print(&Form::Name.text(&self.which.name(one), ""));
        }
        Ok(0)
    }
}

/// What a pattern selects.
struct Matches {
    entries: Vec<Entry>,
    mounted: Vec<MountParameter>,
    /// The names that the node has.
    of_node: Vec<ParameterName>,
}

/// The values of parameters by their names, or why one is not read.
type Values = BTreeMap<Vec<String>, Result<String, Errno>>;

impl Which {
    /// Returns the pattern that a word of the command line means.
    fn pattern(&self, word: &str) -> String {
        let word = if self.classify { word.trim_end_matches(['@', '=', '/']) } else { word };
        word.replace('\\', "")
    }

    /// Returns a name as it is printed.
    fn name(&self, entry: &Entry) -> String {
        entry.full_name() + if self.classify { entry.mark() } else { "" }
    }

    /// Finds what a word selects. Nothing is an error.
    fn find(&self, command: &str, word: &str, context: &Context) -> Result<Matches, Status> {
        let pattern = self.pattern(word);
        let mounted = of_mounts(context);
        let mut names: Vec<ParameterName> = mounted.iter().map(MountParameter::listed).collect();
        let request = ParameterList { patterns: vec![pattern.clone()], modules: self.modules };
        let of_node = match context.client.call(&request) {
            Ok(of_node) => of_node,
            Err(CallError::Refused(error)) => return Err(failed(CallError::Refused(error))),
            Err(_) if !select(&pattern, &names, false).is_empty() => Vec::new(),
            Err(error) => return Err(without_node(command, &pattern, error, context)),
        };
        names.extend(of_node.iter().cloned());
        let mut entries = select(&pattern, &names, self.recursive);
        if entries.is_empty() {
            return Err(if self.recursive {
                exit::of_errno(-Errno::ENOENT.0)
            } else {
                missing(command, &pattern)
            });
        }
        let is_shown = |one: &Entry| {
            one.is_directory()
                || ((one.is_readable() || !self.readable) && (one.is_writable() || !self.writable))
        };
        entries.retain(is_shown);
        Ok(Matches { entries, mounted, of_node })
    }
}

impl Matches {
    /// Reads the values of the files that a word selects.
    fn values(&self, which: &Which, word: &str, context: &Context) -> Result<Values, Status> {
        let files = self.entries.iter().filter(|one| one.is_readable()).map(|one| &one.name[..]);
        let files: BTreeSet<&[String]> = files.collect();
        let is_file = |name: &[String]| files.contains(name);
        let mut values = Values::new();
        for one in self.mounted.iter().filter(|one| is_file(one.parts())) {
            match one.read() {
                Ok(value) => values.extend(value.map(|value| (value.name, Ok(value.value)))),
                Err(errno) => drop(values.insert(one.parts().to_vec(), Err(errno))),
            }
        }
        let of_node: Vec<&ParameterName> =
            self.of_node.iter().filter(|one| is_file(&one.name)).collect();
        // The word selects the files of a directory only with its content, so those are named.
        let patterns = match which.recursive {
            false if of_node.is_empty() => Vec::new(),
            false => vec![which.pattern(word)],
            true => of_node.iter().map(|one| one.name.join(".")).collect(),
        };
        for patterns in patterns.chunks(NAMES_MAX) {
            let request = ParameterShow { patterns: patterns.to_vec(), modules: which.modules };
            let read = context.client.call(&request).map_err(failed)?;
            values.extend(read.into_iter().map(|one| (one.name, Ok(one.value))));
        }
        Ok(values)
    }
}

/// How many names are asked for at once.
const NAMES_MAX: usize = 1000;

/// Sets parameters, each given as `mdt.*.root_squash=99:99`, or as a name and a value.
pub(super) fn set(words: &[String], how: &How, context: &Context) -> CommandResult {
    let mut words = words.iter();
    let mut status = Ok(0);
    while let Some(word) = words.next() {
        let pair = match word.split_once('=') {
            Some((name, value)) => Some((name, value)),
            None => words.next().map(|value| (word.as_str(), value.as_str())),
        };
        let Some((name, value)) = pair.filter(|(_, value)| !value.is_empty()) else {
            let name = word.trim_end_matches('=');
            complain(&format!("error: set_param: setting {name}: {}\n", Errno::EINVAL));
            return status.and(Err(exit::BAD_PARAM));
        };
        let set = how.set(&name.replace('\\', ""), value, context);
        status = status.and(set);
    }
    status
}

/// How parameters are set.
pub(super) struct How {
    /// Without printing what was set.
    pub(super) quiet: bool,
    /// Those of modules too.
    pub(super) modules: bool,
}

impl How {
    /// Sets parameters of the node, of its targets and of mounts.
    fn set(&self, pattern: &str, value: &str, context: &Context) -> CommandResult {
        let mut status = Ok(0);
        // The node and each mount have some of the same name.
        let mut told = BTreeSet::new();
        let mut tell = |name: &str| {
            if !self.quiet && told.insert(name.to_owned()) {
                print(&format!("{name}={value}\n"));
            }
        };
        let mut mounted = of_mounts(context);
        mounted.retain(|one| one.is_selected(pattern));
        for one in &mounted {
            match one.set(value) {
                Ok(()) => tell(&one.name()),
                Err(errno) => {
                    status = status.and(Err(not_set(one.path(), value, errno)));
                }
            }
        }
        let request = ParameterSet {
            pattern: pattern.to_owned(),
            value: value.to_owned(),
            modules: self.modules,
        };
        match context.client.call(&request) {
            Ok(set) => {
                set.iter().for_each(|name| tell(name));
                status
            }
            Err(CallError::Refused(error)) if error.errno == -Errno::ENOENT.0 => {
                match mounted[..] {
                    [] => {
                        missing("set_param", pattern);
                        Err(refused(&path(pattern), value, Errno::ENOENT))
                    }
                    _ => status,
                }
            }
            Err(CallError::Refused(error)) => {
                let path = path(pattern);
                let status = not_set(&path, value, Errno(-error.errno));
                complain(&format!("hint: {}\n", error.descr));
                Err(status)
            }
            Err(_) if !mounted.is_empty() => status,
            Err(error) => Err(without_node("set_param", pattern, error, context)),
        }
    }
}

/// Reports that a parameter is not set.
fn not_set(path: &str, value: &str, errno: Errno) -> Status {
    complain(&format!("error: set_param: setting {path}={value}: {errno}\n"));
    refused(path, value, errno)
}

/// The second line of such a report.
fn refused(path: &str, value: &str, errno: Errno) -> Status {
    complain(&format!("error: set_param: setting '{path}'='{value}': {errno}\n"));
    exit::of_errno(-errno.0)
}

/// Returns the parameters of mounts.
fn of_mounts(context: &Context) -> Vec<MountParameter> {
    if context.is_node_named { Vec::new() } else { mount_parameters::all() }
}

/// Reports that nothing is selected on a machine without a node: where something is mounted, none is needed.
fn without_node(command: &str, name: &str, error: CallError, context: &Context) -> Status {
    if context.is_node_named || mounts().is_empty() {
        failed(error)
    } else {
        missing(command, name)
    }
}

/// Reports that there is no such parameter.
fn missing(command: &str, pattern: &str) -> Status {
    let path = path(pattern);
    complain(&format!("error: {command}: param_path '{path}': {}\n", Errno::ENOENT));
    exit::of_errno(-Errno::ENOENT.0)
}

fn path(pattern: &str) -> String {
    pattern.replace('.', "/")
}
