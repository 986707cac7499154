//! Layouts as MDTs send them.

use std::ops::Range;

use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::layout::{
    Component as Entry, ComponentFlags, CompositeMd, Layout as Wire, LovMd, LovObject, Pattern,
};
use fulmar_lustre_wire::ost::OstId;
use thiserror::Error;

use super::{Component, Layout, Object, Target};

/// Why a client cannot use a layout.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// It has to be restored first.
    #[error("the data of the file are in the archive: restore it first")]
    Released,
    /// Its data are not in this file system, or in a form that is not supported.
    #[error("the layout of the file is not supported: {0}")]
    Unsupported(&'static str),
    /// It contradicts itself.
    #[error("the layout of the file is damaged: {0}")]
    Damaged(&'static str),
}

impl Layout {
    /// Reads a layout that an MDT has sent. `file` and `mdt` name the file and the index of its MDT: there
    /// are its data if they are on the MDT. Of mirrors, the first is used that is not stale, one that is
    /// preferred for reading before others.
    ///
    /// # Errors
    /// If the data cannot be read by this layout.
    pub fn from_wire(layout: &Wire, file: Fid, mdt: u32) -> Result<Self, LayoutError> {
        match layout {
            Wire::File(plain) => {
                let component = component(plain, 0..u64::MAX, true, (file, mdt))?;
                Ok(Self { components: vec![component], is_writable: true })
            }
            Wire::Composite(composite) => of_composite(composite, (file, mdt)),
            Wire::Other(bytes) if bytes.0.iter().all(|&byte| byte == 0) => Ok(Self::none()),
            Wire::Foreign(_) => Err(LayoutError::Unsupported("the data are outside Lustre")),
            _ => Err(LayoutError::Unsupported("this is not the layout of a file")),
        }
    }
}

fn of_composite(composite: &CompositeMd, file: (Fid, u32)) -> Result<Layout, LayoutError> {
    let is_stale = |mirror| {
        let mut entries = composite.components.iter().filter(|entry| entry.mirror() == mirror);
        entries.any(|entry| entry.flags.has(ComponentFlags::STALE))
    };
    let fresh = || composite.components.iter().filter(|entry| !is_stale(entry.mirror()));
    let mut preferred = fresh().filter(|entry| entry.flags.has(ComponentFlags::PREF_RD));
    let chosen = preferred.next().or_else(|| fresh().next());
    let mirror = chosen.ok_or(LayoutError::Damaged("all mirrors are stale"))?.mirror();
    let is_of_mirror = |entry: &&Entry| entry.mirror() == mirror;
    let mut components = Vec::new();
    for entry in composite.components.iter().filter(is_of_mirror) {
        if entry.flags.has(ComponentFlags::PARITY) || entry.flags.has(ComponentFlags::COMPRESS) {
            return Err(LayoutError::Unsupported("compression or erasure coding"));
        }
        let plain = composite.layout(entry).map_err(|_| LayoutError::Damaged("a component"))?;
        let has_objects = entry.flags.has(ComponentFlags::INIT);
        components.push(component(&plain, entry.start..entry.end, has_objects, file)?);
    }
    components.sort_by_key(|component| component.range().start);
    let overlap = components.windows(2).any(|pair| pair[1].range().start < pair[0].range().end);
    if overlap || components.iter().any(|component| component.range().is_empty()) {
        return Err(LayoutError::Damaged("the ranges of its components overlap"));
    }
    let is_writable = composite.components.iter().all(|entry| entry.mirror() == mirror);
    Ok(Layout { components, is_writable })
}

fn component(
    plain: &LovMd,
    range: Range<u64>,
    has_objects: bool,
    (fid, mdt): (Fid, u32),
) -> Result<Component, LayoutError> {
    let pattern = plain.header.pattern;
    if pattern.has(Pattern::RELEASED) {
        return Err(LayoutError::Released);
    }
    let others = [Pattern::FOREIGN, Pattern::PARITY, Pattern::COMPRESS, Pattern::RAID1];
    if others.iter().any(|&other| pattern.has(other)) {
        return Err(LayoutError::Unsupported("its pattern"));
    }
    if pattern.has(Pattern::MDT) {
        // The data of a component on the MDT need no objects.
        let object = Object { target: Target::Mdt(mdt), fid };
        let stripe_size = u64::from(plain.header.stripe_size).max(1);
        return Ok(Component::new(range, stripe_size, vec![Some(object)]));
    }
    let stripe_size = u64::from(plain.header.stripe_size);
    let places = if has_objects { plain.places() } else { Vec::new() };
    let count = usize::from(plain.header.stripe_count);
    // Servers make stripes of whole 64 KiB. Smaller ones are no more than work.
    let is_whole = stripe_size > 0 && stripe_size.is_multiple_of(4096);
    if !places.is_empty() && (!is_whole || places.len() != count) {
        return Err(LayoutError::Damaged("the number or the size of its stripes"));
    }
    let object = |place: &LovObject| {
        let fid = place.id.fid(u16::try_from(place.ost).ok()?)?;
        let exists = place.id != OstId::default();
        exists.then_some(Object { target: Target::Ost(place.ost), fid })
    };
    let objects: Vec<_> = places.iter().map(object).collect();
    if objects.contains(&None) && !pattern.has(Pattern::HOLE) {
        return Err(LayoutError::Damaged("an object is missing"));
    }
    Ok(Component::new(range, stripe_size.max(1), objects))
}
