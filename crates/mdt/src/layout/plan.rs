//! What becomes of a file, or of one component of it: first a plan, then objects. Spec: mdt-ost §11.1.

use fulmar_lustre_wire::layout::{LayoutMagic, LovHeader, LovMd, LovObject, Pattern};
use fulmar_lustre_wire::ost::OstId;
use fulmar_lustre_wire::{Bytes, Fid};

use super::spec::{ANY, Pool, STRIPES_MAX};
use crate::objects::Object;

/// The index in the place of an object that does not exist yet.
const NO_OST: u32 = u32::MAX;

/// How the data of a file, or of one component of it, are to be spread over OSTs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The bytes of a stripe.
    pub stripe_size: u32,
    /// The number of stripes; [`LovMd::ALL_STRIPES`] for one on each OST.
    pub stripe_count: u16,
    /// There are never more stripes than this.
    pub stripes_max: u16,
    /// The OST of the first stripe.
    pub first: Option<u32>,
    /// The OSTs of the stripes, if certain ones are wanted.
    pub osts: Vec<u32>,
    /// The pool of the OSTs.
    pub pool: Option<Pool>,
    /// An OST may have several stripes. Counts from `0xffe0` on then mean as many on each OST as it takes to
    /// `0x10000`.
    pub is_overstriped: bool,
}

impl Plan {
    /// Returns the layout of a file with these objects.
    pub(super) fn made(&self, file: Fid, objects: &[Object]) -> LovMd {
        let is_twice =
            |(at, (ost, _)): (usize, &Object)| objects[..at].iter().any(|(other, _)| other == ost);
        let is_overstriped = self.is_overstriped && objects.iter().enumerate().any(is_twice);
        let place = |&(ost, fid): &Object| LovObject { id: OstId::Fid(fid), generation: 0, ost };
        let places = objects.iter().map(place).collect();
        self.layout(file, (objects.len() as u16, 0), is_overstriped, places)
    }

    /// Returns the layout of a component that gets its objects later.
    pub(super) fn planned(&self, file: Fid) -> LovMd {
        let place = |&ost: &u32| LovObject { ost, ..LovObject::default() };
        let osts = if self.osts.is_empty() { &[NO_OST][..] } else { &self.osts };
        let first = self.first.map_or(ANY, |first| first as u16);
        let places = osts.iter().map(place).collect();
        self.layout(file, (self.stripe_count, first), self.is_overstriped, places)
    }

    fn layout(
        &self,
        file: Fid,
        (stripe_count, generation): (u16, u16),
        is_overstriped: bool,
        objects: Vec<LovObject>,
    ) -> LovMd {
        let magic = if self.pool.is_some() { LayoutMagic::LOV_V3 } else { LayoutMagic::LOV_V1 };
        let more = if is_overstriped { Pattern::OVERSTRIPING } else { Pattern::NONE };
        let header = LovHeader {
            magic,
            pattern: Pattern::RAID0 | more,
            object: file.oid.into(),
            seq: file.seq,
            stripe_size: self.stripe_size,
            stripe_count,
            generation,
        };
        LovMd { header, pool: self.pool, objects, rest: Bytes::default() }
    }

    /// Reads what [`Plan::planned`] returned.
    pub(super) fn of_planned(layout: &LovMd) -> Self {
        let LovHeader { pattern, stripe_size, stripe_count, generation, .. } = layout.header;
        let osts: Vec<u32> = layout.places().iter().map(|place| place.ost).collect();
        Self {
            stripe_size,
            stripe_count,
            stripes_max: STRIPES_MAX,
            first: (generation != ANY).then_some(generation.into()),
            osts: if osts.first() == Some(&NO_OST) { vec![] } else { osts },
            pool: layout.pool,
            is_overstriped: pattern.has(Pattern::OVERSTRIPING),
        }
    }
}

/// Leaves only what somebody wants in a layout. If it says nothing of pools, it is in `pool`.
pub(super) fn keep_wanted(layout: &mut LovMd, pool: Option<Pool>) {
    let is_specific = layout.header.magic == LayoutMagic::LOV_SPECIFIC;
    layout.objects = if is_specific { layout.places() } else { vec![] };
    layout.rest.0.clear();
    layout.header.pattern = layout.header.pattern | Pattern::RAID0;
    if layout.header.magic == LayoutMagic::LOV_V1 && pool.is_some() {
        layout.header.magic = LayoutMagic::LOV_V3;
        layout.pool = pool;
    }
}

/// Sets the generation of a layout with objects as it was: a client that repeats one says nothing of it.
pub(super) fn restore_generation(layout: &mut LovMd) {
    if layout.header.generation == ANY {
        layout.header.generation = 0;
    }
}
