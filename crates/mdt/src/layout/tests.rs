use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fulmar_lustre_wire::Bytes;
use fulmar_lustre_wire::Text;
use fulmar_lustre_wire::layout::{
    Component, ComponentFlags, CompositeHeader, CompositeMd, LayoutMagic, LovHeader,
};
use fulmar_store::Transaction;
use fulmar_wire::{Field, Writer};

use super::spec::{ANY, STRIPE_SIZE};
use super::*;
use crate::objects::Owner;

const FILE: Fid = Fid { seq: 0x2_0000_0401, oid: 9, version: 0 };
const MIB: u64 = 1 << 20;

/// The rules of an MDT without a limit of its own.
fn rules(objects: &Taker) -> Rules<'_> {
    Rules { objects, on_mdt_max: MIB }
}

/// Gives objects of four OSTs in turn, one number after the other.
#[derive(Default)]
struct Taker {
    taken: Mutex<u32>,
    plans: Mutex<Vec<Plan>>,
    given_back: Mutex<Vec<Object>>,
    /// The fourth one is gone.
    lacks_last: AtomicBool,
}

impl Objects for Taker {
    fn take(&self, plan: &Plan) -> Result<Vec<Object>, Errno> {
        self.plans.lock().unwrap().push(plan.clone());
        if plan.first.is_some_and(|first| !self.exists(first)) {
            return Err(Errno::EINVAL);
        }
        if plan.pool.is_some() && plan.pool == Text::new("late") {
            return Err(Errno::EAGAIN);
        }
        let count = if plan.is_overstriped { plan.stripe_count } else { plan.stripe_count.min(4) };
        let start = plan.first.unwrap_or(0) as usize;
        let all: Vec<u32> = if plan.osts.is_empty() {
            (0..4).cycle().skip(start).take(count.into()).collect()
        } else {
            plan.osts.clone()
        };
        let mut taken = self.taken.lock().unwrap();
        let object = |ost| {
            *taken += 1;
            (ost, Fid { seq: 0x2_4000_0400, oid: *taken, version: 0 })
        };
        Ok(all.into_iter().take(plan.stripes_max.into()).map(object).collect())
    }

    fn give_back(&self, objects: &[Object]) {
        self.given_back.lock().unwrap().extend(objects);
    }

    fn exists(&self, ost: u32) -> bool {
        ost < if self.lacks_last.load(Ordering::Relaxed) { 3 } else { 4 }
    }

    fn used(&self, _: &mut Transaction<'_>, _: &[Object]) {}

    fn destroy(&self, _: &mut Transaction<'_>, _: &[Object]) {}

    fn set_owner(&self, _: &mut Transaction<'_>, _: &[Object], _: Owner) {}
}

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

fn in_pool(layout: LovMd, pool: &str) -> LovMd {
    let header = LovHeader { magic: LayoutMagic::LOV_V3, ..layout.header };
    LovMd { header, pool: Text::new(pool), ..layout }
}

fn on_osts(stripe_count: u16, first: u16, osts: &[u32]) -> LovMd {
    let mut layout = in_pool(wanted(0, stripe_count, first), "");
    layout.header.magic = LayoutMagic::LOV_SPECIFIC;
    for &ost in osts {
        let place = LovObject { ost, ..LovObject::default() };
        place.write(&mut Writer::new(&mut layout.rest.0, Order::Little));
    }
    layout
}

fn part(start: u64, end: u64, layout: LovMd) -> (Component, LovMd) {
    (Component { start, end, ..Component::default() }, layout)
}

fn composite_of(parts: Vec<(Component, LovMd)>) -> CompositeMd {
    let header = CompositeHeader::new(0);
    CompositeMd::new(header, parts)
}

fn composite(parts: Vec<(Component, LovMd)>) -> Vec<u8> {
    composite_of(parts).to_bytes()
}

/// The usual example: one stripe, then two, then all.
fn growing() -> Vec<u8> {
    composite(vec![
        part(0, MIB, wanted(0, 1, ANY)),
        part(MIB, 64 * MIB, wanted(0, 2, ANY)),
        part(64 * MIB, NO_END, wanted(0, 0xffff, ANY)),
    ])
}

fn kept_default(wanted: &[u8], before: &[u8]) -> Result<Vec<u8>, Errno> {
    default_layout(wanted, before, rules(&Taker::default()))
}

fn plan(wanted: &[u8], defaults: [&[u8]; 2]) -> Plan {
    match Design::new(wanted, defaults, rules(&Taker::default())) {
        Ok(Design::Plain(plan)) => plan,
        other => panic!("{other:?}"),
    }
}

fn made(wanted: &[u8], defaults: [&[u8]; 2]) -> Result<Vec<u8>, Errno> {
    let taker = Taker::default();
    new_layout((FILE, 0), wanted, defaults, rules(&taker))
}

fn decoded(layout: &[u8]) -> CompositeMd {
    CompositeMd::decode(layout, Order::Little).unwrap()
}

/// The number, the flags and the extent of a component, and the size and the count of its stripes.
type ComponentRow = (u32, u32, [u64; 2], (u32, u16));

/// Returns the components of a layout.
fn shown(layout: &[u8]) -> Vec<ComponentRow> {
    let layout = decoded(layout);
    let show = |component: &Component| {
        let Component { id, flags, start, end, .. } = *component;
        let header = layout.layout(component).unwrap().header;
        (id, flags.0, [start, end], (header.stripe_size, header.stripe_count))
    };
    layout.components.iter().map(show).collect()
}

#[test]
fn what_a_default_does_not_say_is_that_of_the_file_system() {
    let of_directory = wanted(0, 4, ANY).to_bytes();
    let of_root = wanted(1 << 20, 2, 3).to_bytes();
    let found = plan(b"", [&of_directory, &of_root]);
    assert_eq!((found.stripe_size, found.stripe_count, found.first), (1 << 20, 4, Some(3)));
    let found = plan(b"", [b"", b""]);
    assert_eq!((found.stripe_size, found.stripe_count, found.first), (STRIPE_SIZE, 1, None));
    // Who wants a layout gets only the pool of a default.
    let in_flash = in_pool(wanted(1 << 20, 2, ANY), "flash").to_bytes();
    let found = plan(&wanted(0, 3, ANY).to_bytes(), [b"", &in_flash]);
    assert_eq!((found.stripe_size, found.stripe_count), (STRIPE_SIZE, 3));
    assert_eq!(found.pool, Text::new("flash"));
    let found = plan(&in_pool(wanted(0, 3, ANY), "ignore").to_bytes(), [b"", &in_flash]);
    assert_eq!(found.pool, None);
    let found = plan(&in_pool(wanted(0, 3, ANY), "disk").to_bytes(), [b"", &in_flash]);
    assert_eq!(found.pool, Text::new("disk"));
    for wrong in [wanted(1000, 1, ANY), wanted(0, 2001, ANY)] {
        assert_eq!(made(&wrong.to_bytes(), [b"", b""]), Err(Errno::EINVAL));
    }
    assert_eq!(made(b"what", [b"", b""]), Err(Errno::EINVAL));
}

#[test]
fn a_layout_names_its_objects() {
    let layout = made(&wanted(0, 2, 1).to_bytes(), [b"", b""]).unwrap();
    assert_eq!(objects_of(&layout).iter().map(|(ost, _)| *ost).collect::<Vec<_>>(), [1, 2]);
    let mut with_room = layout.clone();
    with_room.extend([0; 72]);
    assert_eq!(repeated(FILE, &with_room, b""), Ok(layout.clone()));
    let Ok(Layout::File(mut again)) = Layout::decode(&layout, Order::Little) else { panic!() };
    again.header.generation = ANY;
    assert_eq!(repeated(FILE, &again.to_bytes(), b""), Ok(layout));
    assert_eq!(repeated(FILE, &wanted(0, 1, 0).to_bytes(), b""), Err(Errno::EINVAL));
    assert_eq!(objects_of(b"nothing"), []);
}

#[test]
fn certain_osts_are_wanted_as_a_list_without_objects() {
    let osts = |layout: LovMd| {
        let layout = made(&layout.to_bytes(), [b"", b""])?;
        Ok(objects_of(&layout).iter().map(|(ost, _)| *ost).collect::<Vec<_>>())
    };
    assert_eq!(osts(on_osts(2, ANY, &[3, 0])), Ok(vec![3, 0]));
    assert_eq!(osts(on_osts(3, 2, &[1, 2, 3])), Ok(vec![2, 3, 1]));
    for wrong in [on_osts(2, ANY, &[1, 1]), on_osts(2, 0, &[1, 2]), on_osts(3, ANY, &[1, 2])] {
        assert_eq!(osts(wrong), Err(Errno::EINVAL));
    }
    // As the default of a directory the list stays.
    let kept = kept_default(&on_osts(2, ANY, &[3, 0]).to_bytes(), b"").unwrap();
    assert_eq!(plan(b"", [&kept, b""]).osts, [3, 0]);
}

#[test]
fn an_ost_may_have_several_stripes() {
    let mut layout = wanted(0, 6, ANY);
    layout.header.pattern = Pattern::RAID0 | Pattern::OVERSTRIPING;
    let found = made(&layout.to_bytes(), [b"", b""]).unwrap();
    assert_eq!(objects_of(&found).len(), 6);
    assert!(is_overstriped(&found));
    layout.header.stripe_count = 3;
    let found = made(&layout.to_bytes(), [b"", b""]).unwrap();
    assert!(!is_overstriped(&found), "each OST has one");
    layout.header.pattern = Pattern::RAID1;
    assert_eq!(made(&layout.to_bytes(), [b"", b""]), Err(Errno::EINVAL));
}

#[test]
fn a_default_that_says_nothing_is_none() {
    assert_eq!(kept_default(&wanted(0, 0, ANY).to_bytes(), b""), Ok(vec![]));
    let kept = kept_default(&wanted(1 << 20, 2, ANY).to_bytes(), b"").unwrap();
    let found = plan(b"", [&kept, b""]);
    assert_eq!((found.stripe_size, found.stripe_count), (1 << 20, 2));
    // The pool stays until another one is named, or all goes.
    let in_flash = kept_default(&in_pool(wanted(0, 1, ANY), "flash").to_bytes(), b"").unwrap();
    let more = kept_default(&wanted(0, 3, ANY).to_bytes(), &in_flash).unwrap();
    let found = plan(b"", [&more, b""]);
    assert_eq!((found.stripe_count, found.pool), (3, Text::new("flash")));
    let parts = kept_default(&growing(), &in_flash).unwrap();
    let Ok(Design::Composite(found)) = Design::new(b"", [&parts, b""], rules(&Taker::default()))
    else {
        panic!()
    };
    let found = decoded(&found.encode(FILE));
    assert_eq!(found.layout(&found.components[2]).unwrap().pool, Text::new("flash"));
    assert_eq!(kept_default(&wanted(0, 0, ANY).to_bytes(), &in_flash), Ok(vec![]));
}

#[test]
fn the_first_component_has_objects_from_the_start() {
    let layout = made(&growing(), [b"", b""]).unwrap();
    let init = ComponentFlags::INIT.0;
    let expected = [
        (1, init, [0, MIB], (1 << 20, 1)),
        (2, 0, [MIB, 64 * MIB], (STRIPE_SIZE, 2)),
        (3, 0, [64 * MIB, NO_END], (STRIPE_SIZE, 0xffff)),
    ];
    assert_eq!(shown(&layout), expected);
    assert_eq!(decoded(&layout).header.generation, 3);
    assert_eq!(objects_of(&layout).len(), 1);
    // A place for one object that is not there. Spec: mdt-ost §11.1.
    assert_eq!(decoded(&layout).components[2].size, 56);
    assert_eq!(layout.len(), 32 + 3 * (48 + 56));
}

#[test]
fn components_come_from_the_defaults_too() {
    let directory = kept_default(&growing(), b"").unwrap();
    let plain = wanted(0, 4, ANY).to_bytes();
    assert_eq!(shown(&made(b"", [&directory, &plain]).unwrap()).len(), 3);
    assert_eq!(shown(&made(b"", [b"", &directory]).unwrap()).len(), 3);
    // A plain default is not filled with components.
    assert_eq!(plan(b"", [&plain, &directory]).stripe_count, 4);
}

#[test]
fn a_file_that_is_cut_before_it_has_a_layout_has_objects_up_to_its_size() {
    let taker = Taker::default();
    let layout = new_layout((FILE, 2 * MIB), &growing(), [b"", b""], rules(&taker)).unwrap();
    assert_eq!(objects_of(&layout).len(), 3);
}

#[test]
fn a_write_gives_objects_to_all_components_before_its_end() {
    let taker = Taker::default();
    let new = new_layout((FILE, 0), &growing(), [b"", b""], rules(&taker)).unwrap();
    assert_eq!(instantiated(FILE, &new, MIB, &taker), Ok(None));
    let second = instantiated(FILE, &new, MIB + 1, &taker).unwrap().unwrap();
    assert_eq!(decoded(&second).header.generation, 4);
    assert_eq!((objects_of(&second).len(), shown(&second)[1].1), (3, ComponentFlags::INIT.0));
    let third = instantiated(FILE, &second, NO_END, &taker).unwrap().unwrap();
    assert_eq!(objects_of(&third)[..3], objects_of(&second));
    assert_eq!((objects_of(&third).len(), shown(&third)[2].3), (7, (STRIPE_SIZE, 4)));
    assert_eq!(decoded(&third).header.generation, 5);
    assert_eq!(instantiated(FILE, &third, NO_END, &taker), Ok(None));
    // A client repeats it, with the objects of before.
    assert_eq!(repeated(FILE, &third, &second), Ok(third.clone()));
    assert_eq!(repeated(FILE, &second, &third), Err(Errno::EINVAL));
    assert_eq!(instantiated(FILE, &wanted(0, 1, 0).to_bytes(), 1, &taker), Err(Errno::EINVAL));
}

#[test]
fn a_write_behind_the_last_component_is_an_error() {
    let taker = Taker::default();
    let short =
        composite(vec![part(0, MIB, wanted(0, 1, ANY)), part(MIB, 64 * MIB, wanted(0, 2, ANY))]);
    let new = new_layout((FILE, 0), &short, [b"", b""], rules(&taker)).unwrap();
    assert_eq!(instantiated(FILE, &new, 65 * MIB, &taker), Err(Errno::EINVAL));
    assert!(instantiated(FILE, &new, 64 * MIB, &taker).unwrap().is_some());
}

#[test]
fn what_was_wanted_of_a_component_is_kept_until_it_has_objects() {
    let taker = Taker::default();
    let wanted = composite(vec![
        part(0, MIB, wanted(0, 1, 2)),
        part(MIB, 64 * MIB, in_pool(wanted(1 << 20, 2, 1), "flash")),
        part(64 * MIB, 128 * MIB, on_osts(2, 2, &[0, 2])),
        part(128 * MIB, NO_END, wanted(0, 1, 3)),
    ]);
    let new = new_layout((FILE, 0), &wanted, [b"", b""], rules(&taker)).unwrap();
    assert_eq!(decoded(&new).components[2].size, 32 + 2 * 24);
    taker.lacks_last.store(true, Ordering::Relaxed);
    instantiated(FILE, &new, NO_END, &taker).unwrap().unwrap();
    let plans = taker.plans.lock().unwrap();
    let [first, second, third, fourth, again] = &plans[..] else { panic!("{plans:?}") };
    assert_eq!((first.first, second.first), (Some(2), Some(1)));
    assert_eq!((second.stripe_size, second.pool), (1 << 20, Text::new("flash")));
    assert_eq!(third.osts, [2, 0]);
    // An OST that is gone is replaced.
    assert_eq!((fourth.first, again.first), (Some(3), None));
}

#[test]
fn objects_are_given_back_if_others_are_late() {
    let taker = Taker::default();
    let wanted = composite(vec![
        part(0, MIB, wanted(0, 1, ANY)),
        part(MIB, 64 * MIB, wanted(0, 2, ANY)),
        part(64 * MIB, NO_END, in_pool(wanted(0, 1, ANY), "late")),
    ]);
    let new = new_layout((FILE, 0), &wanted, [b"", b""], rules(&taker)).unwrap();
    assert_eq!(instantiated(FILE, &new, NO_END, &taker), Err(Errno::EAGAIN));
    let given_back = taker.given_back.lock().unwrap();
    assert_eq!(given_back.iter().map(|(_, object)| object.oid).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn an_ost_that_does_not_exist_is_not_wanted() {
    let far = wanted(0, 1, 4).to_bytes();
    let composite =
        composite(vec![part(0, MIB, wanted(0, 1, ANY)), part(MIB, NO_END, wanted(0, 1, 4))]);
    for wrong in [far, composite] {
        assert_eq!(made(&wrong, [b"", b""]), Err(Errno::EINVAL));
        assert_eq!(kept_default(&wrong, b""), Err(Errno::EINVAL));
        // As a default from before it counts no more.
        assert_eq!(plan(b"", [&wrong, &wanted(0, 3, ANY).to_bytes()]).stripe_count, 3);
    }
}

#[test]
fn components_are_adjacent_and_aligned() {
    let plain = || wanted(0, 1, ANY);
    let all = [
        vec![],
        vec![part(MIB, NO_END, plain())],
        vec![part(0, MIB, plain()), part(2 * MIB, NO_END, plain())],
        vec![part(0, 2 * MIB, plain()), part(MIB, NO_END, plain())],
        vec![part(0, 1000, plain()), part(1000, NO_END, plain())],
        vec![part(0, MIB, wanted(2 << 20, 1, ANY)), part(MIB, NO_END, plain())],
        vec![part(0, 1 << 63, plain())],
        vec![part(0, NO_END, plain()), part(0, NO_END, plain())],
        vec![part(0, MIB, plain()), part(MIB, 0, plain())],
        vec![part(0, MIB, wanted(1000, 1, ANY))],
    ];
    for parts in all {
        assert_eq!(made(&composite(parts.clone()), [b"", b""]), Err(Errno::EINVAL), "{parts:?}");
        assert_eq!(kept_default(&composite(parts), b""), Err(Errno::EINVAL));
    }
    let mut mirrored = composite_of(vec![part(0, NO_END, plain())]);
    mirrored.header.more_mirrors = 1;
    assert_eq!(made(&mirrored.to_bytes(), [b"", b""]), Err(Errno::EINVAL));
    let mut extended = composite_of(vec![part(0, NO_END, plain())]);
    extended.components[0].flags = ComponentFlags::EXTENSION;
    assert_eq!(made(&extended.to_bytes(), [b"", b""]), Err(Errno::EOPNOTSUPP));
    extended.components[0].offset = 7;
    assert_eq!(made(&extended.to_bytes(), [b"", b""]), Err(Errno::EINVAL));
}

#[test]
fn a_component_has_no_more_stripes_than_it_can_use() {
    let small = composite(vec![
        part(0, MIB, wanted(1 << 19, 4, ANY)),
        part(MIB, NO_END, wanted(0, 4, ANY)),
    ]);
    assert_eq!(shown(&made(&small, [b"", b""]).unwrap())[0].3, (1 << 19, 2));
    // The size of stripes fits, if it is not said.
    let odd = composite(vec![
        part(0, 3 << 16, wanted(0, 1, ANY)),
        part(3 << 16, NO_END, wanted(0, 1, ANY)),
    ]);
    assert_eq!(shown(&made(&odd, [b"", b""]).unwrap())[0].3, (1 << 16, 1));
}

#[test]
fn a_layout_has_a_largest_size() {
    let mut many = wanted(0, 2000, ANY);
    many.header.pattern = Pattern::RAID0 | Pattern::OVERSTRIPING;
    let parts = [0, 1 << 40, 2 << 40].map(|start| part(start, start + (1 << 40), many.clone()));
    let taker = Taker::default();
    let new = new_layout((FILE, 0), &composite(parts.to_vec()), [b"", b""], rules(&taker)).unwrap();
    let full = instantiated(FILE, &new, 2 << 40, &taker).unwrap().unwrap();
    assert!(full.len() <= LAYOUT_LEN_MAX && full.len() > LAYOUT_LEN_MAX - 24);
    let last = instantiated(FILE, &full, 3 << 40, &taker).unwrap().unwrap();
    assert_eq!(shown(&last)[2].3.1, 1);
}

/// Returns a part of so many bytes on the MDT, and one behind it.
fn on_mdt_first(end: u64) -> Vec<u8> {
    composite(vec![part(0, end, wanted_on_mdt(end)), part(end, NO_END, wanted(0, 2, ANY))])
}

fn wanted_on_mdt(end: u64) -> LovMd {
    let mut on_mdt = wanted(end as u32, 0, ANY);
    on_mdt.header.pattern = Pattern::MDT;
    on_mdt
}

#[test]
fn the_first_component_is_on_the_mdt_up_to_a_limit() {
    let taker = Taker::default();
    let made = |wanted: &[u8], most| {
        let rules = Rules { objects: &taker, on_mdt_max: most };
        new_layout((FILE, 0), wanted, [b"", b""], rules)
    };
    let small = made(&on_mdt_first(MIB / 2), MIB).unwrap();
    let cut = made(&on_mdt_first(2 * MIB), MIB).unwrap();
    for (layout, end) in [(&small, MIB / 2), (&cut, MIB)] {
        let first = (1, ComponentFlags::INIT.0, [0, end], (end as u32, 0));
        assert_eq!(shown(layout), [first, (2, 0, [end, NO_END], (STRIPE_SIZE, 2))]);
        assert_eq!(on_mdt(layout), Some(OnMdt { end, is_all: true }));
        assert_eq!(repeated(FILE, layout, b""), Ok(layout.clone()));
    }
    assert!(taker.plans.lock().unwrap().is_empty(), "it has no objects yet");
    let both = instantiated(FILE, &cut, MIB + 1, &taker).unwrap().unwrap();
    assert_eq!(on_mdt(&both), Some(OnMdt { end: MIB, is_all: false }));
    assert_eq!((shown(&both)[1].1, objects_of(&both).len()), (ComponentFlags::INIT.0, 2));
    let without = made(&on_mdt_first(MIB), 0).unwrap();
    assert_eq!(shown(&without), [(1, ComponentFlags::INIT.0, [0, NO_END], (STRIPE_SIZE, 2))]);
    assert_eq!(on_mdt(&without), None);
}

#[test]
fn a_directory_keeps_what_is_to_be_on_the_mdt() {
    let kept = kept_default(&on_mdt_first(4 * MIB), b"").unwrap();
    assert_eq!(shown(&kept)[0].2, [0, MIB], "it is cut when it is set");
    let kept = decoded(&kept);
    let first = kept.layout(&kept.components[0]).unwrap();
    assert_eq!((first.header.pattern, first.objects.len()), (Pattern::MDT, 0));
    let layout = made(b"", [&kept.to_bytes(), b""]).unwrap();
    assert_eq!(on_mdt(&layout), Some(OnMdt { end: MIB, is_all: true }));
    let alone = composite(vec![part(0, MIB, wanted_on_mdt(MIB))]);
    assert_eq!(on_mdt(&made(&alone, [b"", b""]).unwrap()).unwrap().end, MIB);
    let none = Taker::default();
    let none = Rules { objects: &none, on_mdt_max: 0 };
    assert_eq!(default_layout(&alone, b"", none), Err(Errno::EFBIG));
    assert_eq!(new_layout((FILE, 0), &alone, [b"", b""], none), Err(Errno::EINVAL));
}

#[test]
fn what_cannot_be_on_the_mdt_is_refused() {
    let fails = |layout: Vec<u8>| assert_eq!(made(&layout, [b"", b""]), Err(Errno::EINVAL));
    fails(wanted_on_mdt(MIB).to_bytes());
    let second = part(MIB, 2 * MIB, wanted_on_mdt(2 * MIB));
    fails(composite(vec![part(0, MIB, wanted(0, 1, ANY)), second]));
    fails(composite(vec![part(0, MIB, wanted_on_mdt(MIB / 2))]));
    fails(composite(vec![part(0, MIB, in_pool(wanted_on_mdt(MIB), "flash"))]));
    let mut striped = wanted_on_mdt(MIB);
    striped.header.stripe_count = 2;
    fails(composite(vec![part(0, MIB, striped)]));
}

fn change(layout: &[u8], name: &[u8], asked: &[u8]) -> Result<LayoutChange, Errno> {
    changed(
        (FILE, layout),
        ComponentChange::of_name(name)?.unwrap(),
        asked,
        1000,
        rules(&Taker::default()),
    )
}

fn named(id: u32, flags: ComponentFlags) -> Vec<u8> {
    let component = Component { id, flags, ..Component::default() };
    composite(vec![(component, wanted(0, 0, ANY))])
}

#[test]
fn components_are_added_behind_the_last_one() {
    let first = made(&composite(vec![part(0, MIB, wanted(0, 1, ANY))]), [b"", b""]).unwrap();
    let more = composite(vec![
        part(MIB, 64 * MIB, wanted(0, 2, ANY)),
        part(64 * MIB, NO_END, wanted(0, 4, ANY)),
    ]);
    let LayoutChange { layout, gone } = change(&first, b"lustre.lov.add", &more).unwrap();
    assert_eq!((decoded(&layout).header.generation, gone), (3, vec![]));
    assert_eq!(shown(&layout)[2], (3, 0, [64 * MIB, NO_END], (STRIPE_SIZE, 4)));
    assert_eq!(objects_of(&layout), objects_of(&first));
    assert_eq!(change(&layout, b"lustre.lov.add", &more), Err(Errno::EINVAL));
    assert_eq!(change(&first, b"lustre.lov.add", &growing()), Err(Errno::EINVAL));
    let plain = made(b"", [b"", b""]).unwrap();
    assert_eq!(change(&plain, b"lustre.lov.add", &more), Err(Errno::EINVAL));
    assert_eq!(change(&first, b"lustre.lov.add", b"what"), Err(Errno::EINVAL));
}

#[test]
fn components_are_removed_from_the_end() {
    let layout = made(&growing(), [b"", b""]).unwrap();
    let none = ComponentFlags::NONE;
    let LayoutChange { layout: shorter, gone } =
        change(&layout, b"lustre.lov.del", &named(3, none)).unwrap();
    assert_eq!((shown(&shorter).len(), decoded(&shorter).header.generation, gone), (2, 4, vec![]));
    let not_init = named(0, ComponentFlags::NEG | ComponentFlags::INIT);
    let LayoutChange { layout: shorter, .. } =
        change(&layout, b"lustre.lov.del", &not_init).unwrap();
    assert_eq!(shown(&shorter).len(), 1);
    let LayoutChange { layout: empty, gone } =
        change(&shorter, b"lustre.lov.del", &named(1, none)).unwrap();
    assert_eq!((empty, gone), (vec![], objects_of(&layout)));
    let init = ComponentFlags::INIT;
    for wrong in [named(2, none), named(7, none), named(0, none), named(3, init), named(0, init)] {
        assert_eq!(change(&layout, b"lustre.lov.del", &wrong), Err(Errno::EINVAL));
    }
    assert_eq!(change(&layout, b"lustre.lov.del", &composite(vec![])), Err(Errno::EINVAL));
    // The number of a component is not used again.
    let more = composite(vec![part(64 * MIB, NO_END, wanted(0, 4, ANY))]);
    let LayoutChange { layout, .. } = change(&layout, b"lustre.lov.del", &named(3, none)).unwrap();
    let LayoutChange { layout, .. } = change(&layout, b"lustre.lov.add", &more).unwrap();
    assert_eq!(shown(&layout)[2].0, 5);
}

#[test]
fn components_are_marked() {
    let layout = made(&growing(), [b"", b""]).unwrap();
    let flags = ComponentFlags::PREF_RD;
    let marked = change(&layout, b"lustre.lov.set.flags", &named(2, flags)).unwrap().layout;
    assert_eq!((shown(&marked)[1].1, shown(&marked)[2].1), (flags.0, 0));
    assert_eq!(decoded(&marked).header.generation, 4);
    let cleared = named(2, flags | ComponentFlags::NEG);
    let cleared = change(&marked, b"lustre.lov.set.flags", &cleared).unwrap().layout;
    assert_eq!(shown(&cleared), shown(&layout));
    let frozen =
        change(&layout, b"lustre.lov.set.flags", &named(2, ComponentFlags::NOSYNC)).unwrap();
    assert_eq!(decoded(&frozen.layout).components[0].time_and_id, 1000);
    for (wrong, errno) in [
        (named(9, flags), Errno::EINVAL),
        (named(1, ComponentFlags::INIT), Errno::EINVAL),
        (named(1, ComponentFlags::EXTENSION), Errno::EINVAL),
        (named(1, ComponentFlags::STALE), Errno(117)),
    ] {
        assert_eq!(change(&layout, b"lustre.lov.set.flags", &wrong), Err(errno));
    }
    assert_eq!(change(&layout, b"lustre.lov.set", &named(2, flags)), Err(Errno::ENOTSUPP));
    assert_eq!(ComponentChange::of_name(b"lustre.lov.what"), Err(Errno::EINVAL));
    assert_eq!(ComponentChange::of_name(b"lustre.lov"), Ok(None));
}

#[test]
fn no_bytes_of_a_client_do_harm() {
    let taker = Taker::default();
    let made = made(&growing(), [b"", b""]).unwrap();
    let specific = composite(vec![part(0, NO_END, on_osts(2, 1, &[0, 1]))]);
    for good in [growing(), made.clone(), specific, on_osts(2, ANY, &[0, 1]).to_bytes()] {
        for (at, byte) in (0..good.len()).flat_map(|at| [0, 1, 0x7f, 0xff].map(|byte| (at, byte))) {
            let mut bytes = good.clone();
            bytes[at] = byte;
            for bytes in [&bytes[..], &bytes[..at]] {
                let _ = new_layout((FILE, u64::MAX), bytes, [bytes, bytes], rules(&taker));
                let _ = default_layout(bytes, bytes, rules(&taker));
                let _ = instantiated(FILE, bytes, u64::MAX, &taker);
                let _ = repeated(FILE, bytes, &made);
                for name in [&b"lustre.lov.add"[..], b"lustre.lov.del", b"lustre.lov.set.flags"] {
                    let _ = change(&made, name, bytes);
                    let _ = change(bytes, name, &growing());
                }
            }
        }
    }
}
