//! Context that every tool command needs: the node and the output format.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, CallError, Client, Operation};
use fulmar_control::show::{ErrorObject, exit};
pub(crate) use fulmar_control::tool::{Status, complain, print};
use fulmar_control::value::{Dialect, Report};

/// Options that select the node.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArgs {
    /// Control socket of the node [default: /run/fulmar/control.sock, else
    /// $XDG_RUNTIME_DIR/fulmar/control.sock]
    #[arg(long, global = true, env = "FULMAR_CONTROL", hide_env_values = true, value_name = "PATH",
        help_heading = COMMON, display_order = 100)]
    control: Option<PathBuf>,
}

impl NodeArgs {
    /// Uses the socket of the option, else that of the environment, else the default.
    pub(crate) fn at(control: Option<PathBuf>) -> Self {
        Self { control: control.or_else(|| std::env::var_os("FULMAR_CONTROL").map(PathBuf::from)) }
    }

    /// Returns the path of the control socket; `None` if it is the default.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    pub(crate) fn client(&self) -> Client {
        self.control.as_ref().map_or_else(Client::at_default, Client::new)
    }

    /// As [`Self::client`]; without an option also of the only node that runs here, whatever its
    /// socket. For commands that change nothing.
    pub(crate) fn client_of_running(&self) -> Client {
        self.control.as_ref().map_or_else(Client::of_running, Client::new)
    }
}

/// Options that select the output format.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON
    #[arg(long, global = true, help_heading = COMMON, display_order = 101)]
    json: bool,
    /// Print YAML as releases from 2.16 on do (netlink), or as earlier ones did (cyaml)
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHICH",
        help_heading = COMMON, display_order = 102)]
    dialect: DialectArg,
}

const COMMON: &str = "Options of every command";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectArg {
    #[default]
    Netlink,
    Cyaml,
}

/// How a command reports a failure: two families of commands differ in format and exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Commands that changed in 2.16: net, peer, route, import, ….
    Listing,
    /// Commands that did not change: stats, global, set, udsp, ….
    Classic,
}

/// The node and the output format of a command.
#[derive(Debug)]
pub(crate) struct Context {
    tool: &'static str,
    pub(crate) client: Client,
    /// Whether the user has named it: then a command is about nothing else.
    pub(crate) is_node_named: bool,
    pub(crate) json: bool,
    pub(crate) dialect: Dialect,
}

impl Context {
    pub(crate) fn new(tool: &'static str, which: &NodeArgs, how: &OutputArgs) -> Self {
        let dialect = match how.dialect {
            DialectArg::Netlink => Dialect::Netlink,
            DialectArg::Cyaml => Dialect::Cyaml,
        };
        let is_node_named = which.path().is_some();
        Self { tool, client: which.client(), is_node_named, json: how.json, dialect }
    }

    /// Returns the same with the output of releases before 2.16.
    pub(crate) fn as_before(&self) -> Self {
        Self { client: self.client.clone(), dialect: Dialect::Cyaml, ..*self }
    }

    /// Calls the node; prints the reply with `print`, or reports the error.
    pub(crate) fn query<O: Operation>(
        &self,
        form: Form,
        op: &str,
        object: &str,
        operation: &O,
        print: impl FnOnce(O::Reply) -> Status,
    ) -> Status {
        match self.client.call(operation) {
            Ok(reply) => print(reply),
            Err(error) => self.failed(form, op, object, error),
        }
    }

    /// Calls the node for an operation that prints nothing if it succeeds.
    pub(crate) fn execute<O: Operation<Reply = ()>>(
        &self,
        form: Form,
        op: &str,
        object: &str,
        operation: &O,
    ) -> Status {
        self.query(form, op, object, operation, |()| 0)
    }

    /// The same for what may be absent, which the node tells by `errno`. For Lustre's tool that is no failure.
    pub(crate) fn execute_if_there<O: Operation<Reply = ()>>(
        &self,
        (op, object): (&str, &str),
        operation: &O,
        (errno, hint): (Errno, &str),
    ) -> Status {
        match self.client.call(operation) {
            Ok(()) => 0,
            Err(CallError::Refused(error)) if error.is(errno) => {
                self.tell(op, object, &format!("# hint: {hint}\n"), errno);
                0
            }
            Err(error) => self.failed(Form::Listing, op, object, error),
        }
    }

    /// Prints a report.
    pub(crate) fn show(&self, report: &Report) -> Status {
        print(&if self.json { report.to_json() } else { report.to_yaml(self.dialect) })
    }

    /// Reports why a call failed.
    pub(crate) fn failed(&self, form: Form, op: &str, object: &str, error: CallError) -> Status {
        match error {
            CallError::Refused(error) => self.refuse(form, op, object, &error),
            error => {
                let text = format!("{}: {error}\n", self.tool);
                self.tell(op, object, &text, Errno::ENOTCONN);
                exit::NO_NODE
            }
        }
    }

    /// Prints what Lustre's tools report as plain text, or the same as JSON.
    pub(crate) fn tell(&self, op: &str, object: &str, text: &str, errno: Errno) {
        complain(&if self.json {
            described(op, object, &AdminError::new(errno, text.trim_end())).to_json()
        } else {
            text.to_owned()
        });
    }

    /// Reports an argument that the tool itself does not take.
    pub(crate) fn reject(&self, op: &str, object: &str, descr: &str) -> Status {
        let object = described(op, object, &AdminError::new(Errno::EPERM, descr));
        complain(&if self.json { object.to_json() } else { object.to_classic() });
        exit::FAILED
    }

    /// Prints an error object.
    pub(crate) fn refuse(&self, form: Form, op: &str, object: &str, error: &AdminError) -> Status {
        let described = described(op, object, error);
        complain(&match (self.json, form) {
            (true, _) => described.to_json(),
            (false, Form::Listing) => described.to_listing(self.dialect),
            (false, Form::Classic) => described.to_classic(),
        });
        if let Some(hint) = error.hint.as_ref().filter(|_| !self.json) {
            // A comment, so that programs can still parse the object as YAML.
            complain(&format!("# hint: {}\n", hint.replace('\n', "\n# ")));
        }
        match form {
            Form::Listing => exit::BAD_PARAM,
            Form::Classic => exit::of_errno(error.errno),
        }
    }
}

fn described(op: &str, object: &str, error: &AdminError) -> ErrorObject {
    let AdminError { errno, descr, hint } = error.clone();
    ErrorObject { op: op.to_owned(), object: object.to_owned(), errno, descr, hint }
}

/// Parses the words of a command, its name first, for tests.
#[cfg(test)]
pub(crate) fn parsed<T: Args>(line: &str) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("test"));
    T::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
}
