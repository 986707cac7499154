//! What somebody wants of a file, or of one component of it. Spec: mdt-ost §11.1, §11.4, §11.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::Text;
use fulmar_lustre_wire::layout::{LayoutMagic, LovHeader, LovMd, Pattern};

use super::Plan;
use crate::objects::Objects;

/// No OST in particular.
pub(super) const ANY: u16 = 0xffff;
/// Sizes of stripes and places of components are multiples of this.
pub(super) const STRIPE_UNIT: u32 = 64 << 10;
/// The size of the stripes of a file system without another default.
pub(super) const STRIPE_SIZE: u32 = 4 << 20;
/// The most stripes of a file.
pub(super) const STRIPES_MAX: u16 = 2000;
/// Counts from this on mean as many stripes as possible, or several on each OST.
pub(super) const ALL_STRIPES_MIN: u16 = 0xffe0;

/// The name of a pool.
pub(super) type Pool = Text<16>;

/// What somebody wants. What is not set is taken from a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LayoutSpec {
    pub(super) stripe_size: Option<u32>,
    pub(super) stripe_count: Option<u16>,
    pub(super) first: Option<u32>,
    pub(super) osts: Vec<u32>,
    pub(super) pool: Option<Pool>,
    /// It is in no pool, whatever the default is.
    pub(super) ignores_pool: bool,
    pub(super) is_overstriped: bool,
}

impl LayoutSpec {
    /// Reads what somebody wants.
    ///
    /// # Errors
    /// EINVAL if it is not allowed.
    pub(super) fn of(layout: &LovMd, objects: &dyn Objects) -> Result<Self, Errno> {
        let LovHeader { magic, pattern, stripe_size, stripe_count, generation, .. } = layout.header;
        let overstriped = Pattern::RAID0 | Pattern::OVERSTRIPING;
        if ![Pattern::NONE, Pattern::RAID0, overstriped].contains(&pattern)
            || stripe_size % STRIPE_UNIT != 0
            || stripe_count > STRIPES_MAX && stripe_count < ALL_STRIPES_MIN
        {
            return Err(Errno::EINVAL);
        }
        let is_overstriped = pattern == overstriped;
        let first = (generation != ANY).then_some(u32::from(generation));
        if first.is_some_and(|first| !objects.exists(first)) {
            return Err(Errno::EINVAL);
        }
        let osts = if magic == LayoutMagic::LOV_SPECIFIC {
            specific(layout, first, is_overstriped)?
        } else {
            vec![]
        };
        let name = layout.pool.as_ref().map_or(&b""[..], |pool| pool.as_bytes());
        let is_reserved = [&b"ignore"[..], b"inherit", b"none"].contains(&name);
        Ok(Self {
            stripe_size: Some(stripe_size).filter(|size| *size > 0),
            stripe_count: Some(stripe_count).filter(|count| *count > 0),
            first,
            osts,
            pool: layout.pool.filter(|_| !name.is_empty() && !is_reserved),
            ignores_pool: name == b"ignore",
            is_overstriped,
        })
    }

    /// Returns the same, with what is not set as a default says.
    pub(super) fn or(self, default: Self) -> Self {
        // An OST belongs to the pool that was meant with it.
        let first = match self.pool {
            Some(_) => self.first,
            None => self.first.or(default.first),
        };
        Self {
            stripe_size: self.stripe_size.or(default.stripe_size),
            stripe_count: self.stripe_count.or(default.stripe_count),
            first,
            pool: self.pool.or(default.pool),
            ..self
        }
    }

    /// Returns the same, in a pool if it says nothing of pools.
    pub(super) fn or_in(self, pool: Option<Pool>) -> Self {
        if self.ignores_pool { self } else { Self { pool: self.pool.or(pool), ..self } }
    }

    /// Returns whether it says nothing.
    pub(super) fn is_nothing(&self) -> bool {
        *self
            == Self {
                ignores_pool: self.ignores_pool,
                is_overstriped: self.is_overstriped,
                ..Self::default()
            }
    }

    /// Returns the plan for the bytes from `start` to `end`, which is `u64::MAX` if there is no end.
    pub(super) fn plan(self, start: u64, end: u64) -> Plan {
        let is_aligned = |size: u32| end == u64::MAX || end.is_multiple_of(size.into());
        let size = self.stripe_size.unwrap_or(STRIPE_SIZE);
        // Two components never share a stripe.
        let stripe_size = if is_aligned(size) || self.stripe_size.is_some() && start == end {
            size
        } else {
            1 << end.trailing_zeros().min(u32::BITS - 1)
        };
        let mut stripe_count = self.stripe_count.unwrap_or(1);
        let len = end.saturating_sub(start);
        let useful = len.div_ceil(stripe_size.into());
        if end != u64::MAX && len > 0 && stripe_count < ALL_STRIPES_MIN {
            stripe_count = u64::from(stripe_count).min(useful) as u16;
        }
        let mut osts = self.osts;
        osts.truncate(stripe_count.into());
        let Self { first, pool, is_overstriped, .. } = self;
        let stripes_max = STRIPES_MAX;
        Plan { stripe_size, stripe_count, stripes_max, first, osts, pool, is_overstriped }
    }
}

/// Returns the OSTs that are wanted, from the first one on.
fn specific(layout: &LovMd, first: Option<u32>, is_overstriped: bool) -> Result<Vec<u32>, Errno> {
    let count = layout.header.stripe_count;
    let mut osts: Vec<u32> = layout.places().iter().map(|place| place.ost).collect();
    if osts.is_empty() || osts.len() != usize::from(count) || count > STRIPES_MAX {
        return Err(Errno::EINVAL);
    }
    let first = first.unwrap_or(osts[0]);
    let start = osts.iter().position(|ost| *ost == first).ok_or(Errno::EINVAL)?;
    osts.rotate_left(start);
    let is_twice = |(at, ost)| osts[..at].contains(ost);
    if !is_overstriped && osts.iter().enumerate().any(is_twice) {
        Err(Errno::EINVAL)
    } else {
        Ok(osts)
    }
}
