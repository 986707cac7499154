//! Components that somebody adds, removes or marks. Spec: mdt-ost §7.6, §10.1, §11.2.

use fulmar_base::Errno;
use fulmar_lustre_wire::layout::{Component, ComponentFlags, CompositeMd, Layout, LayoutMagic};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_wire::Order;

use super::composite::{Composite, PartSpec};
use super::{LAYOUT_LEN_MAX, Rules, objects_of};
use crate::objects::Object;

/// What a kernel says if a component is to be marked older than others that there are not.
const EUCLEAN: Errno = Errno(117);
/// Larger numbers are no components.
const ID_MAX: u32 = 0x7fff_ffff;
/// The bits of the time in what a component has of its last resynchronisation.
const TIME: u64 = (1 << 48) - 1;
/// The flags that somebody may name.
const KNOWN: ComponentFlags = ComponentFlags::NEG
    .with(ComponentFlags::INIT)
    .with(ComponentFlags::STALE)
    .with(ComponentFlags::PREF_RD)
    .with(ComponentFlags::PREF_WR)
    .with(ComponentFlags::NOSYNC)
    .with(ComponentFlags::EXTENSION)
    .with(ComponentFlags::PARITY)
    .with(ComponentFlags::NOCOMPR)
    .with(ComponentFlags::IS_LINK_ID);

/// The flags that somebody may set or clear.
const SETTABLE: ComponentFlags = ComponentFlags::NEG
    .with(ComponentFlags::STALE)
    .with(ComponentFlags::PREF_RD)
    .with(ComponentFlags::PREF_WR)
    .with(ComponentFlags::NOSYNC)
    .with(ComponentFlags::NOCOMPR);

/// A change of the components of a file, which clients ask for as an extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComponentChange {
    Add,
    Delete,
    SetFlags,
    /// Of nothing in particular.
    Set,
}

impl ComponentChange {
    /// Returns the change that the name of an attribute means; `None` if it is another attribute.
    ///
    /// # Errors
    /// EINVAL if there is no such change.
    pub(crate) fn of_name(name: &[u8]) -> Result<Option<Self>, Errno> {
        match name.strip_prefix(b"lustre.lov") {
            None | Some(b"") => Ok(None),
            Some(b".add") => Ok(Some(Self::Add)),
            Some(b".del") => Ok(Some(Self::Delete)),
            Some(b".set.flags") => Ok(Some(Self::SetFlags)),
            Some(b".set") => Ok(Some(Self::Set)),
            Some(_) => Err(Errno::EINVAL),
        }
    }
}

/// What a change has left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LayoutChange {
    /// The layout; no bytes if the file has none any more.
    pub(crate) layout: Vec<u8>,
    /// The objects that it had and has no more.
    pub(crate) gone: Vec<Object>,
}

/// Changes the components of a file. `now`: the time in seconds since 1970.
///
/// # Errors
/// EINVAL if the file has a layout without components, or the change is not allowed; ENOTSUPP if there is no
/// such change; EUCLEAN if data without a newer copy are to be called old.
pub(crate) fn changed(
    (file, layout): (Fid, &[u8]),
    change: ComponentChange,
    asked: &[u8],
    now: i64,
    rules: Rules<'_>,
) -> Result<LayoutChange, Errno> {
    let mut composite = Composite::decode(layout)?;
    if change == ComponentChange::Set {
        return Err(Errno::ENOTSUPP);
    }
    let asked = match Layout::decode(asked, Order::Little) {
        Ok(Layout::Composite(asked)) if asked.header.magic == LayoutMagic::LOV_COMPOSITE => asked,
        _ => return Err(Errno::EINVAL),
    };
    match change {
        ComponentChange::Add => {
            let parts = PartSpec::all(&asked, Some(composite.end()), rules)?;
            composite.append(parts, None);
        }
        ComponentChange::Delete => composite.delete(&asked)?,
        ComponentChange::SetFlags | ComponentChange::Set => composite.set_flags(&asked, now)?,
    }
    let changed = if composite.parts.is_empty() { vec![] } else { composite.encode(file) };
    if changed.len() > LAYOUT_LEN_MAX {
        return Err(Errno::ERANGE);
    }
    let kept = objects_of(&changed);
    let gone = objects_of(layout).into_iter().filter(|object| !kept.contains(object)).collect();
    Ok(LayoutChange { layout: changed, gone })
}

impl Composite {
    /// Removes the component of a number, or those with or without certain flags. They are the last ones.
    fn delete(&mut self, asked: &CompositeMd) -> Result<(), Errno> {
        let &Component { id, flags, .. } = asked.components.first().ok_or(Errno::EINVAL)?;
        if id > ID_MAX || flags.0 & !KNOWN.0 != 0 || (id != 0) == (flags.0 != 0) {
            return Err(Errno::EINVAL);
        }
        let named = flags.0 & !ComponentFlags::NEG.0;
        let goes = |component: &Component| match () {
            () if id != 0 => component.id == id,
            () if flags.has(ComponentFlags::NEG) => component.flags.0 & named == 0,
            () => component.flags.0 & named != 0,
        };
        let kept = self.parts.iter().filter(|part| !goes(&part.component)).count();
        let is_tail = self.parts[kept..].iter().all(|part| goes(&part.component));
        if kept == self.parts.len() || !is_tail {
            return Err(Errno::EINVAL);
        }
        self.parts.truncate(kept);
        self.changed();
        Ok(())
    }

    /// Sets or clears flags of components.
    fn set_flags(&mut self, asked: &CompositeMd, now: i64) -> Result<(), Errno> {
        let mut has_changed = false;
        for &Component { id, flags, .. } in &asked.components {
            let is_settable = flags.0 & !SETTABLE.0 == 0;
            if !is_settable {
                return Err(Errno::EINVAL);
            }
            // This one is of all components of a mirror, and there is one mirror.
            let of_mirror = flags.0 & ComponentFlags::NOSYNC.0;
            let own = flags.0 & !(ComponentFlags::NOSYNC.0 | ComponentFlags::NEG.0);
            for part in &mut self.parts {
                let component = &mut part.component;
                let is_other_mirror = of_mirror != 0 && id >> 16 != component.id >> 16;
                if own != 0 && id != component.id || is_other_mirror {
                    continue;
                }
                has_changed = true;
                if flags.has(ComponentFlags::NEG) {
                    component.flags.0 &= !(own | of_mirror);
                    continue;
                }
                if own & ComponentFlags::STALE.0 != 0 {
                    return Err(EUCLEAN);
                }
                component.flags.0 |= own | of_mirror;
                if of_mirror != 0 {
                    component.time_and_id = component.time_and_id & !TIME | now as u64 & TIME;
                }
            }
        }
        self.changed();
        if has_changed { Ok(()) } else { Err(Errno::EINVAL) }
    }
}
