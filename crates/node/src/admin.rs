//! Administrative operations of a node.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnd::NiConfig;
use fulmar_lnet::{
    FaultKind, FaultRule, Forwarding, Globals, Lnet, QueryId, RouteConfig, RouterBuffers, UdspRule,
};
use fulmar_lnet_wire::{Net, Nid, NidMatch, ProcessId};

use crate::Node;

/// The administrative interface: a borrowed handle. Calls are processed before they return; work
/// for the owner is among the outputs of the node.
#[derive(Debug)]
pub struct Admin<'a> {
    node: &'a mut Node,
    now: Time,
}

/// Methods that call the core and pass the results to the LNDs. Their documentation and errors are
/// those of the core.
macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)+) => {
        $(
            #[doc = concat!("See [`Lnet::", stringify!($name), "`], also for errors.")]
            pub fn $name(&mut self $(, $arg: $type)*) $(-> $result)? {
                let now = self.now;
                self.call(|lnet| lnet.$name(now $(, $arg)*))
            }
        )+
    };
}

impl<'a> Admin<'a> {
    pub(crate) fn new(node: &'a mut Node, now: Time) -> Self {
        Self { node, now }
    }

    /// Adds a network interface.
    ///
    /// # Errors
    /// As [`Lnet::add_ni`]; ENODEV if no LND serves networks of its type.
    pub fn add_ni(&mut self, ni: NiConfig) -> Result<(), Errno> {
        let (nid, now) = (ni.nid, self.now);
        let lnd_timeout = self.node.lnd_of(nid).ok_or(Errno::ENODEV)?.timeout();
        self.node.lnet.add_ni(now, ni.clone(), lnd_timeout)?;
        if let Some(lnd) = self.node.lnd_of(nid) {
            lnd.add_ni(now, &ni);
        }
        self.node.pump(now);
        Ok(())
    }

    /// Removes a network interface and closes its connections.
    ///
    /// # Errors
    /// As [`Lnet::remove_ni`].
    pub fn remove_ni(&mut self, nid: Nid) -> Result<(), Errno> {
        let now = self.now;
        self.node.lnet.remove_ni(now, nid)?;
        if let Some(lnd) = self.node.lnd_of(nid) {
            lnd.remove_ni(now, nid);
        }
        self.node.pump(now);
        Ok(())
    }

    /// Changes how many bulk connections the socket LND opens to each peer of an interface.
    pub fn set_conns_per_peer(&mut self, nid: Nid, conns: u32) {
        self.node.socket().set_conns_per_peer(nid, conns);
    }

    /// Sets how long an interface waits for its peers; only interfaces of the socket LND have a time
    /// of their own.
    ///
    /// # Errors
    /// ENOENT if there is no such interface.
    pub fn set_lnd_timeout(&mut self, nid: Nid, timeout: Duration) -> Result<(), Errno> {
        self.node.lnet.set_lnd_timeout(nid, timeout)?;
        self.node.socket().set_timeout(nid, timeout);
        Ok(())
    }

    /// Closes all connections with a peer, or with all if it is [`Nid::ANY`].
    pub fn close_peer(&mut self, peer: Nid) {
        for lnd in &mut self.node.lnds {
            lnd.close_peer(self.now, peer);
        }
        self.node.pump(self.now);
    }

    /// See [`Lnet::reset_stats`].
    pub fn reset_stats(&mut self) {
        self.node.lnet.reset_stats();
    }

    /// See [`Lnet::reset_ni_minima`].
    pub fn reset_ni_minima(&mut self) {
        self.node.lnet.reset_ni_minima();
    }

    /// See [`Lnet::reset_peer_minima`].
    pub fn reset_peer_minima(&mut self) {
        self.node.lnet.reset_peer_minima();
    }

    /// See [`Lnet::fail_nid`].
    pub fn fail_nid(&mut self, nid: NidMatch, times: Option<u32>) {
        self.node.lnet.fail_nid(nid, times);
    }

    forward! {
        start();
        set_globals(globals: Globals) -> Result<(), Errno>;
        set_ni_enabled(nid: Nid, enabled: bool) -> Result<(), Errno>;
        set_ni_health(nid: Option<Nid>, value: u32) -> Result<(), Errno>;
        set_peer_ni_health(nid: Option<Nid>, value: u32) -> Result<(), Errno>;
        set_peer_state(nid: Nid, state: u32) -> Result<(), Errno>;
        peer_add(primary: Nid, nids: &[Nid], multi_rail: bool) -> Result<(), Errno>;
        peer_del(primary: Nid, nids: &[Nid]) -> Result<(), Errno>;
        route_add(route: RouteConfig) -> Result<(), Errno>;
        route_del(net: Option<Net>, gateway: Option<Nid>) -> Result<(), Errno>;
        set_forwarding(forwarding: Forwarding) -> Result<(), Errno>;
        set_router_buffers(buffers: RouterBuffers) -> Result<(), Errno>;
        udsp_add(index: Option<usize>, rule: UdspRule) -> Result<(), Errno>;
        udsp_del(index: Option<usize>) -> Result<(), Errno>;
        fault_add(rule: FaultRule) -> Result<(), Errno>;
        fault_del(kind: FaultKind, source: NidMatch, target: NidMatch) -> usize;
        fault_reset(kind: FaultKind);
        ping(target: ProcessId, source: Option<Nid>, timeout: Duration) -> QueryId;
        discover(nid: Nid, force: bool) -> QueryId;
    }

    fn call<R>(&mut self, call: impl FnOnce(&mut Lnet) -> R) -> R {
        let result = call(&mut self.node.lnet);
        self.node.pump(self.now);
        result
    }
}
