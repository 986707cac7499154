//! Which directories are striped, and where new directories are made, as replies have told. Spec: mdt-ost §12.1.
//!
//! That is remembered after the lock that protects it is gone: an MDT refuses new names in a stripe of a layout that
//! has changed, and what is not found is looked for again after the directory was asked.
//!
//! A directory may have stripes on several MDTs, each of which is a directory there. Its attributes
//! come with its layout, by which the hash of a name says its stripe: requests about the name go to
//! the stripe, and its locks protect what is cached of names. The size and the number of links are
//! those of all stripes, and its names are read from all of them and merged by their hashes, so a
//! position is one hash. New names carry the version of the layout, which the MDT checks (ESTALE).
//! While a directory moves, a name is looked for in its new stripe, in its old one and again in the
//! new one; new names are made in the new one, after the old one was asked. With an unknown hash
//! function all stripes are asked, and nothing is made. A file whose name is on another MDT is
//! found by its FID (FLD); a change of both is sent to the MDT of the file that goes, or to the one
//! that an MDT names in its refusal. A new directory is made by the MDT that the default layout of
//! its parent says; if that is any, one is drawn.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::layout::{Layout, LayoutMagic, LmvMd, LmvUserHeader, NameStripe};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::{Content, Fid};
use fulmar_wire::Order;

/// How many directories are remembered, and how many stripes of them.
const DIRECTORIES_MAX: usize = 1 << 16;
const STRIPES_MAX: usize = 1 << 20;
/// The layout of a directory that is not striped has this version.
const PLAIN_VERSION: u32 = 1;

/// What is known of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Its stripes, if it is striped.
    pub(crate) stripes: Option<Arc<Stripes>>,
    /// Where directories in it are made.
    pub(crate) default: Option<LmvUserHeader>,
}

/// The stripes of a directory: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stripes(LmvMd);

/// The directories in which a name is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    /// It is there or nowhere.
    One(Fid),
    /// The directory moves: new names are in the first one, and the others are moved there.
    Moving(Fid, Fid),
    /// Each of them may have it.
    Any(Vec<Fid>),
}

impl Shape {
    /// Reads the layouts that came with attributes.
    ///
    /// # Errors
    /// EPROTO if they are not valid.
    pub(crate) fn decode(layout: &[u8], default: &[u8]) -> Result<Self, Errno> {
        let of = |bytes| Layout::decode(bytes, Order::Little).map_err(|_| Errno::EPROTO);
        let mut this = Self::default();
        if let Layout::Directory(layout) = of(layout)?
            && layout.header.magic == LayoutMagic::LMV_V1
        {
            let count = layout.header.stripe_count;
            if count > LmvMd::STRIPES_MAX || layout.stripes.len() != count as usize {
                return Err(Errno::EPROTO);
            }
            this.stripes = (count > 0).then(|| Arc::new(Stripes(layout)));
        }
        if let Layout::DirectoryDefault(default) = of(default)? {
            this.default = Some(default.header);
        }
        Ok(this)
    }

    /// Returns where a name in a directory of this shape is.
    pub(crate) fn places(&self, directory: Fid, name: &[u8]) -> Places {
        match &self.stripes {
            Some(stripes) if name != b"." && name != b".." => stripes.places(name),
            _ => Places::One(directory),
        }
    }

    pub(crate) fn is_striped(&self) -> bool {
        self.stripes.is_some()
    }

    /// Returns the version of the layout that new names are for.
    pub(crate) fn version(&self) -> u32 {
        self.stripes.as_ref().map_or(PLAIN_VERSION, |stripes| stripes.0.header.version)
    }
}

impl Stripes {
    pub(crate) fn layout(&self) -> &LmvMd {
        &self.0
    }

    /// Returns the stripes that exist.
    pub(crate) fn all(&self) -> impl Iterator<Item = Fid> + '_ {
        self.0.stripes.iter().copied().filter(|fid| *fid != Fid::default())
    }

    fn places(&self, name: &[u8]) -> Places {
        let stripe = |number: u32| {
            self.0.stripes.get(number as usize).copied().filter(|fid| *fid != Fid::default())
        };
        let found = match self.0.name_stripe(name) {
            NameStripe::One(one) => stripe(one).map(Places::One),
            NameStripe::Moving(new, old) => stripe(new).zip(stripe(old)).map(|(new, old)| {
                if new == old { Places::One(new) } else { Places::Moving(new, old) }
            }),
            NameStripe::Any => None,
        };
        found.unwrap_or_else(|| Places::Any(self.all().collect()))
    }
}

/// What is known of directories.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    known: BTreeMap<Fid, Shape>,
    /// The directories that the stripes are of.
    masters: BTreeMap<Fid, Fid>,
}

impl Shapes {
    /// Notes what a directory is.
    pub(crate) fn note(&mut self, directory: Fid, shape: Shape) {
        if self.known.get(&directory) == Some(&shape) {
            return;
        }
        self.forget(directory);
        let more = shape.stripes.as_ref().map_or(0, |stripes| stripes.all().count());
        if self.masters.len() + more > STRIPES_MAX {
            *self = Self::default();
        }
        if self.known.len() >= DIRECTORIES_MAX {
            self.known.retain(|_, shape| shape.stripes.is_some());
        }
        if self.known.len() >= DIRECTORIES_MAX {
            *self = Self::default();
        }
        for stripe in shape.stripes.iter().flat_map(|stripes| stripes.all()) {
            self.masters.insert(stripe, directory);
        }
        self.known.insert(directory, shape);
    }

    fn forget(&mut self, directory: Fid) {
        let old = self.known.remove(&directory).and_then(|shape| shape.stripes);
        for stripe in old.iter().flat_map(|stripes| stripes.all()) {
            if self.masters.get(&stripe) == Some(&directory) {
                self.masters.remove(&stripe);
            }
        }
    }

    /// Returns what a directory is, if that is known.
    pub(crate) fn get(&self, directory: Fid) -> Option<&Shape> {
        self.known.get(&directory)
    }

    /// Returns the directory that a stripe is of, if it is one.
    pub(crate) fn master(&self, stripe: Fid) -> Option<Fid> {
        self.masters.get(&stripe).copied()
    }
}

/// Returns the attributes of a directory with those that its stripes have together. Spec: mdt-ost §22.3.
pub(crate) fn merged(master: &MdtBody, stripes: &[MdtBody]) -> MdtBody {
    let Some(first) = stripes.first() else { return *master };
    let newest = |time: fn(&MdtBody) -> i64| stripes.iter().map(time).max().unwrap_or_default();
    // The two names that each directory has count once.
    let names = |stripe: &MdtBody| stripe.nlink.saturating_sub(2);
    MdtBody {
        nlink: stripes[1..].iter().map(names).fold(first.nlink, u32::saturating_add),
        size: stripes.iter().fold(0, |sum, one| sum.saturating_add(one.size)),
        blocks: stripes.iter().fold(0, |sum, one| sum.saturating_add(one.blocks)),
        atime: newest(|one| one.atime),
        mtime: newest(|one| one.mtime),
        ctime: newest(|one| one.ctime),
        ..*master
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fulmar_lustre_wire::layout::{HashFlags, HashFunction, HashType, LmvHeader, LmvUserMd};
    use fulmar_lustre_wire::{Bytes, Padding, Text};

    use super::*;

    pub(crate) fn fid(oid: u32) -> Fid {
        Fid { seq: 0x2_0000_0400, oid, version: 0 }
    }

    /// Returns the layout of a directory with so many stripes, from this one on.
    pub(crate) fn layout(hash: u32, count: u32, first: u32) -> Vec<u8> {
        let header = LmvHeader {
            magic: LayoutMagic::LMV_V1,
            stripe_count: count,
            master: 0,
            hash: HashType {
                function: HashFunction(hash as u16),
                flags: HashFlags(hash >> 16 << 16),
            },
            version: 7,
            migrate_offset: 0,
            migrate_hash: HashType::default(),
            padding: Padding::default(),
            pool: Text::default(),
        };
        let stripes = (0..count).map(|number| fid(first + number)).collect();
        LmvMd { header, stripes, rest: Bytes::default() }.to_bytes()
    }

    fn shape(hash: u32, count: u32) -> Shape {
        Shape::decode(&layout(hash, count, 10), &[]).unwrap()
    }

    #[test]
    fn a_name_is_in_one_stripe() {
        let plain = Shape::default();
        assert_eq!((plain.places(fid(1), b"a"), plain.version()), (Places::One(fid(1)), 1));
        let two = shape(HashFunction::FNV_1A_64.0.into(), 2);
        let of = |name: &[u8]| two.places(fid(1), name);
        assert_eq!((of(b"a"), of(b"b")), (Places::One(fid(10)), Places::One(fid(11))));
        assert_eq!((of(b"."), two.version()), (Places::One(fid(1)), 7));
        let unknown = shape(9, 2);
        assert_eq!(unknown.places(fid(1), b"a"), Places::Any(vec![fid(10), fid(11)]));
        let lost = shape(HashFlags::LOST_LMV.0 | 2, 2);
        assert_eq!(lost.places(fid(1), b"a"), Places::Any(vec![fid(10), fid(11)]));
    }

    #[test]
    fn a_stripe_that_does_not_exist_has_no_names() {
        let mut bytes = layout(2, 2, 10);
        bytes[56..72].fill(0);
        let shape = Shape::decode(&bytes, &[]).unwrap();
        assert_eq!(shape.places(fid(1), b"a"), Places::Any(vec![fid(11)]));
        assert_eq!(shape.places(fid(1), b"b"), Places::One(fid(11)));
    }

    #[test]
    fn what_is_no_layout_of_stripes_is_refused() {
        for bytes in [&[][..], &[0; 48], &layout(2, 0, 0)] {
            assert_eq!(Shape::decode(bytes, bytes), Ok(Shape::default()));
        }
        let many = layout(2, LmvMd::STRIPES_MAX, 1);
        assert!(Shape::decode(&many, &[]).unwrap().stripes.is_some());
        for bytes in [&layout(2, LmvMd::STRIPES_MAX + 1, 1), &many[..many.len() - 1]] {
            assert_eq!(Shape::decode(bytes, &[]), Err(Errno::EPROTO));
        }
        let default = LmvUserMd::wanted(1, u32::MAX).to_bytes();
        let shape = Shape::decode(&[], &default).unwrap();
        assert_eq!(shape.default.unwrap().stripe_offset, u32::MAX);
        assert_eq!(Shape::decode(&[], &default[..47]), Err(Errno::EPROTO));
    }

    #[test]
    fn stripes_are_known_by_their_directories() {
        let mut shapes = Shapes::default();
        shapes.note(fid(1), shape(2, 2));
        assert_eq!((shapes.master(fid(10)), shapes.master(fid(12))), (Some(fid(1)), None));
        shapes.note(fid(1), Shape::decode(&layout(2, 2, 11), &[]).unwrap());
        assert_eq!((shapes.master(fid(10)), shapes.master(fid(12))), (None, Some(fid(1))));
        shapes.note(fid(1), Shape::default());
        assert_eq!((shapes.master(fid(12)), shapes.masters.len()), (None, 0));
        assert_eq!(shapes.get(fid(1)), Some(&Shape::default()));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shapes = Shapes::default();
        shapes.note(fid(1), shape(2, 2));
        for oid in 0..2 * DIRECTORIES_MAX as u32 {
            shapes.note(fid(100 + oid), Shape::default());
            assert!(shapes.known.len() <= DIRECTORIES_MAX);
        }
        assert!(shapes.get(fid(1)).is_some(), "striped ones are kept longer");
        for number in 0..600 {
            let stripes = layout(2, LmvMd::STRIPES_MAX, (number + 1) * LmvMd::STRIPES_MAX);
            let directory = Fid { seq: 0x2_0000_0401, ..fid(number) };
            shapes.note(directory, Shape::decode(&stripes, &[]).unwrap());
            assert!(shapes.masters.len() <= STRIPES_MAX);
        }
    }

    #[test]
    fn the_attributes_of_the_stripes_count_together() {
        let body = |nlink, size, mtime| MdtBody {
            nlink,
            size,
            mtime,
            ctime: mtime + 1,
            blocks: 1,
            mode: 0o040_700,
            ..MdtBody::default()
        };
        let master = MdtBody { mode: 0o040_755, uid: 3, ..body(9, 9, 9) };
        let all = merged(&master, &[body(3, 10, 5), body(4, 20, 7), body(2, 30, 6)]);
        assert_eq!((all.nlink, all.size, all.blocks), (5, 60, 3));
        assert_eq!((all.mtime, all.ctime, all.mode, all.uid), (7, 8, 0o040_755, 3));
        assert_eq!(merged(&master, &[]), master);
    }
}
