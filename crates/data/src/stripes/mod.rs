//! Where the bytes of a file are: ranges of objects. Spec: mdt-ost §11.1 to §11.3.
//!
//! ```text
//! file      0 ─────────── 1 MiB ─────────────── 64 MiB ─────────────────── ∞
//! component │ on the MDT    │ one object          │ four objects, or none yet
//! ```
//!
//! A plain layout is one component. All offsets in objects are counted from the start of the file, so
//! an object of a later component has a hole at its start.

mod striping;
mod wire;

use std::ops::Range;

use fulmar_lustre_wire::Fid;

pub use striping::Striping;
pub use wire::LayoutError;

/// A server of data, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// An OST.
    Ost(u32),
    /// An MDT, for data on the MDT.
    Mdt(u32),
}

/// An object on its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Where it is.
    pub target: Target,
    /// Its FID; that of the file for data on the MDT.
    pub fid: Fid,
}

/// A range of a file without a border of stripes in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The range of the file.
    pub file: Range<u64>,
    /// Where it is.
    pub place: Place,
}

/// Where a part of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In an object.
    Object {
        /// Which.
        object: Object,
        /// Where it begins there.
        at: u64,
    },
    /// Nowhere: it is read as zeros, and cannot be written before the MDT has made objects.
    None,
}

/// The layout of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In order, without overlap. What is in none is nowhere.
    components: Vec<Component>,
    /// Whether a write needs no change of the layout besides missing objects.
    is_writable: bool,
}

/// A part of a file whose stripes are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Component {
    striping: Striping,
    /// By stripe; none if they do not exist.
    objects: Vec<Option<Object>>,
}

impl Component {
    fn new(range: Range<u64>, stripe_size: u64, objects: Vec<Option<Object>>) -> Self {
        let stripes = objects.len().max(1) as u64;
        Self { striping: Striping { range, stripe_size, stripes }, objects }
    }

    fn range(&self) -> &Range<u64> {
        &self.striping.range
    }

    /// Returns the part that begins at a byte of the component, and ends at `end` or before.
    fn piece(&self, at: u64, end: u64) -> Piece {
        let end = end.min(self.range().end);
        if self.objects.is_empty() {
            return Piece { file: at..end, place: Place::None };
        }
        let Striping { stripe_size, stripes, .. } = self.striping;
        let stripe = (at / stripe_size % stripes) as usize;
        let next = (at / stripe_size + 1).saturating_mul(stripe_size);
        let end = if stripes == 1 { end } else { end.min(next) };
        let at_object = self.striping.object_offset(stripe, at);
        let place = |object| Place::Object { object, at: at_object };
        Piece { file: at..end, place: self.objects[stripe].map_or(Place::None, place) }
    }

    fn found(&self) -> impl Iterator<Item = (usize, Object)> + '_ {
        self.objects.iter().enumerate().filter_map(|(stripe, &object)| Some((stripe, object?)))
    }
}

impl Layout {
    /// Returns the layout of a file that has no objects.
    pub fn none() -> Self {
        Self { components: Vec::new(), is_writable: true }
    }

    /// Returns a layout of stripes over all of the file.
    ///
    /// # Panics
    /// If the size of a stripe is 0.
    pub fn plain(stripe_size: u64, objects: Vec<Object>) -> Self {
        assert!(stripe_size > 0, "stripes have a size");
        let objects = objects.into_iter().map(Some).collect();
        let component = Component::new(0..u64::MAX, stripe_size, objects);
        Self { components: vec![component], is_writable: true }
    }

    /// Returns a layout of two components with one object each.
    #[cfg(test)]
    pub(crate) fn two(border: u64, objects: [Object; 2]) -> Self {
        let ranges = [0..border, border..u64::MAX].into_iter().zip(objects);
        let component = |(range, object)| Component::new(range, 1 << 20, vec![Some(object)]);
        Self { components: ranges.map(component).collect(), is_writable: true }
    }

    /// Returns whether the file may be written without a change of its layout, besides missing objects.
    /// False for mirrors, since the others would have to become stale first.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Returns where a range of the file is, in order and without gaps.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + '_ {
        let (mut at, end) = (range.start, range.end);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let after = self.components.partition_point(|component| component.range().end <= at);
            let piece = match self.components.get(after) {
                Some(component) if component.range().start <= at => component.piece(at, end),
                next => {
                    let next = next.map_or(u64::MAX, |component| component.range().start);
                    Piece { file: at..end.min(next), place: Place::None }
                }
            };
            at = piece.file.end;
            Some(piece)
        })
    }

    /// Returns the objects that contain parts of a range of the file, each with the range of it that the
    /// parts are in. Empty ranges are left out.
    pub fn objects(&self, range: Range<u64>) -> Vec<(Object, Range<u64>)> {
        let mut found = Vec::new();
        for component in &self.components {
            let from = range.start.max(component.range().start);
            let to = range.end.min(component.range().end);
            for (stripe, object) in component.found().filter(|_| from < to) {
                let start = component.striping.object_offset(stripe, from);
                // Without an end, the object has none either.
                let end =
                    if to == u64::MAX { to } else { component.striping.object_offset(stripe, to) };
                if start < end {
                    found.push((object, start..end));
                }
            }
        }
        found
    }

    /// Returns where a byte of an object is in the file; `None` if the object is not of this file, or the
    /// byte does not belong to it.
    pub fn file_offset(&self, object: Object, at: u64) -> Option<u64> {
        self.components.iter().find_map(|component| {
            let (stripe, _) = component.found().find(|(_, found)| *found == object)?;
            component.striping.file_offset(stripe, at)
        })
    }

    /// Returns the size of the file, given those of its objects. Spec: mdt-ost §11.3.
    pub fn size(&self, size_of: impl Fn(Object) -> u64) -> u64 {
        let sizes = self.components.iter().flat_map(|component| {
            let size = |(stripe, object)| component.striping.file_size(stripe, size_of(object));
            component.found().map(size).collect::<Vec<_>>()
        });
        sizes.max().unwrap_or(0)
    }

    /// Returns the sizes that objects get with a size of the file: those of the component with its last byte, and of all
    /// that follow, also of those that begin behind it. Where it ends with a component, the last byte tells the size.
    /// Spec: mdt-ost §22.6.
    pub fn cut(&self, size: u64) -> Vec<(Object, u64)> {
        let last = size.saturating_sub(1);
        let concerned = self.components.iter().filter(|one| one.range().end > last);
        let sizes = concerned.flat_map(|one| {
            let cut = |(stripe, object)| (object, one.striping.object_offset(stripe, size));
            one.found().map(cut)
        });
        sizes.collect()
    }

    /// Returns the first part of a range that has no objects: the intent LAYOUT that precedes a write
    /// names it. Spec: mdt-ost §22.5.
    pub fn missing(&self, range: Range<u64>) -> Option<Range<u64>> {
        let first = self.first_missing(range.clone())?;
        let mut end = first.end;
        // What follows it in other components without objects is made with the same intent.
        while let Some(next) = self.first_missing(end..range.end).filter(|next| next.start == end) {
            end = next.end;
        }
        Some(first.start..end)
    }

    fn first_missing(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut at = range.start;
        for component in &self.components {
            if component.range().end <= at || at >= range.end {
                continue;
            }
            if at < component.range().start {
                return Some(at..range.end.min(component.range().start));
            }
            let end = range.end.min(component.range().end);
            if component.found().count() < component.objects.len() {
                let none = |piece: &Piece| piece.place == Place::None;
                if let Some(piece) = self.pieces(at..end).find(none) {
                    return Some(piece.file);
                }
            } else if component.objects.is_empty() {
                return Some(at..end);
            }
            at = component.range().end;
        }
        (at < range.end).then_some(at..range.end)
    }
}

#[cfg(test)]
mod tests;
