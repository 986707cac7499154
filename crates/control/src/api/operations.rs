//! The operations of a node. One table defines the trait that a node implements, the paths of HTTP,
//! and the types of requests and replies.

use std::collections::BTreeMap;

use fulmar_lnet_wire::{Net, Nid, NidMatch};
use fulmar_selftest::console::{self, KeyedCommand};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::changes::{NodemapChange, PoolChange};
use super::error::AdminError;
use crate::config::{
    BuffersConf, FaultAction, FaultConf, GlobalKey, Ip2NetsConf, LnetConf, NetConf, PeerConf,
    RouteConf, UdspConf,
};
use crate::show::{
    self, Answer, Connection, Export, Fault, Globals, Peer, SocklndCounters, SocklndInterface,
    SocklndPeer, Stats,
};

/// A request to a node, with the type of its reply.
pub trait Operation: Serialize + DeserializeOwned + Send + 'static {
    /// Its path under `/v1/`.
    const PATH: &'static str;
    /// The reply.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}

macro_rules! operations {
    ($(
        $(#[doc = $doc:literal])+
        $path:literal $method:ident($request:ident) -> $reply:ty $({ $default:expr })?;
    )+) => {
        /// The administration interface of a node.
        ///
        /// Methods may block until they have a result: each runs on its own thread, and at most
        /// [`REQUESTS_MAX`](super::REQUESTS_MAX) and [`QUERIES_MAX`](super::QUERIES_MAX) run at the
        /// same time. Methods with a default are for optional features.
        pub trait Admin: Send + Sync + 'static {
            /// Why the node has failed, if it has. Its state is not shown any longer, and the process
            /// is about to end.
            fn failure(&self) -> Option<String> {
                None
            }
            $(
            operations!(@method $(#[doc = $doc])+ $method($request) -> $reply $({ $default })?);
        )+ }

        $(
            impl Operation for $request {
                const PATH: &'static str = concat!("/v1/", $path);
                type Reply = $reply;
            }
        )+

        /// Returns the routes of every operation.
        pub(super) fn routes() -> axum::Router<super::server::Shared> {
            axum::Router::new()
                $( .route(
                    $request::PATH,
                    super::server::operation(|admin, request: $request| admin.$method(request)),
                ) )+
        }
    };
    (@method $(#[doc = $doc:literal])+ $method:ident($request:ident) -> $reply:ty) => {
        $(#[doc = $doc])+
        ///
        /// # Errors
        /// If the node refuses the request or fails.
        fn $method(&self, request: $request) -> Result<$reply, AdminError>;
    };
    (@method $(#[doc = $doc:literal])+ $method:ident($request:ident) -> $reply:ty
        { $default:expr }) => {
        $(#[doc = $doc])+
        ///
        /// # Errors
        /// If the node refuses the request or fails.
        fn $method(&self, _: $request) -> Result<$reply, AdminError> {
            $default
        }
    };
}

operations! {
    /// The networks of this node, or one of them.
    "net/show" net_show(NetShow) -> Vec<show::Net>;
    /// Adds NIs.
    "net/add" net_add(NetAdd) -> ();
    /// Removes a network, or one NI of it.
    "net/del" net_del(NetDel) -> ();
    /// Changes an NI, or all.
    "net/set" net_set(NetSet) -> ();
    /// The peers of this node, or the one that has a NID.
    "peer/show" peer_show(PeerShow) -> Vec<Peer>;
    /// Adds a peer, or NIDs to one.
    "peer/add" peer_add(PeerAdd) -> ();
    /// Removes a peer, or NIDs from one.
    "peer/del" peer_del(PeerDel) -> ();
    /// Changes a peer NI, or all.
    "peer/set" peer_set(PeerSet) -> ();
    /// Pings nodes, each with its own result.
    "ping" ping(Ping) -> Vec<Answer>;
    /// Discovers nodes: pings them, stores their NIDs, and pushes the local ones.
    "discover" discover(Discover) -> Vec<Answer>;
    /// The statistics of the node.
    "stats/show" stats_show(StatsShow) -> Stats;
    /// Resets [`Admin::stats_show`] and the statistics of NIs and peers.
    "stats/reset" stats_reset(StatsReset) -> ();
    /// The current global values: [`show::globals`].
    "global/show" global_show(GlobalShow) -> Globals;
    /// Changes a global value, as [`config::set`](crate::config::set) does.
    "global/set" global_set(GlobalSet) -> ();
    /// Everything that can be shown.
    "export" export(ExportAll) -> Export;
    /// Adds or removes the content of an lnet.conf, as [`import`](super::import()) does. The client
    /// executes its `ping` and `discover`.
    "import" import(Import) -> Imported;
    /// The connections of the socket LND.
    "socklnd/connections" connections(Connections) -> Vec<Connection>;
    /// The peers of the socket LND.
    "socklnd/peers" socklnd_peers(SocklndPeers) -> Vec<SocklndPeer>;
    /// The interfaces of the socket LND.
    "socklnd/interfaces" socklnd_interfaces(SocklndInterfaces) -> Vec<SocklndInterface>;
    /// Closes the connections of the socket LND with a peer, or with all.
    "socklnd/disconnect" disconnect(Disconnect) -> ();
    /// The counters of the socket LND.
    "socklnd/counters" socklnd_counters(Counters) -> SocklndCounters;
    /// The NIDs of this node, without `0@lo`.
    "nids" list_nids(ListNids) -> Nids;
    /// The local NID for the nearest of the given NIDs, as kernel nodes answer; `None` if none can
    /// be reached.
    "which_nid" which_nid(WhichNid) -> WhichReply;
    /// NIDs in recovery: local ones, or those of peers.
    "recovery/show" recovery_show(RecoveryShow) -> Nids;
    /// The violated invariants of the node; with `idle` also those of an idle node.
    "debug/check" debug_check(DebugCheck) -> Checked {
        Err(AdminError::unsupported("checking itself"))
    };
    /// Routes to other networks.
    "route/show" route_show(RouteShow) -> Vec<show::Route>;
    /// Adds routes in order, up to the first that is refused.
    "route/add" route_add(RouteAdd) -> ();
    /// Removes routes in order, up to the first that does not exist.
    "route/del" route_del(RouteDel) -> ();
    /// The gateways of the routes.
    "routers/show" routers_show(RoutersShow) -> Vec<show::Router>;
    /// The state of forwarding, the buffers, and the forwarded messages.
    "routing/show" routing_show(RoutingShow) -> show::Routing;
    /// Changes the state of forwarding, or the number of buffers.
    "routing/set" routing_set(RoutingSet) -> ();
    /// Starts to drain the router; [`Admin::routing_show`] reports when nothing is forwarded.
    "routing/drain" routing_drain(RoutingDrain) -> ();
    /// Selection policies.
    "udsp/show" udsp_show(UdspShow) -> Vec<UdspConf> { Ok(Vec::new()) };
    /// Adds a selection policy.
    "udsp/add" udsp_add(UdspAdd) -> () { Err(AdminError::unsupported("UDSP")) };
    /// Removes a selection policy.
    "udsp/del" udsp_del(UdspDel) -> () { Err(AdminError::unsupported("UDSP")) };
    /// Injected faults: messages that are dropped, or those that are delayed.
    "fault/show" fault_show(FaultShow) -> Vec<Fault> { Ok(Vec::new()) };
    /// Adds a fault.
    "fault/add" fault_add(FaultAdd) -> () { Err(AdminError::unsupported("fault injection")) };
    /// Removes faults, and returns their number.
    "fault/del" fault_del(FaultDel) -> Removed { Err(AdminError::unsupported("fault injection")) };
    /// Resets the counters of faults.
    "fault/reset" fault_reset(FaultReset) -> () {
        Err(AdminError::unsupported("fault injection"))
    };
    /// Makes messages to and from a NID fail.
    "fault/fail" fail_nid(FailNid) -> () { Err(AdminError::unsupported("fault injection")) };
    /// The targets of the node, also those that are not served.
    "target/show" target_show(TargetShow) -> Vec<show::Target> { Ok(Vec::new()) };
    /// Starts the targets in a directory, as far as they are not served. Returns their names.
    "target/start" target_start(TargetStart) -> Vec<String> {
        Err(AdminError::unsupported("starting targets"))
    };
    /// Stops targets. Returns their names.
    "target/stop" target_stop(TargetStop) -> Vec<String> {
        Err(AdminError::unsupported("stopping targets"))
    };
    /// The parameters of the node and of its targets whose names are selected by any of the patterns, in the
    /// order of the patterns. Those that cannot be read are left out.
    "parameter/show" parameter_show(ParameterShow) -> Vec<show::Parameter> { Ok(Vec::new()) };
    /// The names of these parameters, and of those that are only written.
    "parameter/list" parameter_list(ParameterList) -> Vec<show::ParameterName> { Ok(Vec::new()) };
    /// Sets the parameters whose names are selected by the pattern, until the node ends. Returns their names.
    "parameter/set" parameter_set(ParameterSet) -> Vec<String> {
        Err(AdminError::unsupported("setting parameters"))
    };
    /// Removes and returns the lines of the debug log in the memory of the node.
    "debug/dump" debug_dump(DebugDump) -> Dumped { Err(AdminError::unsupported("the debug log")) };
    /// Writes a line into the log that an administrator can find again.
    "debug/mark" debug_mark(DebugMark) -> () { Err(AdminError::unsupported("the debug log")) };
    /// Writes into the log what is known of a NID of a peer.
    "debug/peer" debug_peer(DebugPeer) -> () { Err(AdminError::unsupported("the debug log")) };
    /// Registers a user of the changelog of an MDT.
    "changelog/register" changelog_register(ChangelogRegister) -> ChangelogUser {
        Err(AdminError::no_mdt("an MDT"))
    };
    /// Forgets a user of the changelog of an MDT.
    "changelog/deregister" changelog_deregister(ChangelogDeregister) -> ChangelogUser {
        Err(AdminError::no_mdt("an MDT"))
    };
    /// Sets a parameter for good in the configurations of the node's management service, or deletes it.
    "mgs/set" mgs_set(MgsSet) -> () { Err(AdminError::no_mgs()) };
    /// Changes a pool of OSTs.
    "mgs/pool" mgs_pool(MgsPool) -> () { Err(AdminError::no_mgs()) };
    /// The pools of a file system.
    "mgs/pools" mgs_pools(MgsPools) -> Pools { Err(AdminError::no_mgs()) };
    /// Changes the nodemaps.
    "mgs/nodemap" mgs_nodemap(MgsNodemap) -> () { Err(AdminError::no_mgs()) };
    /// Which nodemap a NID has, and what becomes of an id.
    "mgs/nodemap/test" mgs_nodemap_test(MgsNodemapTest) -> NodemapTested {
        Err(AdminError::no_mgs())
    };
    /// Executes a command of the selftest console; some take half a minute.
    "lst" lst(Lst) -> LstReply { Err(AdminError::no_selftest()) };
}

/// A part of an import, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// `net`, `peer`, `route`, ….
    pub object: String,
    /// Which one: `tcp(eth0)`.
    pub what: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a part of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was applied, or there was nothing to do; with the details.
    Done(String),
    /// It was refused.
    Failed(AdminError),
}

macro_rules! requests {
    ($( $(#[$meta:meta])* $name:ident { $( $(#[$field_meta:meta])* $field:ident: $type:ty, )* } )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(missing_docs)]
        pub struct $name { $( $(#[$field_meta])* pub $field: $type, )* }
    )+ };
}

requests! {
    /// See [`Admin::net_show`].
    #[derive(Default)]
    NetShow {
        #[serde(default)]
        net: Option<Net>,
    }
    /// See [`Admin::net_add`].
    NetAdd {
        nets: Vec<NetConf>,
        #[serde(default)]
        ip2nets: Vec<Ip2NetsConf>,
    }
    /// See [`Admin::net_del`]: a network, or its NI on an interface, or the NI with a NID.
    #[derive(Default)]
    NetDel {
        #[serde(default)]
        net: Option<Net>,
        #[serde(default)]
        interface: Option<String>,
        #[serde(default)]
        nid: Option<Nid>,
    }
    /// See [`Admin::net_set`]: the NI with a NID, those of a network, or all.
    #[derive(Default)]
    NetSet {
        #[serde(default)]
        nid: Option<Nid>,
        #[serde(default)]
        net: Option<Net>,
        #[serde(default)]
        health: Option<u32>,
        #[serde(default)]
        conns_per_peer: Option<u32>,
        /// Seconds.
        #[serde(default)]
        lnd_timeout: Option<u32>,
        /// Whether the administrator lets the NI be used.
        #[serde(default)]
        enabled: Option<bool>,
    }
    /// See [`Admin::peer_show`].
    #[derive(Default)]
    PeerShow {
        #[serde(default)]
        nid: Option<Nid>,
    }
    /// See [`Admin::peer_add`].
    PeerAdd {
        peer: PeerConf,
        /// Whether the primary NID is kept, whatever the peer reports.
        #[serde(default)]
        lock_primary: bool,
    }
    /// See [`Admin::peer_del`]: the whole peer if no NIDs are given.
    PeerDel {
        primary: Nid,
        #[serde(default)]
        nids: Vec<Nid>,
        /// Whether to delete it even if its primary NID is locked.
        #[serde(default)]
        force: bool,
    }
    /// See [`Admin::peer_set`]: all peer NIs if no NID is given.
    #[derive(Default)]
    PeerSet {
        #[serde(default)]
        nid: Option<Nid>,
        #[serde(default)]
        health: Option<u32>,
        /// The bits of lnet-admin §6.2, for tests.
        #[serde(default)]
        state: Option<u32>,
    }
    /// See [`Admin::ping`].
    Ping {
        nids: Vec<Nid>,
        #[serde(default)]
        source: Option<Nid>,
        /// Seconds.
        #[serde(default)]
        timeout: Option<u32>,
    }
    /// See [`Admin::discover`].
    Discover {
        nids: Vec<Nid>,
        #[serde(default)]
        source: Option<Nid>,
        /// Seconds.
        #[serde(default)]
        timeout: Option<u32>,
        /// Discover also a peer that is already known.
        #[serde(default)]
        force: bool,
    }
    /// See [`Admin::stats_show`].
    StatsShow {}
    /// See [`Admin::stats_reset`].
    StatsReset {}
    /// See [`Admin::global_show`].
    GlobalShow {}
    /// See [`Admin::global_set`].
    GlobalSet { key: GlobalKey, value: u32, }
    /// See [`Admin::export`].
    ExportAll {}
    /// See [`Admin::import`].
    Import { conf: LnetConf, #[serde(default)] delete: bool, }
    /// What became of the parts of an import, in order.
    #[derive(Default)]
    Imported { parts: Vec<Part>, }
    /// See [`Admin::connections`].
    Connections { net: Net, }
    /// See [`Admin::socklnd_peers`].
    SocklndPeers { net: Net, }
    /// See [`Admin::socklnd_interfaces`].
    SocklndInterfaces { net: Net, }
    /// See [`Admin::disconnect`]: the peer with a NID, or all peers of the network.
    Disconnect {
        net: Net,
        #[serde(default)]
        nid: Option<Nid>,
    }
    /// See [`Admin::socklnd_counters`].
    Counters {}
    /// See [`Admin::list_nids`].
    ListNids {}
    /// See [`Admin::which_nid`].
    WhichNid { nids: Vec<Nid>, }
    /// A list of NIDs.
    #[derive(Default)]
    Nids { nids: Vec<Nid>, }
    /// A NID, or none.
    WhichReply { #[serde(default)] nid: Option<Nid>, }
    /// See [`Admin::recovery_show`].
    RecoveryShow { peers: bool, }
    /// See [`Admin::debug_check`].
    DebugCheck { #[serde(default)] idle: bool, }
    /// The violations, as text.
    Checked { broken: Vec<String>, }
    /// See [`Admin::route_show`].
    RouteShow {}
    /// See [`Admin::routers_show`].
    RoutersShow {}
    /// See [`Admin::routing_show`].
    RoutingShow {}
    /// See [`Admin::routing_drain`].
    RoutingDrain {}
    /// See [`Admin::route_add`].
    RouteAdd { routes: Vec<RouteConf>, }
    /// See [`Admin::route_del`].
    RouteDel { routes: Vec<RouteConf>, }
    /// See [`Admin::routing_set`].
    #[derive(Default)]
    RoutingSet { #[serde(default)] enable: Option<bool>, #[serde(default)] buffers: BuffersConf, }
    /// See [`Admin::udsp_show`].
    UdspShow {}
    /// See [`Admin::udsp_add`].
    UdspAdd { rule: UdspConf, }
    /// See [`Admin::udsp_del`]: all rules if none is named.
    UdspDel { idx: Option<u32>, }
    /// See [`Admin::fault_show`].
    FaultShow { action: FaultAction, }
    /// See [`Admin::fault_add`].
    FaultAdd { rule: FaultConf, }
    /// See [`Admin::fault_del`]: those between two NIDs; the wildcard matches the NID of any fault.
    FaultDel {
        action: FaultAction,
        #[serde(default)]
        source: NidMatch,
        #[serde(default)]
        target: NidMatch,
    }
    /// The number of removed faults.
    Removed { count: u64, }
    /// See [`Admin::fault_reset`].
    FaultReset { action: FaultAction, }
    /// See [`Admin::fail_nid`].
    FailNid {
        nid: NidMatch,
        /// The number of failures; unlimited if `None`, and none if 0.
        #[serde(default)]
        times: Option<u32>,
    }
    /// See [`Admin::target_show`].
    TargetShow {}
    /// See [`Admin::target_start`]: an absolute path.
    TargetStart { directory: String, }
    /// See [`Admin::target_stop`]: by its name or UUID, or else by the directory of one or of several, an
    /// absolute path.
    TargetStop { target: String, directory: String, }
    /// See [`Admin::parameter_show`]: patterns such as `obdfilter.*.stats`, and whether parameters of modules
    /// are meant too.
    ParameterShow { patterns: Vec<String>, #[serde(default)] modules: bool, }
    /// See [`Admin::parameter_list`]: all names of which a pattern selects the whole or the first parts.
    ParameterList { patterns: Vec<String>, #[serde(default)] modules: bool, }
    /// See [`Admin::parameter_set`]: a pattern such as `mdd.*.changelog_mask`.
    ParameterSet { pattern: String, value: String, #[serde(default)] modules: bool, }
    /// See [`Admin::debug_dump`]: whether the lines are only taken out.
    DebugDump { #[serde(default)] discard: bool, }
    /// The lines of the debug log, each with its line feed.
    Dumped { lines: Vec<String>, }
    /// See [`Admin::debug_mark`].
    DebugMark { text: String, }
    /// See [`Admin::debug_peer`].
    DebugPeer { nid: Nid, }
    /// See [`Admin::changelog_register`].
    ChangelogRegister {
        /// The MDT, such as `lv-MDT0000`.
        device: String,
        /// The name of the user.
        #[serde(default)]
        user: Option<String>,
        /// The kinds of records that it wants, such as `CREAT,UNLNK` or `+ATIME`.
        #[serde(default)]
        mask: Option<String>,
    }
    /// See [`Admin::changelog_deregister`]: by its number or by its name.
    ChangelogDeregister {
        device: String,
        #[serde(default)]
        id: Option<u32>,
        #[serde(default)]
        user: Option<String>,
    }
    /// The number of a user of a changelog.
    ChangelogUser { id: u32, }
    /// See [`Admin::mgs_set`].
    MgsSet {
        /// For a target or a file system `lv-OST0000.osc.max_dirty_mb=64`, for all nodes
        /// `osc.*.max_dirty_mb=64`.
        parameter: String,
        /// Whether it is for all nodes that it fits.
        #[serde(default)]
        all: bool,
        #[serde(default)]
        delete: bool,
    }
    /// See [`Admin::mgs_pool`].
    MgsPool {
        fsname: String,
        pool: String,
        change: PoolChange,
    }
    /// See [`Admin::mgs_pools`].
    MgsPools { fsname: String, }
    /// The pools of a file system, each with the names of its OSTs.
    #[derive(Default)]
    Pools { pools: BTreeMap<String, Vec<String>>, }
    /// See [`Admin::mgs_nodemap`].
    MgsNodemap {
        #[serde(default)]
        name: String,
        change: NodemapChange,
    }
    /// See [`Admin::mgs_nodemap_test`].
    MgsNodemapTest {
        nid: Nid,
        /// `uid`, `gid` or `projid`, and an id of the client.
        #[serde(default)]
        id: Option<(String, u32)>,
    }
    /// The name of a nodemap, and the id in the file system.
    NodemapTested {
        name: String,
        #[serde(default)]
        id: Option<u32>,
    }
    /// See [`Admin::lst`].
    Lst { keyed: KeyedCommand, }
    /// The answer of the console. It includes refusals, whose texts `lst` has.
    LstReply { answer: console::Answer, }
}
