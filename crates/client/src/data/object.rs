//! Objects: where they are, and how requests describe them.

use fulmar_base::Errno;
use fulmar_data::stripes::{self, Target};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::layout::LovObject;
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{ChecksumKind, ChecksumTypes, Obdo, OstId};
use fulmar_lustre_wire::{Fid, portal};
use fulmar_rpc::client::ImportId;

use super::state::ObjectKey;
use crate::files::layout::FileLayout;
use crate::machine::context::Context;

/// The length of an [`Obdo`].
pub(crate) const OBDO_LEN: usize = 208;
/// The most bytes of a transfer.
pub(crate) const BRW_MAX: u64 = 16 << 20;

/// An object of a file, or its data on the MDT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) file: Fid,
    pub(crate) import: ImportId,
    pub(crate) id: OstId,
    /// The places of the component and of the stripe.
    pub(crate) place: (usize, usize),
    /// Its name in the cache.
    pub(crate) cached: stripes::Object,
}

impl Object {
    /// Returns the portal of reads and writes.
    pub(crate) fn io_portal(&self) -> u32 {
        if self.is_on_mdt() { portal::MDS_IO } else { portal::OST_IO }
    }

    /// Returns the portal of other requests for it.
    pub(crate) fn portal(&self) -> u32 {
        if self.is_on_mdt() { portal::MDS_REQUEST } else { portal::OST_REQUEST }
    }

    /// Returns by what locks name it.
    pub(crate) fn key(&self) -> ObjectKey {
        (self.import, self.id.resource())
    }

    pub(crate) fn is_on_mdt(&self) -> bool {
        matches!(self.cached.target, Target::Mdt(_))
    }
}

impl Context {
    /// Returns all objects of a file, in the order in which clients lock them.
    pub(crate) async fn objects(
        &self,
        fid: Fid,
        layout: &FileLayout,
    ) -> Result<Vec<Object>, Errno> {
        let mut all = Vec::new();
        for (component, one) in layout.components.iter().enumerate() {
            if one.is_on_mdt() {
                let import = self.mdt(fid).await?;
                let target = Target::Mdt(self.index_of(import)?);
                let (id, place) = (OstId::Fid(fid), (component, 0));
                let cached = stripes::Object { target, fid };
                all.push(Object { file: fid, import, id, place, cached });
            }
        }
        for (component, stripe, LovObject { id, ost, .. }) in layout.objects() {
            let (import, place) = (self.ost(ost).await?, (component, stripe));
            let own = u16::try_from(ost).ok().and_then(|index| id.fid(index));
            let cached =
                stripes::Object { target: Target::Ost(ost), fid: own.ok_or(Errno::EPROTO)? };
            all.push(Object { file: fid, import, id, place, cached });
        }
        Ok(all)
    }

    /// Returns the index of an MDT.
    pub(super) fn index_of(&self, import: ImportId) -> Result<u32, Errno> {
        let core = self.core();
        let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let mut mdts = mount.mdts.iter();
        mdts.find(|(_, mdt)| **mdt == import).map(|(index, _)| *index).ok_or(Errno::ENODEV)
    }

    /// Returns what a target has granted.
    pub(crate) fn granted(&self, import: ImportId) -> ConnectData {
        let mut core = self.core();
        core.client().import(import).map(|one| *one.granted()).unwrap_or_default()
    }
}

/// Returns how requests describe an object.
pub(crate) fn described(
    file: Fid,
    layout: &FileLayout,
    (component, stripe): (usize, usize),
    id: OstId,
) -> Obdo {
    let part = &layout.components[component];
    let own = Obdo { valid: Valid::FLID | Valid::FLGROUP, id, ..Obdo::default() };
    if part.is_on_mdt() {
        return own;
    }
    Obdo {
        valid: own.valid | Valid::FLFID | Valid::FLPARENT | Valid::FLOSTLAYOUT,
        parent_seq: file.seq,
        parent_oid: file.oid,
        parent_version: file.version,
        stripe_index: stripe as u32,
        layout: part.described(),
        ..own
    }
}

/// Returns the kind of checksums of transfers; none if that was not agreed on. Spec: mdt-ost §18.3.
pub(crate) fn checksum_kind(granted: &ConnectData) -> ChecksumKind {
    if !granted.flags.has(ConnectFlags::CKSUM) {
        return ChecksumKind::ADLER;
    }
    let kinds = [
        (ChecksumTypes::CRC32C, ChecksumKind::CRC32C),
        (ChecksumTypes::T10IP4K, ChecksumKind::T10IP4K),
        (ChecksumTypes::T10IP512, ChecksumKind::T10IP512),
        (ChecksumTypes::T10CRC4K, ChecksumKind::T10CRC4K),
        (ChecksumTypes::T10CRC512, ChecksumKind::T10CRC512),
        (ChecksumTypes::CRC32, ChecksumKind::CRC32),
    ];
    let known = kinds.into_iter().find(|(kind, _)| granted.checksums.has(*kind));
    known.map_or(ChecksumKind::ADLER, |(_, kind)| kind)
}
