//! The layout of a file: its components, and where their stripes are. Spec: mdt-ost §11.2.

use fulmar_base::Errno;
use fulmar_data::stripes::Striping;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::layout::{ComponentFlags, CompositeMd, Layout, LovMd, LovObject, Pattern};
use fulmar_lustre_wire::ost::OstLayout;
use fulmar_wire::Order;

/// The layout of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// The components by their starts. Of mirrored files, those of the mirror that is used.
    pub components: Vec<FileComponent>,
    /// The number of mirrors.
    pub mirrors: u32,
    /// The generation.
    pub generation: u32,
    /// Whether the layout has several components.
    pub is_composite: bool,
    /// The layout as it was sent.
    pub bytes: Vec<u8>,
}

/// A part of a file with stripes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileComponent {
    /// Its number, 0 of a plain layout.
    pub id: u32,
    /// The first byte.
    pub start: u64,
    /// The byte after the last one; `u64::MAX` without an end.
    pub end: u64,
    /// Whether its objects exist.
    pub has_objects: bool,
    /// How its data are kept.
    pub pattern: Pattern,
    /// Bytes.
    pub stripe_size: u64,
    /// The stripes that it has, or will have.
    pub stripe_count: u16,
    /// The pool of its OSTs.
    pub pool: Option<String>,
    /// Its objects, by stripe.
    pub objects: Vec<LovObject>,
}

/// A contiguous part of a range of a file, in one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The place of the component.
    pub component: usize,
    /// The stripe.
    pub stripe: usize,
    /// Where it begins in the file.
    pub offset: u64,
    /// Where it begins in the object.
    pub object_offset: u64,
    /// Bytes.
    pub len: u64,
}

impl FileLayout {
    /// Decodes a layout. `None`: the file has none.
    ///
    /// # Errors
    /// EPROTO if it is damaged, EOPNOTSUPP if it is of another kind.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, Errno> {
        match Layout::decode(bytes, Order::Little).map_err(|_| Errno::EPROTO)? {
            Layout::File(layout) => {
                let part = FileComponent::new(0, (0, u64::MAX), true, &layout)?;
                Ok(Some(Self {
                    components: vec![part],
                    mirrors: 1,
                    generation: layout.header.generation.into(),
                    is_composite: false,
                    bytes: bytes.to_vec(),
                }))
            }
            Layout::Composite(layout) => Self::composite(&layout, bytes).map(Some),
            Layout::Other(bytes) if bytes.0.iter().all(|byte| *byte == 0) => Ok(None),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn composite(layout: &CompositeMd, bytes: &[u8]) -> Result<Self, Errno> {
        let stale = |mirror: u16| {
            let mut of_mirror = layout.components.iter().filter(|one| one.mirror() == mirror);
            of_mirror.any(|one| one.flags.has(ComponentFlags::STALE))
        };
        let mut mirrors: Vec<u16> = layout.components.iter().map(|one| one.mirror()).collect();
        mirrors.dedup();
        let mut fresh = layout.components.iter().filter(|one| !stale(one.mirror()));
        let first = fresh.clone().next();
        // One that is preferred for reading goes before others.
        let preferred = fresh.find(|one| one.flags.has(ComponentFlags::PREF_RD));
        let used = preferred.or(first).ok_or(Errno::EIO)?.mirror();
        let mut components = Vec::new();
        for one in layout.components.iter().filter(|one| one.mirror() == used) {
            let inner = layout.layout(one).map_err(|_| Errno::EPROTO)?;
            let has_objects = one.flags.has(ComponentFlags::INIT);
            components.push(FileComponent::new(one.id, (one.start, one.end), has_objects, &inner)?);
        }
        components.sort_by_key(|one| one.start);
        Ok(Self {
            components,
            mirrors: mirrors.len() as u32,
            generation: layout.header.generation,
            is_composite: true,
            bytes: bytes.to_vec(),
        })
    }

    /// Returns the layout of a file that has none.
    pub(crate) fn none() -> Self {
        Self { components: vec![], mirrors: 0, generation: 0, is_composite: false, bytes: vec![] }
    }

    /// Returns whether the data are only in the archive.
    pub fn is_released(&self) -> bool {
        self.components.iter().any(|one| one.pattern.has(Pattern::RELEASED))
    }

    /// Returns the pieces of a range of the file, by offset. A range without a component is left out.
    pub fn pieces(&self, offset: u64, len: u64) -> Vec<Piece> {
        let end = offset.saturating_add(len);
        let mut pieces = Vec::new();
        for (component, one) in self.components.iter().enumerate() {
            let (mut at, end) = (offset.max(one.start), end.min(one.end));
            while at < end {
                let (stripe, object_offset, room) = one.place(at);
                let len = room.min(end - at);
                pieces.push(Piece { component, stripe, offset: at, object_offset, len });
                at += len;
            }
        }
        pieces
    }

    /// Returns whether a write of a range needs objects that do not exist yet.
    pub fn needs_objects(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        let mut parts = self.components.iter().filter(|one| one.start < end && offset < one.end);
        parts.any(|one| !one.has_objects)
    }

    /// Returns all objects, with the places of their components and stripes.
    pub fn objects(&self) -> impl Iterator<Item = (usize, usize, LovObject)> {
        self.components.iter().enumerate().filter(|(_, one)| one.has_objects).flat_map(
            |(component, one)| {
                let objects = one.objects.iter().enumerate();
                objects.map(move |(stripe, object)| (component, stripe, *object))
            },
        )
    }
}

impl FileComponent {
    fn new(
        id: u32,
        (start, end): (u64, u64),
        has_objects: bool,
        layout: &LovMd,
    ) -> Result<Self, Errno> {
        let header = &layout.header;
        let (pattern, stripe_size) = (header.pattern, u64::from(header.stripe_size));
        let on_mdt = pattern.has(Pattern::MDT);
        let has_objects = has_objects && !pattern.has(Pattern::RELEASED);
        let objects = if has_objects { layout.objects.clone() } else { Vec::new() };
        if has_objects && !on_mdt {
            // Every byte must have a place.
            let is_whole = objects.len() == usize::from(header.stripe_count) && !objects.is_empty();
            if !is_whole || stripe_size == 0 {
                return Err(Errno::EPROTO);
            }
        }
        let pool = layout.pool.as_ref().map(|pool| pool.to_string()).filter(|one| !one.is_empty());
        let stripe_count = header.stripe_count;
        Ok(Self { id, start, end, has_objects, pattern, stripe_size, stripe_count, pool, objects })
    }

    /// Returns whether the data are on the MDT.
    pub fn is_on_mdt(&self) -> bool {
        self.pattern.has(Pattern::MDT)
    }

    /// Returns the stripe of a byte of the file, its place in the object, and how many bytes from it on
    /// are in the same stripe of the object.
    fn place(&self, at: u64) -> (usize, u64, u64) {
        if self.objects.is_empty() || self.is_on_mdt() {
            return (0, at, self.end - at);
        }
        let (size, count) = (self.stripe_size, self.objects.len() as u64);
        let (number, within) = (at / size, at % size);
        let room = if count == 1 { self.end - at } else { size - within };
        ((number % count) as usize, number / count * size + within, room)
    }

    /// Returns how its bytes are spread over its objects. Data on the MDT are one.
    pub fn striping(&self) -> Striping {
        Striping {
            range: self.start..self.end,
            stripe_size: self.stripe_size.max(1),
            stripes: self.objects.len().max(1) as u64,
        }
    }

    /// Returns how requests for an object describe the component.
    pub(crate) fn described(&self) -> OstLayout {
        OstLayout {
            stripe_size: u32::try_from(self.stripe_size).unwrap_or(u32::MAX),
            stripe_count: self.objects.len() as u32,
            start: self.start,
            end: if self.id == 0 { 0 } else { self.end },
            component_id: self.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::Fid;
    use fulmar_lustre_wire::ost::OstId;
    use proptest::prelude::*;

    use super::*;

    fn component(start: u64, end: u64, stripe_size: u64, count: usize) -> FileComponent {
        let object = |oid| {
            let id = OstId::Fid(Fid { seq: 0x2_4000_0400, oid, version: 0 });
            LovObject { id, generation: 0, ost: oid }
        };
        FileComponent {
            id: 1,
            start,
            end,
            has_objects: true,
            pattern: Pattern::RAID0,
            stripe_size,
            stripe_count: count as u16,
            pool: None,
            objects: (1..=count as u32).map(object).collect(),
        }
    }

    fn layout(components: Vec<FileComponent>) -> FileLayout {
        FileLayout { components, mirrors: 1, generation: 1, is_composite: true, bytes: vec![] }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_range_is_cut_at_stripes_and_components() {
        let layout = layout(vec![component(0, MIB, MIB, 1), component(MIB, u64::MAX, 1 << 16, 2)]);
        let pieces = layout.pieces(MIB - 10, 10 + 65_536 + 5);
        let shown: Vec<_> = pieces
            .iter()
            .map(|one| (one.component, one.stripe, one.object_offset, one.len))
            .collect();
        // The arithmetic begins at the start of the file, also in the second component.
        let half = MIB / 2;
        assert_eq!(shown, [(0, 0, MIB - 10, 10), (1, 0, half, 65_536), (1, 1, half, 5)]);
        assert!(layout.pieces(5, 0).is_empty());
    }

    proptest! {
        #[test]
        fn pieces_cover_a_range_and_agree_with_sizes(
            offset in 0..1_000_u64, len in 1..1_000_u64, count in 1..5_usize, size in 1..50_u64,
        ) {
            let one = component(0, u64::MAX, size, count);
            let (striping, layout) = (one.striping(), layout(vec![one]));
            let mut at = offset;
            for piece in layout.pieces(offset, len) {
                prop_assert_eq!(piece.offset, at);
                prop_assert_eq!(striping.object_offset(piece.stripe, at), piece.object_offset);
                at += piece.len;
                prop_assert_eq!(striping.file_size(piece.stripe, piece.object_offset + piece.len), at);
            }
            prop_assert_eq!(at, offset + len);
        }
    }
}
