//! Symbolic links, paths of files, and the use of the file system. Spec: mdt-ost §7.2, §7.9, §22.10.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::ConnectFlags2;
use fulmar_lustre_wire::format::{
    FID2PATH, FID2PATH_KEY, GETATTR, LAYOUT, MDS_FID2PATH, MDS_STATFS, MDT_BODY, STATFS, VALUE_LEN,
};
use fulmar_lustre_wire::mdt::{Fid2Path, Fid2PathKey, MdtBody, Statfs, StatfsState, Valid};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::{Fid, Text, portal};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, TargetKind};
use futures_util::future::join_all;

use super::caller::Caller;
use super::request::{body, body_room};
use crate::Usage;
use crate::machine::context::Context;
use crate::members::statfs;
use crate::mounting::STATFS_LEN;

/// The longest path.
const PATH_MAX: u32 = 4096;
/// The most paths of a file.
const PATHS_MAX: usize = 1024;
/// On how many MDTs the directories of a path may be, one after the other.
const PATH_MDTS_MAX: usize = 256;
/// The length of a [`Fid2Path`].
const FID2PATH_LEN: u32 = 32;

impl Context {
    /// Returns what a symbolic link points to. One round trip the first time.
    pub(crate) async fn read_link(&self, caller: &Caller, fid: Fid) -> Result<Vec<u8>, Errno> {
        {
            let core = self.core();
            let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
            if let Some(link) = inode.and_then(|inode| inode.link.clone()) {
                return Ok(link);
            }
        }
        let mdt = self.mdt(fid).await?;
        let valid = Valid::FLID | Valid::LINKNAME;
        let wanted = MdtBody { valid, ea_size: PATH_MAX, ..body(caller, fid, None) };
        let message = Message::request(&GETATTR).with(&MDT_BODY, &wanted);
        let request = Request::new(message, body_room()).at(portal::MDS_READPAGE);
        let reply = self.request(mdt, request).await?;
        let found: MdtBody = reply.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
        if !found.valid.has(Valid::LINKNAME) {
            return Err(Errno::EINVAL);
        }
        let bytes = reply.bytes(&LAYOUT).unwrap_or_default();
        let bytes = bytes.get(..found.ea_size as usize).unwrap_or(bytes);
        let link = bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount);
        if let Some(inode) = mount.and_then(|mount| mount.inodes.get_mut(&fid)) {
            inode.link = Some(link.clone());
        }
        Ok(link)
    }

    /// Returns the paths of a file, from the root of the mount and without `/` in front. A round trip for
    /// each; more than 1,024 are left out.
    pub(crate) async fn paths_of(&self, fid: Fid) -> Result<Vec<Vec<u8>>, Errno> {
        let (mut paths, mut link) = (Vec::new(), 0);
        while paths.len() < PATHS_MAX {
            let (path, next) = self.path_of(fid, link).await?;
            paths.push(path);
            // The number stays where it is at the last one.
            if next <= link {
                break;
            }
            link = next;
        }
        Ok(paths)
    }

    /// Returns one of the paths of a file, and the number of the next one. One round trip, and one for each MDT on
    /// the way.
    async fn path_of(&self, fid: Fid, link: u32) -> Result<(Vec<u8>, u32), Errno> {
        let (mut path, next, mut above) = self.path_from(fid, link).await?;
        for _ in 0..PATH_MDTS_MAX {
            let Some(fid) = above else { return Ok((path, next)) };
            let (start, _, further) = self.path_from(fid, 0).await?;
            let parts = [start, path];
            path =
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/');
            above = further;
        }
        Err(Errno::ELOOP)
    }

    /// Returns the path of a file as far as its MDT knows it, the number of the next one, and the directory from which
    /// another MDT goes on.
    async fn path_from(&self, fid: Fid, link: u32) -> Result<(Vec<u8>, u32, Option<Fid>), Errno> {
        let mdt = self.mdt(fid).await?;
        let root = {
            let core = self.core();
            core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?.root
        };
        let question = Fid2Path { fid, record: u64::MAX, link, path_len: PATH_MAX };
        let name = Text::new("fid2path").expect("it is short");
        let key = Fid2PathKey { name, question, root: Some(root) };
        let len = FID2PATH_LEN + PATH_MAX;
        let message =
            Message::request(&MDS_FID2PATH).with(&FID2PATH_KEY, &key).with(&VALUE_LEN, &len);
        let request = Request::new(message, len_with(&[Body::LEN, len as usize]));
        let reply = self.request_with(mdt, request, None).await?.result?;
        let is_remote = match reply.body.status.errno() {
            Some(errno) if errno != Errno::EREMOTE => return Err(errno),
            errno => errno.is_some(),
        };
        let found = reply.require(&FID2PATH).map_err(|_| Errno::EPROTO)?;
        let path = found.path().to_vec();
        Ok((path, found.answer.link, is_remote.then_some(found.answer.fid)))
    }

    /// Returns the size and the use of the file system. One round trip: the MDT knows those of all
    /// targets, or all targets are asked at the same time.
    pub(crate) async fn statfs(&self) -> Result<Usage, Errno> {
        let (mdts, osts, sums) = {
            let mut core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            let mdts: Vec<ImportId> = mount.mdts.values().copied().collect();
            let osts: Vec<ImportId> = mount.osts.values().copied().collect();
            let first = mdts.first().and_then(|mdt| core.client().import(*mdt));
            let sums = first.is_some_and(|one| one.granted().flags2.has(ConnectFlags2::SUM_STATFS));
            (mdts, osts, sums)
        };
        if let Some(first) = mdts.first().filter(|_| sums) {
            let body = MdtBody { valid: Valid::FLAGSTATFS, ..MdtBody::default() };
            let message = Message::request(&MDS_STATFS).with(&MDT_BODY, &body);
            let request = Request::new(message, len_with(&[Body::LEN, STATFS_LEN]));
            let reply = self.request(*first, request).await?;
            let sum: Statfs = reply.require(&STATFS).map_err(|_| Errno::EPROTO)?;
            if sum.state.has(StatfsState::SUM) {
                return Ok(Usage::of(&sum));
            }
        }
        let ask = |import: ImportId, kind: TargetKind| async move {
            // A target that is away counts with nothing, and is not waited for.
            let reply = self.request_if_there(import, statfs(kind).once()).await;
            let statfs = reply.and_then(|reply| reply.require(&STATFS).ok());
            statfs.map_or_else(Usage::default, |statfs| Usage::of(&statfs))
        };
        let mdts = join_all(mdts.into_iter().map(|mdt| ask(mdt, TargetKind::Mdt)));
        let osts = join_all(osts.into_iter().map(|ost| ask(ost, TargetKind::Ost)));
        let (mdts, osts) = futures_util::future::join(mdts, osts).await;
        Ok(Usage::of_targets(&mdts, &osts))
    }
}
