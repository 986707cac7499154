//! What every command of the tools needs: the node, and how to print.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fulmar_control::api::{AdminError, CallError, Client, Operation};
use fulmar_control::show::{ErrorObject, exit};
pub(crate) use fulmar_control::tool::{Status, complain, print};
use fulmar_control::value::{Dialect, Report};

/// Options that say which node is meant.
#[derive(Clone, Debug, Args)]
pub(crate) struct Which {
    /// Control socket of the node [default: /run/fulmar/control.sock, else
    /// $XDG_RUNTIME_DIR/fulmar/control.sock]
    #[arg(long, global = true, env = "FULMAR_CONTROL", hide_env_values = true, value_name = "PATH",
        help_heading = COMMON, display_order = 100)]
    control: Option<PathBuf>,
}

impl Which {
    /// Names the socket as the option does: if it is not given, by the environment or by default.
    pub(crate) fn at(control: Option<PathBuf>) -> Self {
        Self { control: control.or_else(|| std::env::var_os("FULMAR_CONTROL").map(PathBuf::from)) }
    }

    /// Returns the control socket; `None` where it is by default.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    pub(crate) fn client(&self) -> Client {
        match &self.control {
            Some(path) => Client::new(path),
            None => Client::at_default(),
        }
    }
}

/// Options that say how to print.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct How {
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

/// How a command's failure is told: two families of commands differ in form and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Those that changed in 2.16: net, peer, route, import, ….
    Listing,
    /// Those that did not: stats, global, set, udsp, ….
    Classic,
}

/// The node, and how to print.
#[derive(Debug)]
pub(crate) struct Context {
    tool: &'static str,
    pub(crate) client: Client,
    pub(crate) json: bool,
    pub(crate) dialect: Dialect,
}

impl Context {
    pub(crate) fn new(tool: &'static str, which: &Which, how: &How) -> Self {
        let dialect = match how.dialect {
            DialectArg::Netlink => Dialect::Netlink,
            DialectArg::Cyaml => Dialect::Cyaml,
        };
        Self { tool, client: which.client(), json: how.json, dialect }
    }

    /// Asks the node and has `print` show the reply, or tells why there is none.
    pub(crate) fn ask<O: Operation>(
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

    /// Asks the node to do something, which is silent if it succeeds.
    pub(crate) fn tell<O: Operation<Reply = ()>>(
        &self,
        form: Form,
        op: &str,
        object: &str,
        operation: &O,
    ) -> Status {
        self.ask(form, op, object, operation, |()| 0)
    }

    /// Prints a report.
    pub(crate) fn show(&self, report: &Report) -> Status {
        print(&match self.json {
            true => report.to_json(),
            false => report.to_yaml(self.dialect),
        })
    }

    /// Tells why a call failed.
    pub(crate) fn failed(&self, form: Form, op: &str, object: &str, error: CallError) -> Status {
        match error {
            CallError::Refused(error) => self.refuse(form, op, object, &error),
            error => {
                complain(&format!("{}: {error}\n", self.tool));
                exit::NO_NODE
            }
        }
    }

    /// Prints an error object.
    pub(crate) fn refuse(&self, form: Form, op: &str, object: &str, error: &AdminError) -> Status {
        let described = ErrorObject {
            op: op.to_owned(),
            object: object.to_owned(),
            errno: error.errno,
            descr: error.descr.clone(),
        };
        complain(&match (self.json, form) {
            (true, _) => described.to_json(),
            (false, Form::Listing) => described.to_listing(self.dialect),
            (false, Form::Classic) => described.to_classic(),
        });
        if let Some(hint) = &error.hint {
            // A comment, so that what reads the object as YAML still can.
            complain(&format!("# hint: {}\n", hint.replace('\n', "\n# ")));
        }
        match form {
            Form::Listing => exit::BAD_PARAM,
            Form::Classic => exit::of_errno(error.errno),
        }
    }
}
