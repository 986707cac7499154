//! How a mount begins and ends. Spec: mdt-ost §22.1, ptlrpc-ldlm-mgs §34.1.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::client::LockId;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_lustre_wire::format::{GET_ROOT, MDS_STATFS, MDT_BODY, NAME};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::{Fid, Name, Uuid};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, State, Target, TargetKind};

use crate::config::Configuration;
use crate::connect::of_mount;
use crate::files::ahead::WINDOW_MAX;
use crate::follow;
use crate::machine::context::Context;
use crate::{Error, FsTarget};

/// The length of an [`MdtBody`].
pub(crate) const BODY_LEN: usize = 216;
/// The length of a [`Statfs`](fulmar_lustre_wire::mdt::Statfs).
pub(crate) const STATFS_LEN: usize = 144;

/// How long cancels of locks are waited for at the end. A server drops the locks of who disconnects anyway.
const CANCEL_PAUSE: Duration = Duration::from_millis(5);
const CANCEL_TRIES: usize = 200;
/// The most changes in flight to an MDT, if it grants so many.
const CHANGES_IN_FLIGHT: u16 = 64;
/// How long an end waits for targets that write nothing.
const WRITE_MAX: Duration = Duration::from_secs(100);

/// Connects to the management service and reads the configuration. Returns its import.
///
/// # Errors
/// [`Error::Unreachable`], [`Error::Refused`] or [`Error::NoFileSystem`].
pub(crate) async fn configure(cx: &Context, usable: Vec<Nid>) -> Result<ImportId, Error> {
    let (nids, uuid) = {
        let core = cx.core();
        let mount = core.mounts.get(&cx.mount).ok_or(Error::Node(Errno::ENODEV))?;
        (mount.address.mgs.clone(), mount.uuid)
    };
    let Some(first) = nids.first().copied() else { return Err(Error::Node(Errno::EINVAL)) };
    if usable.is_empty() {
        return Err(Error::Network { nid: first });
    }
    let name = Uuid::new("MGS").expect("it is short");
    let target = Target::new(TargetKind::Mgs, name, usable, of_mount(TargetKind::Mgs));
    let target = Target { client: uuid, ..target };
    let mgs = {
        let mut core = cx.core();
        let mgs = core.connect(cx.mount, target);
        if let Some(mount) = core.mounts.get_mut(&cx.mount) {
            mount.mgs = Some(mgs);
        }
        mgs
    };
    cx.connected(mgs).await.map_err(|errno| match errno {
        Errno::EACCES | Errno::EPERM | Errno::EROFS => Error::Refused { nids, errno },
        errno => Error::Unreachable { nids, errno, lnet: None },
    })?;
    let configuration = follow::read(cx, mgs).await?;
    if let Some(mount) = cx.core().mounts.get_mut(&cx.mount) {
        mount.configuration = configuration;
    }
    Ok(mgs)
}

/// Connects to the targets, finds the root, and follows the configuration from now on. The OSTs are not
/// waited for.
///
/// # Errors
/// Why the first MDT does not admit this client, or has no such directory.
pub(crate) async fn begin(cx: &Context, mgs: ImportId, nets: Vec<Net>) -> Result<(), Error> {
    let configuration = {
        let mut core = cx.core();
        let mount = core.mounts.get_mut(&cx.mount).ok_or(Error::Node(Errno::ENODEV))?;
        mount.nets = nets;
        mount.configuration.clone()
    };
    connect_targets(cx, configuration);
    let (mdt, subdirectory) = {
        let core = cx.core();
        let mount = core.mounts.get(&cx.mount).ok_or(Error::Node(Errno::ENODEV))?;
        (mount.mdts.get(&0).copied(), mount.address.subdirectory.clone())
    };
    let failed = |what: &str| {
        let what = what.to_owned();
        move |errno| Error::Request { what, errno }
    };
    let mdt = mdt.ok_or(Errno::ENODEV).map_err(failed("there is no MDT0000"))?;
    cx.connected(mdt).await.map_err(failed("connecting to MDT0000"))?;
    let statfs = Request::new(Message::request(&MDS_STATFS), len_with(&[Body::LEN, STATFS_LEN]));
    cx.request(mdt, statfs).await.map_err(failed("asking MDT0000 for its state"))?;
    let what = format!("opening the directory {:?}", format!("/{subdirectory}"));
    let root = root(cx, mdt, &subdirectory).await.map_err(failed(&what))?;
    if let Some(mount) = cx.core().mounts.get_mut(&cx.mount) {
        mount.root = root;
    }
    let version = follow::read_restarts(cx, mgs, 0).await.unwrap_or(0);
    cx.spawn(follow::follow(cx.clone(), mgs, version));
    Ok(())
}

/// Returns the root of the mount.
async fn root(cx: &Context, mdt: ImportId, subdirectory: &str) -> Result<Fid, Errno> {
    let body = MdtBody { suppgid: u32::MAX, capability: u32::MAX, ..MdtBody::default() };
    let mut message = Message::request(&GET_ROOT).with(&MDT_BODY, &body);
    if !subdirectory.is_empty() {
        message = message.with(&NAME, &Name::new(subdirectory).ok_or(Errno::EINVAL)?);
    }
    let request = Request::new(message, len_with(&[Body::LEN, BODY_LEN, 0]));
    let reply = cx.request(mdt, request).await?;
    Ok(reply.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?.fid)
}

/// Begins to connect to the active targets of a configuration that the mount does not have yet. One that ends gets
/// no more: their connections would not be ended.
pub(crate) fn connect_targets(cx: &Context, configuration: Configuration) {
    let mut core = cx.core();
    let Some(mount) = core.mounts.get(&cx.mount).filter(|mount| !mount.is_ending) else { return };
    let (uuid, nets) = (mount.uuid, mount.nets.clone());
    let new = |target: &&FsTarget| {
        let known = if target.kind == TargetKind::Mdt { &mount.mdts } else { &mount.osts };
        target.is_active && !known.contains_key(&target.index)
    };
    let new: Vec<FsTarget> = configuration.targets().filter(new).cloned().collect();
    for FsTarget { kind, index, uuid: target, nids, .. } in new {
        let nids: Vec<Nid> = nids.into_iter().filter(|nid| nets.contains(&nid.net())).collect();
        if nids.is_empty() {
            continue;
        }
        let target = Target::new(kind, target, nids, of_mount(kind));
        let target = Target {
            client: uuid,
            replays_locks: true,
            // The cache of data has limits of its own. Names are looked up in advance, with their sizes.
            in_flight_max: WINDOW_MAX,
            modifying_max: CHANGES_IN_FLIGHT,
            ..target
        };
        let import = core.connect(cx.mount, target);
        if let Some(mount) = core.mounts.get_mut(&cx.mount) {
            let known = if kind == TargetKind::Mdt { &mut mount.mdts } else { &mut mount.osts };
            known.insert(index, import);
        }
    }
    if let Some(mount) = core.mounts.get_mut(&cx.mount) {
        mount.configuration = configuration;
    }
}

/// Waits until all that was written is at the targets, as long as there is progress.
async fn write_all(cx: &Context) {
    let files: Vec<Fid> = {
        let core = cx.core();
        let mount = core.mounts.get(&cx.mount);
        mount.map_or(Vec::new(), |mount| mount.data.files.keys().copied().collect())
    };
    for file in files {
        let own = cx.clone();
        // There is no caller to report an error to.
        cx.spawn(async move {
            let _ = own.write_back(file).await;
        });
    }
    let (mut least, mut waited) = (u64::MAX, Duration::ZERO);
    while waited < WRITE_MAX {
        cx.sleep(CANCEL_PAUSE).await;
        waited += CANCEL_PAUSE;
        let dirty = {
            let core = cx.core();
            core.mounts.get(&cx.mount).map_or(0, |mount| mount.data.cache.gauges().dirty)
        };
        if dirty == 0 {
            return;
        }
        if dirty < least {
            (least, waited) = (dirty, Duration::ZERO);
        }
    }
}

/// Ends a mount: what is dirty is written, locks are given up, and all connections end.
pub(crate) async fn end(cx: &Context) {
    write_all(cx).await;
    let imports = {
        let mut core = cx.core();
        let Some(mount) = core.mounts.get_mut(&cx.mount) else { return };
        mount.is_ending = true;
        let waiter = mount.config_waiter.take();
        let imports = mount.imports();
        drop(waiter);
        for import in &imports {
            give_up(&mut core, *import);
        }
        imports
    };
    for _ in 0..CANCEL_TRIES {
        cx.sleep(CANCEL_PAUSE).await;
        if !cx.core().has_cancels() {
            break;
        }
    }
    for import in &imports {
        let mut core = cx.core();
        let now = core.now;
        core.client().disconnect(now, *import);
    }
    for import in &imports {
        closed(cx, *import).await;
    }
    let mut core = cx.core();
    for import in imports {
        core.forget(import);
    }
    core.mounts.remove(&cx.mount);
}

/// Gives up all locks of a target.
fn give_up(core: &mut crate::machine::core::Core, import: ImportId) {
    let now = core.now;
    if let Some(peer) = core.peer_mut(import) {
        let all: Vec<LockId> = peer.locks.locks().collect();
        for lock in all {
            peer.locks.cancel(now, lock);
        }
    }
}

/// Waits for the end of a connection.
async fn closed(cx: &Context, import: ImportId) {
    loop {
        let waiting = {
            let mut core = cx.core();
            let Some(peer) = core.peer_mut(import) else { return };
            if matches!(peer.state, State::Closed(_)) {
                return;
            }
            peer.watch()
        };
        let _ = waiting.await;
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;
    use fulmar_rpc::XidSource;
    use fulmar_rpc::import::Sender;

    use super::*;
    use crate::MountOptions;
    use crate::files::mount::MountState;
    use crate::machine::{MountId, Mounts, MountsConfig};

    /// A mount of a file system with one OST.
    fn mount(is_ending: bool) -> (Context, Configuration) {
        let machine = Mounts::new(MountsConfig {
            xids: XidSource::new(1),
            random: Rng::new(1),
            epoch: Duration::ZERO,
            sender: Sender::default(),
        });
        let (shared, id) = (machine.shared(), MountId(1));
        let address = "10.0.0.1@tcp:/lv".parse().unwrap();
        let mut state = MountState::new(address, Uuid::default(), MountOptions::default());
        state.is_ending = is_ending;
        state.nets = vec![Net::TCP];
        shared.core().mounts.insert(id, state);
        (Context::new(shared, id), Configuration::of("lv", &crate::config::tests::ost(0), &[]))
    }

    #[test]
    fn a_mount_that_ends_connects_to_nothing() {
        for is_ending in [false, true] {
            let (cx, configuration) = mount(is_ending);
            connect_targets(&cx, configuration);
            let imports = cx.core().mounts[&cx.mount].imports().len();
            assert_eq!(imports, usize::from(!is_ending));
        }
    }
}
