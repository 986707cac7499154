//! Layouts of files: requested ones, defaults, and what becomes of both. Spec: mdt-ost §11.1 to
//! §11.6.
//!
//! Layouts are kept as clients read them. A requested layout is checked and becomes plans, one for
//! each component; a plan becomes objects, from the host (`Objects::take`), when the component is
//! needed: the first component at the creation, the others with the intent LAYOUT of a client that
//! is about to write behind them. Components before that have objects too. The first component of a
//! new file has the number 1, and each change of a layout has the next generation. After a restart
//! a client repeats the layout that it had, which must have all objects of the layout on disk.
//! Files have one mirror.

mod change;
mod composite;
mod plan;
mod spec;
mod swap;

use fulmar_base::Errno;
use fulmar_lustre_wire::layout::{ComponentFlags, CompositeMd, Layout, LovMd, LovObject, Pattern};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_wire::Order;

pub(crate) use change::{ComponentChange, LayoutChange, changed};
use composite::{Composite, PartSpec};
pub use plan::Plan;
use spec::{LayoutSpec, Pool};
pub(crate) use swap::swapped;

use crate::objects::{Object, Objects};

/// The most bytes of a layout.
const LAYOUT_LEN_MAX: usize = 65_536;
/// No end.
const NO_END: u64 = u64::MAX;

/// What limits the layouts that somebody wants.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// The OSTs.
    pub(crate) objects: &'a dyn Objects,
    /// The most bytes of a file that are on the MDT; 0: none.
    pub(crate) on_mdt_max: u64,
}

/// The part of a file whose data are on the MDT. Spec: mdt-ost §13.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnMdt {
    /// The byte after the last one that can be there.
    pub(crate) end: u64,
    /// Whether the file has no objects.
    pub(crate) is_all: bool,
}

/// What a new file is to be.
#[derive(Debug, PartialEq, Eq)]
enum Design {
    Plain(Plan),
    Composite(Composite),
}

/// The layout that new files of a directory get.
enum OfDirectory {
    Plain(LayoutSpec),
    Composite(Vec<PartSpec>),
}

impl OfDirectory {
    /// Reads a default. One that is not allowed any more is none.
    fn of(bytes: &[u8], rules: Rules<'_>) -> Option<Self> {
        match Layout::decode(bytes, Order::Little) {
            Ok(Layout::File(layout)) => {
                LayoutSpec::of(&layout, rules.objects).ok().map(Self::Plain)
            }
            Ok(Layout::Composite(layout)) => {
                PartSpec::all(&layout, None, rules).ok().map(Self::Composite)
            }
            _ => None,
        }
    }

    fn pool(&self) -> Option<Pool> {
        match self {
            Self::Plain(wanted) => wanted.pool,
            Self::Composite(parts) => PartSpec::pool(parts),
        }
    }
}

impl Design {
    /// Returns what its creator wants, in the pool of a default if he does not say; or what the default of
    /// the directory says, and what that does not say from the default of the file system.
    fn new(wanted: &[u8], defaults: [&[u8]; 2], rules: Rules<'_>) -> Result<Self, Errno> {
        let [first, second] = defaults.map(|default| OfDirectory::of(default, rules));
        if !wanted.is_empty() {
            let pool = match (&first, &second) {
                (Some(OfDirectory::Plain(first)), Some(second)) => first.pool.or(second.pool()),
                (Some(default), _) | (None, Some(default)) => default.pool(),
                (None, None) => None,
            };
            return Self::wanted(wanted, pool, rules);
        }
        let plain = |wanted: LayoutSpec| Self::Plain(wanted.plan(0, NO_END));
        Ok(match (first, second) {
            (Some(OfDirectory::Plain(first)), Some(OfDirectory::Plain(second))) => {
                plain(first.or(second))
            }
            (Some(OfDirectory::Plain(only)), _) | (None, Some(OfDirectory::Plain(only))) => {
                plain(only)
            }
            (Some(OfDirectory::Composite(parts)), _)
            | (None, Some(OfDirectory::Composite(parts))) => {
                Self::Composite(Composite::new(parts, None))
            }
            (None, None) => plain(LayoutSpec::default()),
        })
    }

    fn wanted(wanted: &[u8], pool: Option<Pool>, rules: Rules<'_>) -> Result<Self, Errno> {
        match Layout::decode(wanted, Order::Little) {
            Ok(Layout::File(layout)) => {
                Ok(Self::Plain(LayoutSpec::of(&layout, rules.objects)?.or_in(pool).plan(0, NO_END)))
            }
            Ok(Layout::Composite(layout)) => match PartSpec::all(&layout, None, rules) {
                // A server says so of a default, and not of a file.
                Err(Errno::EFBIG) => Err(Errno::EINVAL),
                parts => Ok(Self::Composite(Composite::new(parts?, pool))),
            },
            Ok(Layout::Foreign(_)) => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Returns the layout of a new file of `size` bytes: as its creator wants, else as the default of its
/// directory says, else as that of the file system. The components up to its size have objects.
///
/// # Errors
/// EINVAL if the layout that the creator wants is not allowed, EOPNOTSUPP if it is of a kind that there is
/// not; others as [`Objects::take`].
pub(crate) fn new_layout(
    (file, size): (Fid, u64),
    wanted: &[u8],
    defaults: [&[u8]; 2],
    rules: Rules<'_>,
) -> Result<Vec<u8>, Errno> {
    let objects = rules.objects;
    match Design::new(wanted, defaults, rules)? {
        Design::Plain(plan) => Ok(plan.made(file, &objects.take(&plan)?).to_bytes()),
        Design::Composite(mut composite) => {
            composite.instantiate(file, size.saturating_add(1), objects)?;
            Ok(composite.encode(file))
        }
    }
}

/// Returns a layout with objects for all components that begin before `end`; `None` if they have them.
///
/// # Errors
/// EINVAL if the layout has only one component, or ends before `end`; others as
/// [`Objects::take`].
pub(crate) fn instantiated(
    file: Fid,
    layout: &[u8],
    end: u64,
    objects: &dyn Objects,
) -> Result<Option<Vec<u8>>, Errno> {
    let mut composite = Composite::decode(layout)?;
    if composite.parts.len() > 1 && composite.end() < end && composite.end() != NO_END {
        return Err(Errno::EINVAL);
    }
    if !composite.instantiate(file, end, objects)? {
        return Ok(None);
    }
    composite.changed();
    Ok(Some(composite.encode(file)))
}

/// Returns the objects of a layout, each with the index of its OST.
pub(crate) fn objects_of(layout: &[u8]) -> Vec<Object> {
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

/// Returns the part of a file whose data are on the MDT, if its layout has one.
pub(crate) fn on_mdt(layout: &[u8]) -> Option<OnMdt> {
    let layout = CompositeMd::decode(layout, Order::Little).ok()?;
    let made = layout.components.iter().filter(|part| part.flags.has(ComponentFlags::INIT));
    let mut found = OnMdt { end: 0, is_all: true };
    for part in made {
        if layout.layout(part).ok()?.header.pattern.has(Pattern::MDT) {
            found.end = part.end
        } else {
            found.is_all = false
        }
    }
    (found.end > 0).then_some(found)
}

/// Returns the generation of a layout of several components.
pub(crate) fn composite_generation(layout: &[u8]) -> Option<u32> {
    Some(CompositeMd::decode(layout, Order::Little).ok()?.header.generation)
}

/// Returns whether an OST has several stripes of a file.
pub(crate) fn is_overstriped(layout: &[u8]) -> bool {
    let has = |layout: &LovMd| layout.header.pattern.has(Pattern::OVERSTRIPING);
    match Layout::decode(layout, Order::Little) {
        Ok(Layout::File(layout)) => has(&layout),
        Ok(Layout::Composite(layout)) => {
            let layouts = layout.components.iter().map(|component| layout.layout(component));
            layouts.flatten().any(|layout| has(&layout))
        }
        _ => false,
    }
}

/// Checks a layout that somebody wants for the new files of a directory, and returns what is kept: no bytes
/// if it says nothing. It keeps the pool of the default `before` if it does not say another.
///
/// # Errors
/// EINVAL and others if it is not allowed.
pub(crate) fn default_layout(
    wanted: &[u8],
    before: &[u8],
    rules: Rules<'_>,
) -> Result<Vec<u8>, Errno> {
    let pool = OfDirectory::of(before, rules).and_then(|default| default.pool());
    let mut layout = match Layout::decode(wanted, Order::Little) {
        Ok(Layout::DirectoryDefault(_)) => return Ok(wanted.to_vec()),
        Ok(Layout::File(layout)) => layout,
        Ok(Layout::Composite(layout)) => {
            let parts = PartSpec::all(&layout, None, rules)?;
            let kept = PartSpec::default_layout(parts, pool);
            return if kept.len() > LAYOUT_LEN_MAX { Err(Errno::E2BIG) } else { Ok(kept) };
        }
        _ => return Err(Errno::EINVAL),
    };
    if LayoutSpec::of(&layout, rules.objects)?.is_nothing() {
        return Ok(vec![]);
    }
    plan::keep_wanted(&mut layout, pool);
    Ok(layout.to_bytes())
}

/// Returns a layout whose objects exist, as a client repeats it after a restart. It has all objects of
/// the layout `before`.
///
/// # Errors
/// EINVAL if it is none, or lacks objects.
pub(crate) fn repeated(file: Fid, layout: &[u8], before: &[u8]) -> Result<Vec<u8>, Errno> {
    let repeated = match Layout::decode(layout, Order::Little) {
        Ok(Layout::File(mut layout))
            if layout.objects.len() == usize::from(layout.header.stripe_count) =>
        {
            layout.rest.0.clear();
            plan::restore_generation(&mut layout);
            layout.to_bytes()
        }
        Ok(Layout::Composite(_)) => Composite::decode(layout)?.encode(file),
        _ => return Err(Errno::EINVAL),
    };
    let objects = objects_of(&repeated);
    if objects_of(before).iter().all(|object| objects.contains(object)) {
        Ok(repeated)
    } else {
        Err(Errno::EINVAL)
    }
}

#[cfg(test)]
mod tests;
