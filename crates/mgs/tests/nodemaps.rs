//! Nodemaps that are kept, and read by servers.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{CONFIG_BODY, CONFIG_READ, CONFIG_RESULT};
use fulmar_lustre_wire::index::IndexPage;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::mgs::{ConfigRead, ConfigReadKind, ConfigReadReply, NodemapEntry};
use fulmar_lustre_wire::{Content, List, Text};
use fulmar_mgs::{ConfigurationChange, Mgs};
use fulmar_nodemap::{Change, IdKind, Nodemaps};
use fulmar_wire::Order;

fn read(
    mgs: &Mgs,
    offset: u64,
    (units, unit_bits): (u32, u8),
) -> (ConfigReadReply, Vec<IndexPage>) {
    let asked = ConfigRead {
        name: Text::new("nodemap").unwrap(),
        kind: ConfigReadKind::NODEMAP,
        offset,
        unit_bits,
        units,
        ..ConfigRead::default()
    };
    let request = Message::request(&CONFIG_READ).with(&CONFIG_BODY, &asked);
    let (reply, data) = mgs.read_config(&request).unwrap();
    let List(pages) = List::<IndexPage>::decode(&data, Order::Little).unwrap();
    (reply.require(&CONFIG_RESULT).unwrap(), pages)
}

fn entries(pages: &[IndexPage]) -> Vec<NodemapEntry> {
    pages.iter().flat_map(|page| page.entries(Order::Little).unwrap()).collect()
}

const END: u64 = 0xffff_ffff_ffff_fffe;

#[test]
fn nodemaps_are_kept() {
    let mut mgs = Mgs::default();
    let mut stored = std::collections::BTreeMap::new();
    let mut keep = |mgs: &mut Mgs| {
        for (key, value) in mgs.take_changes() {
            match value {
                Some(value) => drop(stored.insert(key, value)),
                None => drop(stored.remove(&key)),
            }
        }
        Mgs::load(stored.clone()).unwrap()
    };
    assert_eq!(mgs.change_nodemap("east", &Change::Add), Ok(vec![ConfigurationChange::Nodemaps]));
    mgs.change_nodemap("west", &Change::Add).unwrap();
    let nids = Change::nids("10.0.0.[1-9]@tcp").unwrap();
    mgs.change_nodemap("east", &Change::AddNids(nids)).unwrap();
    mgs.change_nodemap("east", &Change::AddIds(IdKind::User, 1, 2, 3)).unwrap();
    assert_eq!(mgs.activate_nodemaps(true), [ConfigurationChange::Nodemaps]);
    assert_eq!(keep(&mut mgs).nodemaps().entries(), mgs.nodemaps().entries());
    mgs.change_nodemap("east", &Change::RemoveIds(IdKind::User, 1, 2, 3)).unwrap();
    mgs.change_nodemap("west", &Change::Remove).unwrap();
    assert_eq!(keep(&mut mgs).nodemaps().entries(), mgs.nodemaps().entries());
    assert_eq!(mgs.change_nodemap("west", &Change::Remove), Err(Errno::ENOENT));
}

#[test]
fn servers_read_the_index_in_pages() {
    let mut mgs = Mgs::default();
    mgs.change_nodemap("east", &Change::Add).unwrap();
    mgs.change_nodemap("east", &Change::AddIds(IdKind::User, 1000, 2000, 400)).unwrap();
    let (reply, pages) = read(&mgs, 0, (256, 12));
    assert_eq!((reply.offset, reply.size), (END, 1));
    assert_eq!(entries(&pages), mgs.nodemaps().entries());
    // A reader with room for two pages, and one whose pages have 64 KiB.
    let (mut at, mut all, mut reads) = (0, vec![], 0);
    while at != END {
        let (reply, pages) = read(&mgs, at, (2, 12));
        assert!(pages.len() <= 2);
        all.extend(entries(&pages));
        (at, reads) = (reply.offset, reads + 1);
    }
    assert_eq!((reads, &all), (2, &mgs.nodemaps().entries()));
    assert_eq!(Nodemaps::of(&all).unwrap().entries(), all);
    let (_, large) = read(&mgs, 0, (1, 16));
    assert_eq!((large.len(), entries(&large)), (16, all));
    // What changes meanwhile sends the reader back.
    let (reply, _) = read(&mgs, 0, (1, 12));
    mgs.activate_nodemaps(true);
    assert_eq!(read(&mgs, reply.offset, (1, 12)), (ConfigReadReply::default(), vec![]));
    assert_eq!(read(&mgs, 7, (1, 12)), (ConfigReadReply::default(), vec![]));
}
