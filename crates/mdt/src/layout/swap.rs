//! Layouts of two files that are exchanged. Spec: mdt-ost §7.13.

use fulmar_base::Errno;
use fulmar_lustre_wire::layout::{Component, CompositeMd, Layout, LovHeader, LovMd};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_wire::Order;

/// The bits of a generation that number a component, which has no number 0.
const COMPONENT_ID: u32 = 0xffff;

/// Returns the layouts of two files after an exchange; no bytes for a file without one. Both have a
/// generation that neither had.
///
/// # Errors
/// EOPNOTSUPP if one is of a kind that there is not.
pub(crate) fn swapped(files: [(Fid, &[u8]); 2]) -> Result<[Vec<u8>; 2], Errno> {
    let [(first, layout_of_first), (second, layout_of_second)] = files;
    let (one, two) = (read(layout_of_first)?, read(layout_of_second)?);
    let next = |layout: &Option<Layout>| match generation(layout).wrapping_add(1) {
        next if next & COMPONENT_ID == 0 => next.wrapping_add(1),
        next => next,
    };
    let generation = next(&one).max(next(&two));
    Ok([written(two, first, generation), written(one, second, generation)])
}

fn read(layout: &[u8]) -> Result<Option<Layout>, Errno> {
    if layout.is_empty() {
        return Ok(None);
    }
    let layout = Layout::decode(layout, Order::Little).map_err(|_| Errno::EINVAL)?;
    let is_known = match &layout {
        Layout::File(_) => true,
        Layout::Composite(layout) => {
            layout.components.iter().all(|component| layout.layout(component).is_ok())
        }
        _ => false,
    };
    if is_known { Ok(Some(layout)) } else { Err(Errno::EOPNOTSUPP) }
}

fn generation(layout: &Option<Layout>) -> u32 {
    match layout {
        Some(Layout::File(layout)) => layout.header.generation.into(),
        Some(Layout::Composite(layout)) => layout.header.generation,
        _ => 0,
    }
}

/// Returns a layout as that of another file, of a generation.
fn written(layout: Option<Layout>, file: Fid, generation: u32) -> Vec<u8> {
    let of_file = |mut layout: LovMd| {
        layout.header = LovHeader { object: file.oid.into(), seq: file.seq, ..layout.header };
        layout
    };
    match layout {
        Some(Layout::File(layout)) => {
            let mut layout = of_file(layout);
            layout.header.generation = generation as u16;
            layout.to_bytes()
        }
        Some(Layout::Composite(layout)) => {
            let part =
                |component: &Component| Some((*component, of_file(layout.layout(component).ok()?)));
            let parts = layout.components.iter().filter_map(part).collect();
            let mut header = layout.header;
            header.generation = generation;
            CompositeMd::new(header, parts).to_bytes()
        }
        _ => vec![],
    }
}
