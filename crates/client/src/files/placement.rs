//! On which MDTs directories are, and are made. Spec: mdt-ost §12.1, §12.3.

use fulmar_base::Errno;
use fulmar_lustre_wire::layout::{DefaultStripe, LayoutMagic, LmvUserMd};
use fulmar_lustre_wire::{Content, Fid, Padding};
use fulmar_rpc::client::ImportId;
use fulmar_wire::Order;

use super::caller::Caller;
use super::create::New;
use super::shape::Stripes;
use super::stripes::Place;
use crate::machine::context::Context;

/// Any MDT.
const ANY: u32 = u32::MAX;

impl Context {
    /// Returns the MDT that a new directory is made by: the one that is wanted, the one that its parent says, or
    /// that of its parent.
    pub(super) fn new_mdt(
        &self,
        parent: Fid,
        place: Place,
        wanted: Option<&LmvUserMd>,
    ) -> Result<ImportId, Errno> {
        let mut core = self.core();
        let draw = core.random.u64();
        let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let default = mount.shapes.get(parent).and_then(|shape| shape.default);
        let first = match wanted {
            Some(wanted) => {
                let of_list = wanted.stripes.first().map(|stripe| stripe.mdt);
                Some(of_list.unwrap_or(wanted.header.stripe_offset))
            }
            None => default.map(|default| default.stripe_offset),
        };
        match first {
            None => Ok(place.mdt),
            Some(ANY) => {
                let is_there =
                    |mdt: &ImportId| core.peer(*mdt).is_some_and(|peer| peer.is_connected());
                let there: Vec<ImportId> = mount.mdts.values().copied().filter(is_there).collect();
                let drawn = (draw % there.len().max(1) as u64) as usize;
                Ok(there.get(drawn).copied().unwrap_or(place.mdt))
            }
            Some(index) => mount.mdts.get(&index).copied().ok_or(Errno::ENODEV),
        }
    }

    /// Makes a directory with a layout, as a value of [`NEW_DIRECTORY`](super::special::NEW_DIRECTORY) says.
    pub(super) async fn new_directory(
        &self,
        caller: &Caller,
        parent: Fid,
        value: &[u8],
    ) -> Result<(), Errno> {
        let split = |bytes: &[u8], at| bytes.iter().position(|byte| *byte == at);
        let blank = split(value, b' ').ok_or(Errno::EINVAL)?;
        let mode = std::str::from_utf8(&value[..blank]).map_err(|_| Errno::EINVAL)?;
        let mode = u32::from_str_radix(mode, 8).map_err(|_| Errno::EINVAL)?;
        let rest = &value[blank + 1..];
        let end = split(rest, 0).ok_or(Errno::EINVAL)?;
        let layout =
            LmvUserMd::decode(&rest[end + 1..], Order::Little).map_err(|_| Errno::EINVAL)?;
        let new = New::Directory(mode, Some(layout));
        self.create(caller, parent, &rest[..end], new).await.map(drop)
    }

    /// Returns the stripes of a directory with the MDT of each, in the form in which they are wanted; without stripes
    /// if it is plain. One round trip.
    pub(super) async fn stripes_of(&self, caller: &Caller, fid: Fid) -> Result<Vec<u8>, Errno> {
        let found = self.ask_shape(caller, fid).await?.stripes;
        let first = match &found {
            Some(found) => found.layout().header.master,
            None => self.mdt_index(fid).await?,
        };
        let mut layout = LmvUserMd::wanted(0, first);
        layout.header.magic = LayoutMagic::LMV_STRIPE;
        if let Some(found) = found.as_deref().map(Stripes::layout) {
            (layout.header.hash, layout.header.pool) = (found.header.hash, found.header.pool);
            layout.header.stripe_count = found.header.stripe_count;
            for fid in &found.stripes {
                let (fid, padding) = (*fid, Padding::default());
                let mdt = self.mdt_index(fid).await?;
                layout.stripes.push(DefaultStripe { fid, padding, mdt });
            }
        }
        Ok(layout.to_bytes())
    }

    /// Returns what directories in a directory are made with. One round trip.
    ///
    /// # Errors
    /// ENODATA if nothing is said of that.
    pub(super) async fn directory_default(
        &self,
        caller: &Caller,
        fid: Fid,
    ) -> Result<Vec<u8>, Errno> {
        let header = self.ask_shape(caller, fid).await?.default.ok_or(Errno::ENODATA)?;
        let plain = LmvUserMd::wanted(0, ANY);
        Ok(LmvUserMd { header, ..plain }.to_bytes())
    }

    /// Returns the index of the MDT that has a file.
    async fn mdt_index(&self, fid: Fid) -> Result<u32, Errno> {
        let import = self.mdt(fid).await?;
        let core = self.core();
        let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let found = mount.mdts.iter().find(|(_, mdt)| **mdt == import);
        found.map(|(index, _)| *index).ok_or(Errno::ENODEV)
    }
}
