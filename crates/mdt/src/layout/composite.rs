//! Layouts of several components. Spec: mdt-ost §11.2, §11.4.
//!
//! A component is a plan until it gets objects: the first one at the creation, the others before somebody
//! writes to them.

use fulmar_base::Errno;
use fulmar_lustre_wire::layout::{
    Component, ComponentFlags, CompositeHeader, CompositeMd, LayoutMagic, LovHeader, LovMd, Pattern,
};
use fulmar_lustre_wire::{Bytes, Content, Fid};
use fulmar_wire::Order;

use super::plan::{Plan, keep_wanted, restore_generation};
use super::spec::{LayoutSpec, Pool, STRIPE_UNIT, STRIPES_MAX};
use super::{LAYOUT_LEN_MAX, NO_END, Rules};
use crate::objects::{Object, Objects};

/// The bits of a generation, and of the number of a component.
const GENERATION: u32 = 0x7fff_ffff;
const ID: u32 = 0xffff;
/// What a creator, or a default, may say of a component.
const CHOSEN: ComponentFlags = ComponentFlags::PREF_RD
    .with(ComponentFlags::PREF_WR)
    .with(ComponentFlags::NOSYNC)
    .with(ComponentFlags::NOCOMPR);
/// Components of kinds that there are not.
const UNKNOWN: ComponentFlags = ComponentFlags::EXTENSION.with(ComponentFlags::PARITY);

/// The layout of a file, or, without objects, what it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Composite {
    pub(super) generation: u32,
    pub(super) parts: Vec<Part>,
}

/// A component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) component: Component,
    stripes: Stripes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stripes {
    Planned(Plan),
    Made(LovMd),
    /// There are none: the data are on the MDT, up to so many bytes.
    OnMdt(u32),
}

/// A component that somebody wants.
pub(super) struct PartSpec {
    component: Component,
    layout: LovMd,
    /// `None`: its data are on the MDT.
    wanted: Option<LayoutSpec>,
}

impl PartSpec {
    /// Reads the components that somebody wants, behind those that a file has up to `end`.
    ///
    /// # Errors
    /// EINVAL if they are not allowed; EFBIG if all data were to be on the MDT; EOPNOTSUPP if there are no
    /// such components.
    pub(super) fn all(
        layout: &CompositeMd,
        end: Option<u64>,
        rules: Rules<'_>,
    ) -> Result<Vec<Self>, Errno> {
        if layout.header.magic != LayoutMagic::LOV_COMPOSITE {
            return Err(Errno::EOPNOTSUPP);
        }
        let part = |component: &Component| {
            let layout = layout.layout(component).map_err(|_| Errno::EINVAL)?;
            Ok((*component, layout))
        };
        let parts: Result<Vec<_>, Errno> = layout.components.iter().map(part).collect();
        let parts = limited(parts?, rules.on_mdt_max)?;
        if parts.is_empty() {
            return Err(Errno::EINVAL);
        }
        let mut previous = end.unwrap_or(0);
        let mut mirrors = u32::from(end.is_some());
        let mut all = Vec::with_capacity(parts.len());
        for (component, layout) in parts {
            let Component { flags, start, end, .. } = component;
            let is_place = |at: u64| at.is_multiple_of(STRIPE_UNIT.into()) && at >> 63 == 0;
            if start > end
                || !(is_place(start) || start == NO_END)
                || !(is_place(end) || end == NO_END)
            {
                return Err(Errno::EINVAL);
            }
            if flags.0 & UNKNOWN.0 != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            if start == 0 {
                mirrors += 1;
                previous = 0;
            }
            let wanted = if layout.header.pattern.has(Pattern::MDT) {
                None
            } else {
                Some(LayoutSpec::of(&layout, rules.objects)?)
            };
            let size = wanted.as_ref().and_then(|wanted| wanted.stripe_size);
            let size = u64::from(size.unwrap_or(STRIPE_UNIT));
            let is_aligned = end == NO_END || start == end || end.is_multiple_of(size);
            if start != previous || !is_aligned {
                return Err(Errno::EINVAL);
            }
            previous = end;
            all.push(Self { component, layout, wanted });
        }
        // A file has one mirror, as on a server that does not allow more.
        if mirrors == 1 && layout.header.more_mirrors == 0 { Ok(all) } else { Err(Errno::EINVAL) }
    }

    /// Returns the component as a plan.
    fn part(self, pool: Option<Pool>) -> Part {
        let Component { start, end, flags, .. } = self.component;
        let flags = ComponentFlags(flags.0 & CHOSEN.0);
        let (flags, stripes) = match self.wanted {
            Some(wanted) => (flags, Stripes::Planned(wanted.or_in(pool).plan(start, end))),
            None => {
                let size = self.layout.header.stripe_size;
                (flags.with(ComponentFlags::INIT), Stripes::OnMdt(size))
            }
        };
        Part { component: Component { flags, start, end, ..Component::default() }, stripes }
    }

    /// Returns the layout of these components as the default of a directory. If none of them says
    /// anything of pools, they are in `pool`.
    pub(super) fn default_layout(parts: Vec<Self>, pool: Option<Pool>) -> Vec<u8> {
        let says_nothing = |part: &Self| part.layout.header.magic == LayoutMagic::LOV_V1;
        let pool = pool.filter(|_| parts.iter().all(says_nothing));
        let part = |Self { component, mut layout, wanted }| {
            match wanted {
                Some(_) => keep_wanted(&mut layout, pool),
                None => layout = on_mdt(Fid::default(), layout.header.stripe_size),
            }
            (component, layout)
        };
        CompositeMd::new(CompositeHeader::new(0), parts.into_iter().map(part).collect()).to_bytes()
    }

    /// Returns the first pool of components.
    pub(super) fn pool(parts: &[Self]) -> Option<Pool> {
        parts.iter().find_map(|part| part.wanted.as_ref()?.pool)
    }
}

/// Cuts what is to be on the MDT to `most` bytes, and removes it if that is 0: the component after it then
/// begins where it ends. Spec: mdt-ost §11.4.
fn limited(
    mut parts: Vec<(Component, LovMd)>,
    most: u64,
) -> Result<Vec<(Component, LovMd)>, Errno> {
    let mut at = 0;
    while let Some((component, layout)) = parts.get_mut(at) {
        at += 1;
        if !layout.header.pattern.has(Pattern::MDT) {
            continue;
        }
        let LovHeader { pattern, stripe_size, stripe_count, .. } = layout.header;
        let is_in_pool = layout.pool.as_ref().is_some_and(|pool| !pool.as_bytes().is_empty());
        if pattern != Pattern::MDT
            || component.start > 0
            || component.end == 0
            || u64::from(stripe_size) != component.end
            || stripe_count > 1
            || is_in_pool
        {
            return Err(Errno::EINVAL);
        }
        if component.end <= most {
            continue;
        }
        let (end, mirror) = (component.end, component.mirror());
        (component.end, layout.header.stripe_size) = (most, most as u32);
        let follows =
            |(other, _): &&mut (Component, LovMd)| other.start == end && other.mirror() == mirror;
        match parts.iter_mut().find(follows) {
            Some((next, _)) => next.start = most,
            None if most == 0 => return Err(Errno::EFBIG),
            None => {}
        }
        if most == 0 {
            at -= 1;
            parts.remove(at);
        }
    }
    Ok(parts)
}

/// Returns the layout of a component whose data are on the MDT.
fn on_mdt(file: Fid, size: u32) -> LovMd {
    let header = LovHeader {
        magic: LayoutMagic::LOV_V1,
        pattern: Pattern::MDT,
        object: file.oid.into(),
        seq: file.seq,
        stripe_size: size,
        stripe_count: 0,
        generation: 0,
    };
    LovMd { header, pool: None, objects: vec![], rest: Bytes::default() }
}

impl Composite {
    /// Returns the layout of a new file, without objects.
    pub(super) fn new(parts: Vec<PartSpec>, pool: Option<Pool>) -> Self {
        let mut new = Self { generation: 0, parts: vec![] };
        new.append(parts, pool);
        new
    }

    /// Appends components. Each is a change of the layout, and has the number of it.
    pub(super) fn append(&mut self, parts: Vec<PartSpec>, pool: Option<Pool>) {
        for wanted in parts {
            self.changed();
            let mut part = wanted.part(pool);
            let is_free = |id: &u32| self.parts.iter().all(|other| other.component.id != *id);
            let first = self.generation & ID;
            // There are fewer components than numbers.
            part.component.id =
                (first..=ID).chain(1..first).find(|id| *id > 0 && is_free(id)).unwrap_or(ID);
            self.parts.push(part);
        }
    }

    /// Notes a change.
    pub(super) fn changed(&mut self) {
        self.generation = (self.generation.wrapping_add(1) & GENERATION).max(1);
    }

    /// Returns the byte after the last one of the last component.
    pub(super) fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.component.end)
    }

    /// Gives objects to all components that begin before `end` and have none. Returns whether there
    /// were any.
    ///
    /// # Errors
    /// ERANGE if the layout has no room for an object; others as [`Objects::take`].
    pub(super) fn instantiate(
        &mut self,
        file: Fid,
        end: u64,
        objects: &dyn Objects,
    ) -> Result<bool, Errno> {
        let mut taken = Vec::new();
        let done = self.make_parts((file, end), objects, &mut taken);
        if done.is_err() {
            objects.give_back(&taken);
        }
        done.map(|()| !taken.is_empty())
    }

    fn make_parts(
        &mut self,
        (file, end): (Fid, u64),
        objects: &dyn Objects,
        all: &mut Vec<Object>,
    ) -> Result<(), Errno> {
        for at in 0..self.parts.len() {
            let Part { component, stripes: Stripes::Planned(plan) } = &self.parts[at] else {
                continue;
            };
            if component.start >= end {
                break;
            }
            let plan = self.fitting(plan, file)?;
            let taken = match objects.take(&plan) {
                // An OST that was wanted may be gone by now.
                Err(Errno::EINVAL) if at > 0 && plan.osts.is_empty() && plan.first.is_some() => {
                    objects.take(&Plan { first: None, ..plan.clone() })?
                }
                taken => taken?,
            };
            all.extend(&taken);
            let part = &mut self.parts[at];
            part.component.flags = part.component.flags | ComponentFlags::INIT;
            part.stripes = Stripes::Made(plan.made(file, &taken));
        }
        Ok(())
    }

    /// Returns a plan with at most as many stripes as the layout still has room for.
    fn fitting(&self, plan: &Plan, file: Fid) -> Result<Plan, Errno> {
        let room = LAYOUT_LEN_MAX.checked_sub(self.encode(file).len()).ok_or(Errno::ERANGE)?;
        // One object has a place already.
        let most = (room / LovMd::OBJECT_LEN + 1).min(STRIPES_MAX.into()) as u16;
        Ok(Plan { stripes_max: most, ..plan.clone() })
    }

    fn layouts(&self, file: Fid) -> Vec<(Component, LovMd)> {
        let part = |part: &Part| {
            let layout = match &part.stripes {
                Stripes::Planned(plan) => plan.planned(file),
                Stripes::Made(layout) => layout.clone(),
                Stripes::OnMdt(size) => on_mdt(file, *size),
            };
            (part.component, layout)
        };
        self.parts.iter().map(part).collect()
    }

    /// Returns the layout as clients read it.
    pub(super) fn encode(&self, file: Fid) -> Vec<u8> {
        CompositeMd::new(CompositeHeader::new(self.generation), self.layouts(file)).to_bytes()
    }

    /// Reads a layout that this program has written, or that a client repeats.
    ///
    /// # Errors
    /// EINVAL if it is damaged, or not of several components.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Errno> {
        let layout = CompositeMd::decode(bytes, Order::Little).map_err(|_| Errno::EINVAL)?;
        let part = |component: &Component| {
            let mut stripes = layout.layout(component).map_err(|_| Errno::EINVAL)?;
            let count = usize::from(stripes.header.stripe_count);
            let is_made = component.flags.has(ComponentFlags::INIT);
            if component.id > 0 && is_made && stripes.header.pattern.has(Pattern::MDT) {
                let stripes = Stripes::OnMdt(stripes.header.stripe_size);
                return Ok(Part { component: *component, stripes });
            }
            if component.id == 0 || is_made && (stripes.objects.len() != count || count == 0) {
                return Err(Errno::EINVAL);
            }
            let stripes = if is_made {
                stripes.rest.0.clear();
                restore_generation(&mut stripes);
                Stripes::Made(stripes)
            } else {
                Stripes::Planned(Plan::of_planned(&stripes))
            };
            Ok(Part { component: *component, stripes })
        };
        let parts: Result<Vec<_>, Errno> = layout.components.iter().map(part).collect();
        let this = Self { generation: layout.header.generation, parts: parts? };
        let is_plain = layout.header.magic == LayoutMagic::LOV_COMPOSITE
            && layout.header.more_mirrors == 0
            && !this.parts.is_empty();
        if is_plain { Ok(this) } else { Err(Errno::EINVAL) }
    }
}
