//! Layouts of files: what somebody wants, what is the default, and what becomes of both.
//! Spec: mdt-ost §11.1, §11.4, §11.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::layout::{Layout, LayoutMagic, LovHeader, LovMd, LovObject, Pattern};
use fulmar_lustre_wire::{Bytes, Content, Fid, Text};
use fulmar_wire::Order;

/// The size of the stripes of a file system without another default.
const STRIPE_SIZE: u32 = 4 << 20;
/// Sizes of stripes are multiples of this.
const STRIPE_UNIT: u32 = 64 << 10;
/// No OST in particular.
const ANY: u16 = 0xffff;
/// The most stripes of a file.
const STRIPES_MAX: usize = 2000;

/// How the data of a file are to be spread over OSTs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The bytes of a stripe.
    pub stripe_size: u32,
    /// The number of stripes; [`LovMd::ALL_STRIPES`] for one on each OST.
    pub stripe_count: u16,
    /// The OST of the first stripe.
    pub first: Option<u32>,
    /// The OSTs of the stripes, if certain ones are wanted.
    pub osts: Vec<u32>,
    /// The pool of the OSTs.
    pub pool: Option<Text<16>>,
}

/// What somebody wants. What is not set is taken from a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    stripe_size: Option<u32>,
    stripe_count: Option<u16>,
    first: Option<u32>,
    osts: Vec<u32>,
    pool: Option<Text<16>>,
}

impl Wanted {
    /// Reads a layout that somebody wants; none if there are no bytes.
    fn decode(bytes: &[u8]) -> Result<Self, Errno> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let layout = match Layout::decode(bytes, Order::Little) {
            Ok(Layout::File(layout)) => layout,
            // Layouts of several components are not made yet.
            Ok(Layout::Composite(_) | Layout::Foreign(_)) => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        };
        let LovHeader { magic, pattern, stripe_size, stripe_count, generation, .. } = layout.header;
        if ![Pattern::NONE, Pattern::RAID0].contains(&pattern) || stripe_size % STRIPE_UNIT != 0 {
            return Err(Errno::EINVAL);
        }
        let is_all = stripe_count == LovMd::ALL_STRIPES;
        if !is_all && usize::from(stripe_count) > STRIPES_MAX {
            return Err(Errno::EINVAL);
        }
        let is_specific = magic == LayoutMagic::LOV_SPECIFIC;
        let osts = layout.objects.iter().map(|object| object.ost);
        let osts: Vec<u32> = if is_specific { osts.collect() } else { vec![] };
        if is_specific && (osts.is_empty() || osts.len() != usize::from(stripe_count)) {
            return Err(Errno::EINVAL);
        }
        Ok(Self {
            stripe_size: Some(stripe_size).filter(|size| *size > 0),
            stripe_count: Some(stripe_count).filter(|count| *count > 0),
            first: (generation != ANY).then_some(generation.into()),
            osts,
            pool: layout.pool.filter(|pool| !pool.as_bytes().is_empty()),
        })
    }

    fn or(self, default: Self) -> Self {
        // An OST belongs to the pool that was meant with it.
        let first = match self.pool {
            Some(_) => self.first,
            None => self.first.or(default.first),
        };
        Self {
            stripe_size: self.stripe_size.or(default.stripe_size),
            stripe_count: self.stripe_count.or(default.stripe_count),
            first,
            osts: self.osts,
            pool: self.pool.or(default.pool),
        }
    }
}

impl Plan {
    /// Returns how a new file is spread: as its creator wants, else as the default of its directory says,
    /// else as that of the file system.
    ///
    /// # Errors
    /// EINVAL if the layout that the creator wants is not allowed, EOPNOTSUPP if it is of a kind that
    /// there is not.
    pub fn new(wanted: &[u8], defaults: [&[u8]; 2]) -> Result<Self, Errno> {
        let mut all = Wanted::decode(wanted)?;
        for default in defaults {
            all = all.or(Wanted::decode(default).unwrap_or_default());
        }
        Ok(Self {
            stripe_size: all.stripe_size.unwrap_or(STRIPE_SIZE),
            stripe_count: all.stripe_count.unwrap_or(1),
            first: all.first,
            osts: all.osts,
            pool: all.pool,
        })
    }

    /// Returns the layout of a file with these objects, each with the index of its OST.
    pub fn layout(&self, file: Fid, objects: &[(u32, Fid)]) -> Vec<u8> {
        use fulmar_lustre_wire::ost::OstId;
        let object =
            |&(ost, fid): &(u32, Fid)| LovObject { id: OstId::Fid(fid), generation: 0, ost };
        let magic = if self.pool.is_some() { LayoutMagic::LOV_V3 } else { LayoutMagic::LOV_V1 };
        let header = LovHeader {
            magic,
            pattern: Pattern::RAID0,
            object: file.oid.into(),
            seq: file.seq,
            stripe_size: self.stripe_size,
            stripe_count: objects.len() as u16,
            generation: 0,
        };
        let objects = objects.iter().map(object).collect();
        LovMd { header, pool: self.pool, objects, rest: Bytes::default() }.to_bytes()
    }
}

/// Returns the objects of a layout, each with the index of its OST.
pub(crate) fn objects_of(layout: &[u8]) -> Vec<(u32, Fid)> {
    let layouts = match Layout::decode(layout, Order::Little) {
        Ok(Layout::File(layout)) => vec![layout],
        Ok(Layout::Composite(layout)) => layout.initialised(),
        _ => vec![],
    };
    let objects = layouts.into_iter().flat_map(|layout| layout.objects);
    let object = |object: LovObject| {
        let index = u16::try_from(object.ost).ok()?;
        Some((object.ost, object.id.fid(index)?))
    };
    objects.filter_map(object).collect()
}

/// Checks a layout that somebody wants for the new files of a directory, and returns what is kept: no bytes
/// if it says nothing.
///
/// # Errors
/// EINVAL and others if it is not allowed.
pub(crate) fn default_layout(wanted: &[u8]) -> Result<Vec<u8>, Errno> {
    let decoded = Layout::decode(wanted, Order::Little);
    if let Ok(Layout::DirectoryDefault(_)) = decoded {
        return Ok(wanted.to_vec());
    }
    let says = Wanted::decode(wanted)?;
    if says == Wanted::default() {
        return Ok(vec![]);
    }
    let Ok(Layout::File(mut layout)) = decoded else { return Err(Errno::EINVAL) };
    layout.rest.0.clear();
    layout.header.pattern = Pattern::RAID0;
    Ok(layout.to_bytes())
}

/// Returns a layout whose objects exist, as a client repeats it after a restart.
///
/// # Errors
/// EINVAL if it is none.
pub(crate) fn repeated(layout: &[u8]) -> Result<Vec<u8>, Errno> {
    match Layout::decode(layout, Order::Little) {
        Ok(Layout::File(mut layout))
            if layout.objects.len() == usize::from(layout.header.stripe_count) =>
        {
            layout.rest.0.clear();
            Ok(layout.to_bytes())
        }
        _ => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Fid = Fid { seq: 0x2_0000_0401, oid: 9, version: 0 };

    fn wanted(stripe_size: u32, stripe_count: u16, generation: u16) -> LovMd {
        let header = LovHeader {
            magic: LayoutMagic::LOV_V1,
            pattern: Pattern::NONE,
            object: 0,
            seq: 0,
            stripe_size,
            stripe_count,
            generation,
        };
        LovMd { header, pool: None, objects: vec![], rest: Bytes::default() }
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        let of_directory = wanted(0, 4, ANY).to_bytes();
        let of_root = wanted(1 << 20, 2, 5).to_bytes();
        let plan = Plan::new(&wanted(0, 0, ANY).to_bytes(), [&of_directory, &of_root]).unwrap();
        assert_eq!((plan.stripe_size, plan.stripe_count, plan.first), (1 << 20, 4, Some(5)));
        let plan = Plan::new(b"", [b"", b""]).unwrap();
        assert_eq!((plan.stripe_size, plan.stripe_count, plan.first), (STRIPE_SIZE, 1, None));
        for wrong in [wanted(1000, 1, ANY), wanted(0, 2001, ANY)] {
            assert_eq!(Plan::new(&wrong.to_bytes(), [b"", b""]), Err(Errno::EINVAL));
        }
        assert_eq!(Plan::new(b"what", [b"", b""]), Err(Errno::EINVAL));
    }

    #[test]
    fn a_layout_names_its_objects() {
        let plan = Plan::new(b"", [b"", b""]).unwrap();
        let objects = [1, 0].map(|ost| (ost, Fid { seq: 0x2_4000_0400, oid: 7 + ost, version: 0 }));
        let layout = plan.layout(FILE, &objects);
        assert_eq!(objects_of(&layout), objects);
        let mut with_room = layout.clone();
        with_room.extend([0; 72]);
        assert_eq!(repeated(&with_room), Ok(layout));
        assert_eq!(repeated(&wanted(0, 1, 0).to_bytes()), Err(Errno::EINVAL));
        assert_eq!(objects_of(b"nothing"), []);
    }

    #[test]
    fn a_default_that_says_nothing_is_none() {
        assert_eq!(default_layout(&wanted(0, 0, ANY).to_bytes()), Ok(vec![]));
        let kept = default_layout(&wanted(1 << 20, 2, ANY).to_bytes()).unwrap();
        let plan = Plan::new(b"", [&kept, b""]).unwrap();
        assert_eq!((plan.stripe_size, plan.stripe_count), (1 << 20, 2));
    }
}
