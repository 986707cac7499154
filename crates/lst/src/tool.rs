//! The context of every command: the console, the clock and the two outputs; and how commands fail.
//! Spec: lnet-selftest §15.3, §15.4.

use std::io::Write;

use fulmar_base::Errno;
use fulmar_control::tool::Status;
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_selftest::console::{Answer, Command, NodeAnswer, NodeError, Reply};

use super::console::{Clock, Console};
use super::nids::ListError;

/// Exit statuses besides 0.
pub mod status {
    use super::Status;

    /// The command line is invalid; the usage is printed.
    pub const USAGE: Status = 4;
    /// A local error.
    pub const LOCAL: Status = 255;
    /// A node did not answer.
    pub const RPC: Status = 254;
    /// All nodes answered, and some refused.
    pub const FRAMEWORK: Status = 253;
}

/// The longest name of a session, a group or a batch, in bytes.
pub(super) const NAME_LEN_MAX: usize = 31;

/// The result of a command; an error is its status, after everything was printed.
pub(super) type CommandResult<T = ()> = Result<T, Status>;

/// Values of the user's environment.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    /// `LST_SESSION`.
    pub(super) session: Option<String>,
    /// `LST_FEATURES`.
    pub(super) features: Option<String>,
    /// The default name of a session: `user@host`.
    pub(super) name: String,
}

/// The subject of a command, for its error messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    /// `session`, `group`, `batch`, `test`, ….
    pub(super) object: &'a str,
    /// The start of messages for errors without their own text: `Failed to add group c`.
    pub(super) failed: &'a str,
}

/// The context of every command.
pub(super) struct Tool<'a> {
    pub(super) console: &'a mut dyn Console,
    pub(super) clock: &'a mut dyn Clock,
    pub(super) out: &'a mut dyn Write,
    pub(super) err: &'a mut dyn Write,
    pub(super) environment: &'a Environment,
}

impl Tool<'_> {
    /// Writes to standard output. Ends the command if the reader has closed it.
    pub(super) fn print(&mut self, text: &str) -> CommandResult {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|_| status::LOCAL)
    }

    /// Writes a line to standard error.
    pub(super) fn complain(&mut self, line: &str) {
        let _ = writeln!(self.err, "{line}");
    }

    /// Prints a remedy as a comment, which scripts ignore.
    pub(super) fn hint(&mut self, text: &str) {
        self.complain(&format!("# hint: {}", text.replace('\n', "\n# ")));
    }

    /// Fails with a local error.
    pub(super) fn fail<T>(&mut self, line: &str) -> CommandResult<T> {
        self.complain(line);
        Err(status::LOCAL)
    }

    /// Calls the console; the caller handles an errno.
    pub(super) fn call(&mut self, command: Command) -> CommandResult<Answer> {
        self.console.ask(command).map_err(|failure| {
            self.complain(&format!("lst: {failure}"));
            status::LOCAL
        })
    }

    /// Calls the console, or prints why there is no reply.
    pub(super) fn ask(&mut self, about: About<'_>, command: Command) -> CommandResult<Reply> {
        self.call(command)?.map_err(|errno| self.refused(about, errno))
    }

    /// Calls the console for an operation, and returns the nodes that failed.
    pub(super) fn execute(
        &mut self,
        about: About<'_>,
        command: Command,
    ) -> CommandResult<Vec<Failure>> {
        match self.ask(about, command)? {
            Reply::Done => Ok(Vec::new()),
            Reply::Nodes(reply) => Ok(failures(&reply.nodes)),
            reply => Err(self.garbled(&reply)),
        }
    }

    /// Prints an error that does not concern a node.
    pub(super) fn refused(&mut self, about: About<'_>, errno: Errno) -> Status {
        let About { object, failed } = about;
        self.complain(&match errno {
            Errno::ESRCH => "No session exists".into(),
            Errno::ESHUTDOWN => "Session is shutting down".into(),
            Errno::EACCES => "Unmatched session key or not root".into(),
            Errno::ENOENT => format!("Can't find {object} in current session"),
            Errno::EINVAL => "Invalid parameters list in command line".into(),
            Errno::EEXIST => format!("{object} already exists"),
            errno => format!("{failed}: {errno}"),
        });
        if let Some(hint) = local_hint(object, errno) {
            self.hint(hint);
        }
        status::LOCAL
    }

    /// Prints that a reply has the wrong type.
    pub(super) fn garbled(&mut self, reply: &Reply) -> Status {
        self.complain(&format!("lst: unexpected answer of the node: {reply:?}"));
        self.hint("is the node the same release as lst?");
        status::LOCAL
    }

    /// Prints why a list of NIDs is invalid.
    pub(super) fn bad_list(&mut self, error: &ListError) -> Status {
        self.complain(&error.to_string());
        self.hint(&error.hint());
        status::LOCAL
    }

    /// Requires a name that is not too long.
    pub(super) fn check_name(&mut self, name: &str) -> CommandResult {
        match name.len() {
            0 => Err(status::USAGE),
            1..=NAME_LEN_MAX => Ok(()),
            _ => self.fail(&format!("Name length is limited to {NAME_LEN_MAX}")),
        }
    }

    /// Prints which nodes failed to do `operation`, with a remedy.
    pub(super) fn check_nodes(&mut self, operation: &str, failed: &[Failure]) -> CommandResult {
        self.name_failed(operation, failed);
        self.conclude(failed)
    }

    /// Prints which nodes failed to do `operation`.
    pub(super) fn name_failed(&mut self, operation: &str, failed: &[Failure]) {
        for Failure { nid, error } in failed {
            let node = ProcessId::lustre(*nid);
            self.complain(&match error {
                NodeError::Rpc(errno) => format!("{operation} RPC failed on {node}: {errno}"),
                NodeError::Framework(errno) => {
                    format!("operation {operation} failed on {node}: {errno}")
                }
            });
        }
    }

    /// Prints on how many nodes the session could not be ended.
    pub(super) fn check_ended(&mut self, failed: &[Failure]) -> CommandResult {
        let of = |which: fn(NodeError) -> Option<Errno>| {
            let mut errors = failed.iter().filter_map(|failure| which(failure.error));
            errors.next().map(|first| (1 + errors.count(), first))
        };
        if let Some((count, errno)) = of(rpc) {
            self.complain(&format!("[RPC] Failed to send {count} session RPCs: {errno}"));
        }
        if let Some((count, errno)) = of(framework) {
            self.complain(&format!("[FWK] Failed to end session on {count} nodes: {errno}"));
        }
        for Failure { nid, error } in failed {
            let (NodeError::Rpc(errno) | NodeError::Framework(errno)) = error;
            self.complain(&format!("# {}: {errno}", ProcessId::lustre(*nid)));
        }
        self.conclude(failed)
    }

    /// Prints a remedy for the first node that failed, and returns the status.
    pub(super) fn conclude(&mut self, failed: &[Failure]) -> CommandResult {
        if let Some(Failure { nid, error }) = failed.first() {
            self.hint(&node_hint(*nid, *error));
        }
        verdict(failed)
    }
}

/// A node that failed an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) nid: Nid,
    pub(super) error: NodeError,
}

/// Returns the nodes that failed.
pub(super) fn failures<T>(answers: &[NodeAnswer<T>]) -> Vec<Failure> {
    let failure = |answer: &NodeAnswer<T>| {
        let error = *answer.result.as_ref().err()?;
        Some(Failure { nid: answer.nid, error })
    };
    answers.iter().filter_map(failure).collect()
}

/// Returns the exit status for failures of nodes.
pub(super) fn verdict(failed: &[Failure]) -> CommandResult {
    match failed.iter().any(|failure| rpc(failure.error).is_some()) {
        true => Err(status::RPC),
        false if failed.is_empty() => Ok(()),
        false => Err(status::FRAMEWORK),
    }
}

/// Returns the error of a node that did not answer.
pub(super) fn rpc(error: NodeError) -> Option<Errno> {
    match error {
        NodeError::Rpc(errno) => Some(errno),
        NodeError::Framework(_) => None,
    }
}

/// Returns the error of a node that refused.
pub(super) fn framework(error: NodeError) -> Option<Errno> {
    match error {
        NodeError::Rpc(_) => None,
        NodeError::Framework(errno) => Some(errno),
    }
}

fn local_hint(object: &str, errno: Errno) -> Option<&'static str> {
    Some(match (object, errno) {
        (_, Errno::ESRCH) => "start one: lst new_session NAME",
        (_, Errno::ESHUTDOWN) => {
            "it was not used for the time of its --timeout; start another: \
             lst new_session --force NAME"
        }
        (_, Errno::EACCES) => {
            "LST_SESSION must be the key of the session, which \"lst show_session\" prints; to \
             replace the session: lst new_session --force NAME"
        }
        ("session", Errno::EEXIST) => {
            "end it: lst end_session; or replace it: lst new_session --force NAME"
        }
        (_, Errno::EEXIST) => "choose another name",
        ("batch", Errno::ENOENT) => "\"lst list_batch\" lists the batches",
        ("test", Errno::ENOENT) => {
            "\"lst list_batch\" lists the batches, and \"lst list_batch BATCH\" lists their tests"
        }
        (_, Errno::ENOENT) => "\"lst list_group\" lists the groups",
        ("test", Errno::EINVAL | Errno::EBUSY) => {
            "tests can be added while the batch does not run, to groups with active nodes, and \
             --distribute must not need more servers than there are"
        }
        ("test", Errno::ENETDOWN) => {
            "every node of both groups must be active: \"lst list_group --all GROUP\" shows them, \
             \"lst update_group GROUP --refresh\" retries"
        }
        ("group", Errno::EBUSY) => "a test uses the group: only end_session releases it",
        _ => return None,
    })
}

fn node_hint(nid: Nid, error: NodeError) -> String {
    match error {
        NodeError::Rpc(_) => {
            format!("is {nid} up, and does it run selftest? Try: lnetctl ping {nid}")
        }
        NodeError::Framework(Errno::EBUSY) => format!(
            "{nid} is in another session, or runs this batch already; \
             \"lst new_session --force\" takes nodes from other sessions"
        ),
        NodeError::Framework(Errno::ESRCH | Errno::ENOENT) => format!(
            "{nid} has left the session or lost the batch, as after a restart: \
             lst update_group GROUP --refresh, and add the tests again"
        ),
        NodeError::Framework(Errno::EPROTO) => {
            format!("{nid} has other features: set LST_FEATURES=0 before new_session")
        }
        NodeError::Framework(_) => format!("see the log of {nid}"),
    }
}
