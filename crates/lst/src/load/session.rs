//! A session that ends when its value is dropped.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_selftest::console::{
    Command, Measures, NodeAnswer, NodeError, NodeState, Reply, SessionInfo, Stats, Target,
};
use thiserror::Error;

use crate::console::{CallFailure, Console};

/// Why there is no measurement.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The local node did not receive the command or did not answer.
    #[error("{0}")]
    Call(#[from] CallFailure),
    /// The local node already has a session.
    #[error(
        "this node already has the session {:?} (key {}): end it with \"LST_SESSION={} lst \
         end_session\", or add --force", .0.name, .0.key, .0.key
    )]
    Exists(Box<SessionInfo>),
    /// The local node refused.
    #[error("cannot {doing}: {}", describe(*.errno))]
    Refused { doing: &'static str, errno: Errno },
    /// Other nodes refused or did not answer.
    #[error("cannot {doing}:{}", listed(.nodes))]
    Nodes { doing: &'static str, nodes: Vec<(Nid, String)> },
    /// The answer of the local node does not fit the request.
    #[error("cannot {doing}: unexpected answer of the node; is it the same release as lst?")]
    UnexpectedReply { doing: &'static str },
    /// The system refused.
    #[error("cannot install signal handlers: {0}")]
    Signals(std::io::Error),
}

fn listed(nodes: &[(Nid, String)]) -> String {
    nodes.iter().map(|(nid, why)| format!("\n  {nid} {why}")).collect()
}

/// Describes a refusal of the console.
fn describe(errno: Errno) -> String {
    match errno {
        Errno::ESRCH | Errno::ESHUTDOWN | Errno::EACCES => {
            format!("the session has ended, perhaps by another user ({errno})")
        }
        Errno::EADDRNOTAVAIL | Errno::ENETDOWN => {
            format!("a node is not active, or this node has no NID for it ({errno})")
        }
        errno => errno.to_string(),
    }
}

/// A session of the console of this node, with one batch.
pub(super) struct Session<'a> {
    console: &'a mut dyn Console,
    running: bool,
    open: bool,
}

/// The batch of every session.
const BATCH: &str = "load";
/// The session expires after this many seconds without a request; a measurement sends one each
/// second.
const TIMEOUT: u32 = 60;
/// Bit 0: sizes in bytes. Spec: lnet-selftest §8.
const FEATURES: u32 = 1;
/// How long a node under load may take to answer, in seconds.
const NODE_TIMEOUT: u32 = 5;

impl<'a> Session<'a> {
    /// Starts a session, unless there is one that may not be replaced.
    pub(super) fn begin(
        console: &'a mut dyn Console,
        name: &str,
        force: bool,
    ) -> Result<Self, Failure> {
        if let (false, Ok(Reply::Session(info))) = (force, console.ask(Command::ShowSession {})?) {
            return Err(Failure::Exists(Box::new(info)));
        }
        let name = name.to_owned();
        let new = Command::NewSession { name, timeout: TIMEOUT, force, features: FEATURES };
        console.ask(new)?.map_err(|errno| Failure::Refused { doing: "start a session", errno })?;
        let mut this = Self { console, running: false, open: true };
        this.ask("create a batch", Command::AddBatch { batch: BATCH.to_owned() })?;
        Ok(this)
    }

    /// Sends a command that needs no other node.
    pub(super) fn ask(&mut self, doing: &'static str, command: Command) -> Result<Reply, Failure> {
        self.console.ask(command)?.map_err(|errno| Failure::Refused { doing, errno })
    }

    /// Sends a command that all nodes must accept.
    pub(super) fn all(&mut self, doing: &'static str, command: Command) -> Result<(), Failure> {
        let Reply::Nodes(reply) = self.ask(doing, command)? else {
            return Err(Failure::UnexpectedReply { doing });
        };
        let failed = reply.nodes.iter().filter_map(|node| Some((node.nid, trouble(node)?)));
        match failed.collect::<Vec<_>>() {
            nodes if nodes.is_empty() => Ok(()),
            nodes => Err(Failure::Nodes { doing, nodes }),
        }
    }

    /// Returns the name of the batch.
    pub(super) fn batch(&self) -> String {
        BATCH.to_owned()
    }

    /// Starts the load.
    pub(super) fn run(&mut self) -> Result<(), Failure> {
        self.running = true;
        self.all("start the load", Command::Run { batch: self.batch(), timeout: 0 })
    }

    /// Stops the clients, at once or after the RPCs in flight.
    pub(super) fn stop(&mut self, force: bool) -> Result<(), Failure> {
        self.ask("stop the load", Command::Stop { batch: self.batch(), force })?;
        self.running = false;
        Ok(())
    }

    /// Returns the number of clients with RPCs in flight, of those that answer.
    pub(super) fn active(&mut self) -> Result<usize, Failure> {
        let doing = "check whether the load has stopped";
        let batch = self.batch();
        let query = Command::Query { batch, test: 0, servers: false, timeout: NODE_TIMEOUT };
        match self.ask(doing, query)? {
            Reply::Active(nodes) => {
                Ok(nodes.iter().filter(|node| node.result.is_ok_and(|active| active > 0)).count())
            }
            _ => Err(Failure::UnexpectedReply { doing }),
        }
    }

    /// Returns the counters of nodes.
    pub(super) fn stats(&mut self, nodes: Vec<Nid>) -> Result<Vec<NodeAnswer<Stats>>, Failure> {
        let (doing, target) = ("read the counters", Target::Nodes(nodes));
        match self.ask(doing, Command::Stat { target, timeout: NODE_TIMEOUT })? {
            Reply::Stats(nodes) => Ok(nodes),
            _ => Err(Failure::UnexpectedReply { doing }),
        }
    }

    /// Returns the additional counters of Fulmar nodes.
    pub(super) fn measures(
        &mut self,
        nodes: Vec<Nid>,
    ) -> Result<Vec<NodeAnswer<Measures>>, Failure> {
        let (doing, target) = ("measure", Target::Nodes(nodes));
        match self.ask(doing, Command::Measure { target, timeout: NODE_TIMEOUT })? {
            Reply::Measures(nodes) => Ok(nodes),
            _ => Err(Failure::UnexpectedReply { doing }),
        }
    }

    /// Ends the session.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.open = false;
        self.ask("end the session", Command::EndSession {}).map(drop)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // The error that led here is reported, not those of the cleanup.
        if self.open && self.running {
            let _ = self.console.ask(Command::Stop { batch: self.batch(), force: true });
        }
        if self.open {
            let _ = self.console.ask(Command::EndSession {});
        }
    }
}

/// Describes why a node failed.
pub(super) fn trouble<T>(answer: &NodeAnswer<T>) -> Option<String> {
    Some(match (answer.result.as_ref().err()?, answer.state) {
        (NodeError::Framework(Errno::EBUSY), NodeState::Busy) => {
            "is in another session: end that session, or take the node from it with --force"
                .to_owned()
        }
        (NodeError::Framework(Errno::ESRCH), _) => "has left the session".to_owned(),
        (NodeError::Framework(errno), _) => format!("refuses ({errno})"),
        (NodeError::Rpc(errno), _) => format!("does not answer ({errno})"),
    })
}
