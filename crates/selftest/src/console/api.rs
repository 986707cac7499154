//! Commands of an administrator to a console, and the answers. Spec: lnet-selftest §13 to §16.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use serde::{Deserialize, Serialize};

/// One command, with the key of the session: the user's `LST_SESSION`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KeyedCommand {
    pub key: u32,
    pub command: Command,
}

/// Commands of `lst`. Answered by [`Reply::Done`], unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// [`Reply::Session`].
    NewSession {
        name: String,
        /// Seconds without a command after which the session expires; 0 for the default.
        timeout: u32,
        force: bool,
        features: u32,
    },
    /// [`Reply::Nodes`], of the nodes of the session.
    EndSession {},
    /// Needs no key: [`Reply::Session`].
    ShowSession {},
    /// Creates an empty group.
    AddGroup {
        group: String,
    },
    /// Adds nodes to the session and to a group: [`Reply::Nodes`].
    AddNodes {
        group: String,
        nodes: Vec<Nid>,
    },
    /// Releases its nodes: [`Reply::Nodes`].
    DeleteGroup {
        group: String,
    },
    /// Retries the nodes that are not active: [`Reply::Nodes`].
    RefreshGroup {
        group: String,
    },
    /// Removes the nodes in any of these states: [`Reply::Nodes`].
    CleanGroup {
        group: String,
        states: Vec<NodeState>,
    },
    /// [`Reply::Nodes`], of the removed nodes.
    RemoveNodes {
        group: String,
        nodes: Vec<Nid>,
    },
    /// [`Reply::Names`].
    ListGroups {},
    /// [`Reply::Group`].
    ShowGroup {
        group: String,
    },
    AddBatch {
        batch: String,
    },
    /// [`Reply::Names`].
    ListBatches {},
    /// [`Reply::Batch`].
    ShowBatch {
        batch: String,
    },
    /// [`Reply::Nodes`], of the servers, and then of the clients if all servers agreed.
    AddTest {
        batch: String,
        test: TestSpec,
        /// RPCs of each unit; negative for no limit.
        loops: i32,
        concurrency: u32,
        /// How many clients share how many servers.
        distribute: (u32, u32),
        from: String,
        to: String,
    },
    /// [`Reply::Nodes`], of the clients that are active.
    Run {
        batch: String,
        timeout: u32,
    },
    /// [`Reply::Nodes`], of the clients that are active.
    Stop {
        batch: String,
        force: bool,
    },
    /// [`Reply::Active`].
    Query {
        batch: String,
        /// Number of the test, from 1; 0 for the whole batch.
        test: u32,
        servers: bool,
        timeout: u32,
    },
    /// Queries the sessions of nodes: [`Reply::Sessions`].
    Ping {
        target: Target,
        timeout: u32,
    },
    /// Queries the counters of nodes: [`Reply::Stats`].
    Stat {
        target: Target,
        timeout: u32,
    },
    /// Queries the measurements of Fulmar nodes: [`Reply::Measures`].
    Measure {
        target: Target,
        timeout: u32,
    },
}

/// The target nodes of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    Session,
    Group(String),
    Batch {
        name: String,
        servers: bool,
    },
    /// Those of these nodes that are in the session.
    Nodes(Vec<Nid>),
}

/// A test, with the parameters of `lst add_test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
#[serde(rename_all = "snake_case")]
pub enum TestSpec {
    Ping,
    Brw {
        /// Data goes from the client to the server.
        write: bool,
        check: DataCheck,
        /// Length in bytes: a multiple of 8, at most 1 MiB.
        size: u32,
        /// Offset in bytes: a multiple of 8.
        offset: u32,
    },
}

/// How the data of a test is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
#[serde(rename_all = "snake_case")]
pub enum DataCheck {
    #[default]
    None,
    Simple,
    Full,
}

/// The state of a node with respect to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// In the session.
    Active,
    /// In another session.
    Busy,
    /// It does not answer.
    Down,
    /// In no session, or never queried.
    Unknown,
}

/// The result of a command. An error is a local one: no request was sent. ESRCH no session,
/// ESHUTDOWN the session has expired, EACCES another key, ENOENT no such group, batch or test,
/// EEXIST exists already, EINVAL a bad argument, EBUSY in use, ENETDOWN a node is not active.
pub type Answer = Result<Reply, Errno>;

/// A reply of a console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Done,
    Session(SessionInfo),
    Names(Vec<String>),
    Group(GroupInfo),
    Batch(BatchInfo),
    /// Reply to commands that change nodes.
    Nodes(NodesReply),
    /// How many tests, or units of the one test, run on each node.
    Active(Vec<NodeAnswer<u32>>),
    Sessions(Vec<NodeAnswer<PingInfo>>),
    Stats(Vec<NodeAnswer<Stats>>),
    Measures(Vec<NodeAnswer<Measures>>),
}

/// The answers of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NodesReply {
    /// The features of the session, which nodes may have reduced.
    pub features: u32,
    pub nodes: Vec<NodeAnswer<()>>,
}

/// The answer of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NodeAnswer<T> {
    pub nid: Nid,
    /// Its state afterwards.
    pub state: NodeState,
    pub result: Result<T, NodeError>,
}

/// Why a node failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeError {
    /// The RPC failed: there was no answer.
    Rpc(Errno),
    /// The node refused.
    Framework(Errno),
}

/// The data of `lst show_session`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SessionInfo {
    pub name: String,
    pub stamp: i64,
    pub nid: Nid,
    pub key: u32,
    pub features: u32,
    pub timeout: u32,
    pub force: bool,
    pub nodes: u32,
}

/// A node and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NodeInfo {
    pub nid: Nid,
    pub state: NodeState,
}

/// The nodes of a group, in the order in which they were added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct GroupInfo {
    pub nodes: Vec<NodeInfo>,
}

/// A batch and its tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BatchInfo {
    pub running: bool,
    /// Each node once.
    pub clients: Vec<NodeInfo>,
    pub servers: Vec<NodeInfo>,
    pub tests: Vec<TestInfo>,
}

/// A test of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TestInfo {
    pub test: TestSpec,
    pub loops: i32,
    pub concurrency: u32,
    pub distribute: (u32, u32),
    pub clients: Vec<NodeInfo>,
    pub servers: Vec<NodeInfo>,
}

/// The session of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PingInfo {
    pub name: String,
    /// The console of its session.
    pub console: Option<Nid>,
    /// Timeout in seconds.
    pub timeout: u32,
}

/// Counters of a node as on the wire: those of 32 bits wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Stats {
    pub running_ms: u32,
    pub active_batches: u32,
    pub zombie_sessions: u32,
    pub brw_errors: u32,
    pub ping_errors: u32,
    pub rpc_errors: u32,
    pub rpcs_sent: u32,
    pub rpcs_received: u32,
    pub rpcs_dropped: u32,
    pub rpcs_expired: u32,
    pub bulk_get: u64,
    pub bulk_put: u64,
    pub send_count: u32,
    pub recv_count: u32,
    pub drop_count: u32,
    pub send_length: u64,
    pub recv_length: u64,
}

/// Measurements of a Fulmar node as a client, since the start of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Measures {
    /// False for a kernel node, which reports no measurements.
    pub reported: bool,
    pub rpcs: u64,
    /// Bulk bytes.
    pub bytes: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    /// CPU time of the whole process since it started, in nanoseconds.
    pub cpu_ns: u64,
    pub retransmits: u32,
    /// In bytes; 0 if unknown.
    pub window: u32,
    /// The counts of [`Histogram`](fulmar_lnet_wire::selftest::Histogram), from bucket 0 to the
    /// last that is not zero.
    pub buckets: Vec<u32>,
}
