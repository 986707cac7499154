//! The configuration of a mount, which is read under locks and followed as long as the mount lasts.
//! Spec: ptlrpc-ldlm-mgs §28, §32.2.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::client::LockSpec;
use fulmar_lustre_wire::format::{CONFIG_BODY, CONFIG_READ, CONFIG_RESULT};
use fulmar_lustre_wire::ldlm::{ConfigLock, LockMode, LockType, Policy, ResourceDesc, ResourceId};
use fulmar_lustre_wire::llog::config::Config;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::mgs::{ConfigRead, ConfigReadKind, NidTable};
use fulmar_lustre_wire::{Content, Text, portal};
use fulmar_net::Buffer;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, TargetKind};
use futures_channel::oneshot;

use crate::config::Configuration;
use crate::logs::LogReader;
use crate::machine::context::Context;
use crate::{Error, mounting};

/// How long a change of the configuration is waited for others at least, and how much longer at most.
const SETTLES: Duration = Duration::from_secs(5);
/// The same when targets have restarted: their clients come back at once.
const RETURNS: Duration = Duration::from_millis(100);
/// The room for the table of restarted targets: as many units of 4 KiB as kernel clients have.
const UNITS: u32 = 256;

/// Returns what the configuration of a file system is protected by.
pub(crate) fn resources(name: &str) -> [ResourceId; 3] {
    [
        ResourceId::of_log(&format!("{name}-client"), ConfigLock::CONFIG),
        ResourceId::of_log("params", ConfigLock::PARAMS),
        ResourceId::of_log(&format!("{name}-cliir"), ConfigLock::RECOVER),
    ]
}

/// Reads the configuration of a file system, and acquires the locks that tell when it changes.
///
/// # Errors
/// [`Error::NoFileSystem`], or why a log could not be read.
pub(crate) async fn read(cx: &Context, mgs: ImportId) -> Result<Configuration, Error> {
    let (name, nids) = {
        let mut core = cx.core();
        let mount = core.mounts.get_mut(&cx.mount).ok_or(Error::Node(Errno::ENODEV))?;
        mount.changed.clear();
        (mount.address.name.clone(), mount.address.mgs.clone())
    };
    let [client, params, _] = resources(&name);
    lock(cx, mgs, client).await;
    let records = match log(cx, mgs, &format!("{name}-client")).await {
        Ok(records) if records.is_empty() => return Err(Error::NoFileSystem { name, nids }),
        // What an MGS says of a name that cannot be one of its file systems.
        Err(Error::Request { errno: Errno::EINVAL, .. }) => {
            return Err(Error::NoFileSystem { name, nids });
        }
        read => read?,
    };
    lock(cx, mgs, params).await;
    let parameters = log(cx, mgs, "params").await?;
    Ok(Configuration::of(&name, &records, &parameters))
}

/// Acquires a lock of the configuration, which stays until it is called back. Without one the
/// configuration is used as it is.
async fn lock(cx: &Context, mgs: ImportId, id: ResourceId) {
    let resource = ResourceDesc { kind: LockType::PLAIN, id, ..ResourceDesc::default() };
    let wanted = LockSpec::new(resource, LockMode::CR, Policy::default());
    let acquired = cx.acquire(mgs, LockSpec { permanent: true, ..wanted }, None).await;
    drop(acquired);
}

/// Returns the live records of a log; none if there is no such log.
async fn log(cx: &Context, mgs: ImportId, name: &str) -> Result<Vec<Config>, Error> {
    let mut reader = LogReader::new(name)?;
    while let Some((message, room)) = reader.request() {
        let reply = cx.request(mgs, Request::new(message, room)).await;
        reader.take(reply)?;
    }
    Ok(reader.configs)
}

/// Reads which targets have restarted since a version of the table, and returns the newest version.
/// Targets that this client is connected to in an earlier life are connected to at once.
pub(crate) async fn read_restarts(cx: &Context, mgs: ImportId, since: u64) -> Result<u64, Errno> {
    let name = {
        let core = cx.core();
        core.mounts.get(&cx.mount).ok_or(Errno::ENODEV)?.address.name.clone()
    };
    lock(cx, mgs, resources(&name)[2]).await;
    let mut version = since;
    loop {
        let (entries, last, newest) = restarts(cx, mgs, &name, version + 1).await?;
        for entry in &entries.0 {
            let kind = if entry.target == 1 { TargetKind::Mdt } else { TargetKind::Ost };
            cx.target_restarted(kind, entry.index, entry.instance);
        }
        // Otherwise it would be read for ever.
        if last <= version || last >= newest {
            return Ok(version.max(last));
        }
        version = last;
    }
}

impl Context {
    /// A target has restarted, for the n-th time: it is connected to at once, unless that was done.
    pub(crate) fn target_restarted(&self, kind: TargetKind, index: u32, instance: u32) {
        let mut core = self.core();
        let (now, mount) = (core.now, core.mounts.get(&self.mount));
        let targets =
            mount.map(|mount| if kind == TargetKind::Mdt { &mount.mdts } else { &mount.osts });
        if let Some(import) = targets.and_then(|targets| targets.get(&index)).copied() {
            core.client().target_restarted(now, import, instance);
        }
    }
}

/// Returns entries of the table from a version on, the version of the last one, and the newest one.
async fn restarts(
    cx: &Context,
    mgs: ImportId,
    name: &str,
    from: u64,
) -> Result<(NidTable, u64, u64), Errno> {
    let wanted = ConfigRead {
        name: Text::new(&format!("{name}-cliir")).ok_or(Errno::EINVAL)?,
        offset: from,
        kind: ConfigReadKind::RECOVER,
        nid_size: 20,
        unit_bits: 12,
        units: UNITS,
    };
    let len = (UNITS as usize) << 12;
    let buffer = Buffer::new(len);
    let id = cx.core().add_buffer(buffer.clone());
    let bulk = Bulk::new(Direction::ToClient, portal::MGS_BULK, (id, 0, len as u64), 0);
    let message = Message::request(&CONFIG_READ).with(&CONFIG_BODY, &wanted);
    let request = Request::new(message, len_with(&[Body::LEN, 16])).with_bulk(bulk);
    let done = cx.request_with(mgs, request, Some(id)).await?;
    let reply = done.result?;
    if let Some(errno) = reply.body.status.errno() {
        return Err(errno);
    }
    let result = reply.require(&CONFIG_RESULT).map_err(|_| Errno::EPROTO)?;
    let bytes = buffer.to_vec(0, usize::try_from(done.moved).unwrap_or(0).min(len));
    let table = NidTable::decode(&bytes, reply.order).map_err(|_| Errno::EPROTO)?;
    Ok((table, result.offset, result.size))
}

/// Follows the configuration until the mount ends.
pub(crate) async fn follow(cx: Context, mgs: ImportId, mut version: u64) {
    loop {
        let waiting = {
            let mut core = cx.core();
            let Some(mount) = core.mounts.get_mut(&cx.mount) else { return };
            let (sender, waiting) = oneshot::channel();
            if mount.changed.is_empty() {
                mount.config_waiter = Some(sender)
            } else {
                let _ = sender.send(());
            }
            waiting
        };
        let _ = waiting.await;
        let Some(what) = changed(&cx) else { return };
        let [client, params, restarts] = what;
        if restarts {
            cx.sleep(RETURNS).await;
            version = read_restarts(&cx, mgs, version).await.unwrap_or(version);
        }
        if client || params {
            let more = Duration::from_nanos(cx.core().random.below(SETTLES.as_nanos() as u64));
            cx.sleep(SETTLES + more).await;
            if let Ok(configuration) = read(&cx, mgs).await {
                mounting::connect_targets(&cx, configuration);
            }
        }
    }
}

/// Returns which parts of the configuration have changed; `None` if the mount ends.
fn changed(cx: &Context) -> Option<[bool; 3]> {
    let mut core = cx.core();
    let mount = core.mounts.get_mut(&cx.mount).filter(|mount| !mount.is_ending)?;
    let changed = std::mem::take(&mut mount.changed);
    Some(resources(&mount.address.name).map(|resource| changed.contains(&resource)))
}
