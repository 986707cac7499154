//! The exports of a server, by handle and by client.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{Errno, Time, Timers};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::{Handle, Uuid};

use super::{Admission, Connect, Export, Part, TargetId};
use crate::handles::HandleSource;
use crate::timeouts::CONNECT_TIMEOUT;

/// The exports of all targets of a server.
#[derive(Debug)]
pub struct Exports {
    handles: HandleSource,
    by_handle: BTreeMap<Handle, Export>,
    by_client: BTreeMap<(TargetId, Uuid), Handle>,
    /// How many exports each node has: of clients that it claims to be.
    by_node: BTreeMap<Nid, u32>,
    /// When to look whether a client is silent.
    timers: Timers<Handle>,
    limits: ExportLimits,
}

/// How many exports there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportLimits {
    /// Of all clients.
    pub whole: usize,
    /// Of clients on one node: one for each mount and target, and more after restarts of it.
    pub of_node: u32,
}

impl Default for ExportLimits {
    fn default() -> Self {
        Self { whole: 65_536, of_node: 1024 }
    }
}

/// How often clients ping. Spec: ptlrpc-ldlm-mgs §16.1.
const PING_INTERVAL: Duration = Duration::from_secs(25);

impl Exports {
    /// Begins without exports.
    pub fn new(handles: HandleSource, limits: ExportLimits) -> Self {
        Self {
            handles,
            by_handle: BTreeMap::new(),
            by_client: BTreeMap::new(),
            by_node: BTreeMap::new(),
            timers: Timers::default(),
            limits,
        }
    }

    /// Returns an export.
    pub fn get(&self, handle: Handle) -> Option<&Export> {
        self.by_handle.get(&handle)
    }

    /// Returns the export of a client.
    pub fn of_client(&self, target: TargetId, client: Uuid) -> Option<Handle> {
        self.by_client.get(&(target, client)).copied()
    }

    /// Returns the exports with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &Export)> {
        self.by_handle.iter().map(|(&handle, export)| (handle, export))
    }

    /// Returns how many exports there are.
    pub fn len(&self) -> usize {
        self.by_handle.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_handle.is_empty()
    }

    /// Returns an export, to take a request.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut Export> {
        self.by_handle.get_mut(&handle)
    }

    /// Decides whether a client may connect to an open target, before the target is asked.
    /// `recovers` says whether the target recovers, `in_progress` whether an export has requests in
    /// progress.
    ///
    /// # Errors
    /// As a kernel server answers. Spec: ptlrpc-ldlm-mgs §12.2. And ENOMEM if there are too many
    /// exports.
    pub fn admit(
        &mut self,
        now: Time,
        target: TargetId,
        connect: &Connect,
        recovers: bool,
        in_progress: impl Fn(Handle) -> bool,
    ) -> Result<Admission, Errno> {
        connect.check()?;
        // Its changes must not come before the replays.
        let must_wait = recovers && !connect.is_lightweight() && !connect.is_from_mdt();
        let replaced = self.of_client(target, connect.client);
        if let Some(handle) = replaced
            && let Some(admission) = self.readmit(handle, connect, in_progress)?
        {
            return Ok(admission);
        }
        if must_wait {
            return Err(Errno::EBUSY);
        }
        if !self.has_place(connect.peer.nid, replaced) {
            return Err(Errno::ENOMEM);
        }
        // Only now: a client that is refused keeps its export, and the host must know of its end.
        let evicted = replaced.and_then(|handle| Some((handle, self.remove(handle)?)));
        let export = self.insert(now, target, connect);
        Ok(Admission { export, is_reconnect: false, is_new: true, evicted })
    }

    /// Returns whether there is a place for one more export of a client on `node`, if `replaced` goes.
    fn has_place(&self, node: Nid, replaced: Option<Handle>) -> bool {
        let replaced = replaced.and_then(|handle| self.get(handle));
        let freed_of_node = replaced.is_some_and(|export| export.peer.nid == node);
        let whole = self.len() - usize::from(replaced.is_some());
        let of_node = self.by_node.get(&node).copied().unwrap_or(0) - u32::from(freed_of_node);
        whole < self.limits.whole && of_node < self.limits.of_node
    }

    /// Admits a client that has an export. `None`: its export is that of an earlier start of a
    /// server, and has to go.
    fn readmit(
        &mut self,
        handle: Handle,
        connect: &Connect,
        in_progress: impl Fn(Handle) -> bool,
    ) -> Result<Option<Admission>, Errno> {
        let Some(export) = self.by_handle.get_mut(&handle) else { return Ok(None) };
        if export.is_connecting {
            return Err(Errno::EALREADY);
        }
        if export.part == Part::Expected {
            if connect.count == 1 {
                return Err(Errno::EALREADY);
            }
            export.is_connecting = true;
            let (is_reconnect, is_new, evicted) = (false, false, None);
            return Ok(Some(Admission { export: handle, is_reconnect, is_new, evicted }));
        }
        let is_same_node = export.peer.nid == connect.peer.nid;
        let is_kept = connect.is_from_mdt() && is_same_node;
        if connect.is_from_server() && !is_kept {
            return Ok(None);
        }
        if !is_kept && connect.is_initial() && !is_same_node {
            return Err(Errno::EALREADY);
        }
        if !is_kept && export.connection != connect.connection {
            return Err(Errno::EALREADY);
        }
        if connect.handle != handle && in_progress(handle) {
            return Err(Errno::EBUSY);
        }
        export.is_connecting = true;
        Ok(Some(Admission { export: handle, is_reconnect: true, is_new: false, evicted: None }))
    }

    fn insert(&mut self, now: Time, target: TargetId, connect: &Connect) -> Handle {
        let handle = self.issue(now, target, connect.client, connect.peer);
        if let Some(export) = self.by_handle.get_mut(&handle) {
            export.connection = connect.connection;
            export.is_connecting = true;
        }
        handle
    }

    /// Adds the export of a client that the target knew before it restarted.
    ///
    /// # Panics
    /// If the client has one.
    pub fn restore(&mut self, now: Time, target: TargetId, client: Uuid) -> Handle {
        assert!(self.of_client(target, client).is_none(), "{client} is known once");
        let handle = self.issue(now, target, client, ProcessId::ANY);
        if let Some(export) = self.by_handle.get_mut(&handle) {
            export.part = Part::Expected;
        }
        handle
    }

    /// Handles the end of the recovery of a target.
    pub fn recovered(&mut self, now: Time, target: TargetId) {
        for export in self.by_handle.values_mut().filter(|export| export.target == target) {
            export.part = Part::None;
            export.last_request = now;
        }
    }

    /// Adds an export that is not connected.
    fn issue(&mut self, now: Time, target: TargetId, client: Uuid, peer: ProcessId) -> Handle {
        let handle = self.handles.issue();
        self.add(handle, Export::new(now, target, client, peer));
        handle
    }

    pub(super) fn add(&mut self, handle: Handle, export: Export) {
        self.by_client.insert((export.target, export.client), handle);
        *self.by_node.entry(export.peer.nid).or_default() += 1;
        self.by_handle.insert(handle, export);
    }

    /// Completes a connect that the target has granted.
    ///
    /// # Errors
    /// EALREADY if a later attempt of the client has succeeded; ENODEV if the export is gone. The
    /// connect is then to be [`refused`](Exports::refused).
    pub fn connected(
        &mut self,
        now: Time,
        handle: Handle,
        connect: &Connect,
        granted: &ConnectData,
    ) -> Result<(), Errno> {
        let export = self.by_handle.get_mut(&handle).ok_or(Errno::ENODEV)?;
        export.is_connecting = false;
        // A metadata target counts from 1 again after a restart.
        let last = if connect.is_from_mdt() { 0 } else { export.connection_count };
        if last >= connect.count {
            return Err(Errno::EALREADY);
        }
        let old = std::mem::replace(&mut export.peer, connect.peer);
        export.connection_count = connect.count;
        export.connection = connect.connection;
        export.flavor = connect.flavor;
        export.flags = granted.flags;
        export.flags2 = granted.flags2;
        export.last_xid = 0;
        export.last_request = now;
        if export.part == Part::Expected {
            export.part = Part::Present;
        }
        let is_timed = !granted.flags.has(ConnectFlags::PINGLESS) && !connect.is_from_mdt();
        self.move_to_node(old, connect.peer);
        if is_timed {
            self.timers.set(handle, now + silence(true, 0))
        } else {
            self.timers.clear(handle)
        }
        Ok(())
    }

    /// Ends a connect that the target has refused. A new export goes.
    pub fn refused(&mut self, handle: Handle, is_new: bool) {
        if is_new {
            self.remove(handle);
        } else if let Some(export) = self.by_handle.get_mut(&handle) {
            export.is_connecting = false;
        }
    }

    /// Removes an export.
    pub fn remove(&mut self, handle: Handle) -> Option<Export> {
        let export = self.by_handle.remove(&handle)?;
        self.by_client.remove(&(export.target, export.client));
        self.timers.clear(handle);
        self.leave_node(export.peer);
        Some(export)
    }

    /// Returns when to look for silent clients.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Removes a client from which nothing came for too long, if there is one. `estimate` is that of
    /// the services in seconds. Spec: ptlrpc-ldlm-mgs §16.3.
    pub fn pop_silent(&mut self, now: Time, estimate: u32) -> Option<(Handle, Export)> {
        while let Some(handle) = self.timers.pop_due(now) {
            let Some(export) = self.by_handle.get(&handle) else { continue };
            if export.part != Part::None {
                // It waits for others.
                self.timers.set(handle, now + silence(true, estimate));
                continue;
            }
            let deadline = export.last_request + silence(export.is_used, estimate);
            if deadline <= now {
                return Some((handle, self.remove(handle)?));
            }
            self.timers.set(handle, deadline);
        }
        None
    }

    fn move_to_node(&mut self, from: ProcessId, to: ProcessId) {
        if from.nid != to.nid {
            self.leave_node(from);
            *self.by_node.entry(to.nid).or_default() += 1;
        }
    }

    fn leave_node(&mut self, peer: ProcessId) {
        let count = self.by_node.get_mut(&peer.nid).expect("the node of an export is counted");
        *count -= 1;
        if *count == 0 {
            self.by_node.remove(&peer.nid);
        }
    }

    /// Checks that the tables agree.
    ///
    /// # Errors
    /// What does not agree.
    pub fn check_invariants(&self) -> Result<(), String> {
        let counted: u64 = self.by_node.values().map(|&count| u64::from(count)).sum();
        let sizes = [self.by_client.len() as u64, counted];
        if sizes.iter().any(|&size| size != self.by_handle.len() as u64) {
            return Err(format!("{} exports, but tables of {sizes:?}", self.by_handle.len()));
        }
        for (handle, export) in &self.by_handle {
            if self.of_client(export.target, export.client) != Some(*handle) {
                return Err(format!("export {handle} is not that of its client"));
            }
            let is_connected = export.is_connected() || export.is_connecting;
            if !is_connected && export.part != Part::Expected {
                return Err(format!("export {handle} was never connected"));
            }
        }
        if self.timers.len() <= self.by_handle.len() {
            Ok(())
        } else {
            Err(format!("{} timers of exports", self.timers.len()))
        }
    }
}

/// Returns after which silence a client is evicted.
fn silence(is_used: bool, estimate: u32) -> Duration {
    /// The latency of the network in seconds, which a server does not measure.
    const NETWORK: u32 = 5;
    if !is_used {
        return 6 * PING_INTERVAL;
    }
    let more = estimate.saturating_add(CONNECT_TIMEOUT).saturating_add(NETWORK);
    let whole = 2 * PING_INTERVAL + Duration::from_secs(more.into());
    whole + whole / 16
}
