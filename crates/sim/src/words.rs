//! Values of the log in words.

use std::fmt;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnd::{CloseCause, DialError};
use fulmar_lnet::{EventKind, Forwarding};
use fulmar_lnet_wire::{Body, Header};
use fulmar_selftest::console::{Answer, Command, NodeAnswer, NodeError, NodeState, Reply};
use fulmar_text::duration;

use crate::check::ledger::{Action, Expect};

/// A result of a call: `ok`, the error, or that there is no node to call.
pub(crate) fn done(result: Option<&Result<(), Errno>>) -> String {
    match result {
        Some(Ok(())) => "ok".to_owned(),
        Some(Err(errno)) => format!("failed: {errno}"),
        None => "not done: the node is down".to_owned(),
    }
}

/// The end of dialling.
pub(crate) fn dialled(result: &Result<(), DialError>) -> String {
    match result {
        Ok(()) => "connected".to_owned(),
        Err(DialError(errno)) => format!("not connected: {errno}"),
    }
}

/// How a connection ended.
pub(crate) fn closed(how: CloseCause) -> String {
    match how {
        CloseCause::Eof => "closed by the peer".to_owned(),
        CloseCause::ReadError(errno) => format!("closed: reading failed: {errno}"),
        CloseCause::WriteError(errno) => format!("closed: writing failed: {errno}"),
    }
}

/// The kind of an event, as LNet names it.
pub(crate) fn kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Get => "GET",
        EventKind::Put => "PUT",
        EventKind::Reply => "REPLY",
        EventKind::Ack => "ACK",
        EventKind::Send => "SEND",
        EventKind::Unlink => "UNLINK",
    }
}

/// The state of an event, after its kind; empty if all is well.
pub(crate) fn status(status: Result<(), Errno>) -> String {
    status.err().map_or_else(String::new, |errno| format!(" failed: {errno},"))
}

/// An operation.
pub(crate) fn action(action: Action) -> &'static str {
    match action {
        Action::Put { ack: true } => "PUT with ACK",
        Action::Put { ack: false } => "PUT",
        Action::Get => "GET",
    }
}

/// What is expected of an operation.
pub(crate) fn expected(expect: Expect) -> String {
    match expect {
        Expect::Moved(bytes) => format!("moves {bytes}"),
        Expect::Dropped => "is dropped".to_owned(),
        Expect::Anything => "is cancelled".to_owned(),
    }
}

/// A word of an administrator for the forwarding of a router.
pub(crate) fn forwarding(word: Forwarding) -> &'static str {
    match word {
        Forwarding::Enable => "enable",
        Forwarding::Disable => "disable",
        Forwarding::Drain => "drain",
    }
}

/// A time, or that there is none.
pub(crate) fn time(time: Option<Duration>) -> String {
    time.map_or_else(|| "none".to_owned(), duration)
}

/// The header of a message.
pub(crate) fn header(header: &Header) -> impl fmt::Display {
    let name = match header.body {
        Body::Ack { .. } => "ACK",
        Body::Put { .. } => "PUT",
        Body::Get { .. } => "GET",
        Body::Reply { .. } => "REPLY",
    };
    format!("{name} from {} to {}, {} bytes", header.source, header.target, header.payload_len)
}

/// A command of the selftest console, as `lst` names it.
pub(crate) fn command(command: &Command) -> String {
    match command {
        Command::NewSession { name, .. } => format!("new_session {name}"),
        Command::EndSession { .. } => "end_session".to_owned(),
        Command::AddGroup { group } => format!("add_group {group}"),
        Command::AddNodes { group, nodes } => format!("add {} nodes to {group}", nodes.len()),
        Command::AddBatch { batch } => format!("add_batch {batch}"),
        Command::AddTest { batch, concurrency, from, to, .. } => {
            format!("add_test {batch} from {from} to {to}, concurrency {concurrency}")
        }
        Command::Run { batch, .. } => format!("run {batch}"),
        Command::Stop { batch, .. } => format!("stop {batch}"),
        Command::Query { batch, .. } => format!("query {batch}"),
        Command::Stat { .. } => "stat".to_owned(),
        Command::Measure { .. } => "measure".to_owned(),
        Command::Ping { .. } => "ping".to_owned(),
        _ => "another command".to_owned(),
    }
}

/// The answer to a command.
pub(crate) fn answer(answer: &Answer) -> String {
    let reply = match answer {
        Ok(reply) => reply,
        Err(errno) => return format!("refused: {errno}"),
    };
    match reply {
        Reply::Done => "done".to_owned(),
        Reply::Session(_) => "session".to_owned(),
        Reply::Names(names) => format!("{} names", names.len()),
        Reply::Group(_) => "group".to_owned(),
        Reply::Batch(_) => "batch".to_owned(),
        Reply::Nodes(reply) => nodes(&reply.nodes),
        Reply::Active(all) => nodes(all),
        Reply::Sessions(all) => nodes(all),
        Reply::Stats(all) => nodes(all),
        Reply::Measures(all) => nodes(all),
    }
}

/// The answers of nodes: their number, and what kept some of them from it.
fn nodes<T>(all: &[NodeAnswer<T>]) -> String {
    let failed = all.iter().filter_map(|node| Some((node, node.result.as_ref().err()?)));
    let failed = failed.map(|(node, error)| {
        let why = match error {
            NodeError::Rpc(errno) => format!("does not answer: {errno}"),
            NodeError::Framework(errno) => format!("refuses: {errno}"),
        };
        let state = match node.state {
            NodeState::Active => "active",
            NodeState::Busy => "busy",
            NodeState::Down => "down",
            NodeState::Unknown => "unknown",
        };
        format!(", {} {why} ({state})", node.nid)
    });
    format!("{} nodes{}", all.len(), failed.collect::<String>())
}
