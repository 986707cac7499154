//! The page of mdt-ost §26.5, and pages of many entries.

use fulmar_wire::testing::hex;

use super::*;
use crate::testing::{check_any, check_example};
use crate::{Content, List};

/// The first entries, of which the second is made the last.
const HEAD: &str = "00 00 00 00 00 00 00 00 66 c8 68 e2 ec 8f 44 32 00 00 00 00 00 00 00 00
    01 04 00 00 02 00 00 00 06 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 28 00 01 00 07 00 00 00 2e 00 00 40 00 00 00 00
    07 00 00 00 02 00 00 00 01 00 00 00 00 00 00 00
    00 00 00 00 01 00 00 00 00 00 02 00 07 00 00 00 2e 2e 00 40 00 00 00 00";

fn page(text: &str) -> Vec<u8> {
    let mut bytes = hex(text);
    bytes.resize(DirectoryPage::LEN, 0x77);
    bytes
}

#[test]
fn the_type_of_a_file_follows_its_name() {
    let page: DirectoryPage = check_example(&page(HEAD));
    assert_eq!((page.hash_start, page.hash_end), (0, 0x3244_8fec_e268_c866));
    let [itself, parent] = page.entries.as_slice() else { panic!("{page:?}") };
    assert_eq!((itself.name.as_slice(), itself.file_type()), (b".".as_slice(), Some(0o040_000)));
    assert_eq!((parent.name.as_slice(), parent.file_type()), (b"..".as_slice(), Some(0o040_000)));
    assert_eq!((parent.fid, parent.hash), (Fid::ROOT, 1 << 32));
    assert_eq!(page.rest.0.len(), 4096 - 24 - 80);
    let again = DirectoryEntry::new(Fid::ROOT, 1 << 32, b"..", 0o040_000);
    assert_eq!(*parent, again);
}

#[test]
fn an_empty_directory_has_one_page_without_entries() {
    let (empty, 0) = DirectoryPage::fill(0, &[]) else { panic!() };
    assert_eq!((empty.flags, empty.hash_end), (PageFlags::EMPTY, DirectoryPage::END));
    assert_eq!(check_example::<DirectoryPage>(&empty.to_bytes()), empty);
}

#[test]
fn a_large_directory_has_many_pages() {
    let name = |index: u64| vec![b'x'; 1 + index as usize % 255];
    let entry = |index: u64| {
        let hash = index / 2;
        DirectoryEntry::new(
            Fid { seq: 1, oid: index as u32, version: 0 },
            hash,
            &name(index),
            0o100_000,
        )
    };
    let entries: Vec<_> = (0..300).map(entry).collect();
    let (mut rest, mut pages, mut hash) = (entries.as_slice(), Vec::new(), 0);
    while !rest.is_empty() {
        let (page, count) = DirectoryPage::fill(hash, rest);
        assert_eq!(
            page.flags.has(PageFlags::COLLIDE),
            page.entries.last().unwrap().hash == page.hash_end
        );
        (rest, hash) = (&rest[count..], page.hash_end);
        pages.push(page);
    }
    assert_eq!(hash, DirectoryPage::END);
    let bytes = List(pages).to_bytes();
    assert!(bytes.len().is_multiple_of(4096) && bytes.len() > 4096);
    let List(again) = List::<DirectoryPage>::decode(&bytes, Order::Big).unwrap();
    assert_eq!(again.into_iter().flat_map(|page| page.entries).collect::<Vec<_>>(), entries);
}

#[test]
fn an_entry_that_is_shorter_than_its_name_is_an_error() {
    let decode = |at: usize, byte| {
        let mut bytes = page(HEAD);
        bytes[at] = byte;
        DirectoryPage::decode(&bytes, Order::Little).map(|page| page.entries.len())
    };
    assert_eq!(decode(48, 32), Err(DecodeError::Range { field: "DirectoryEntry.len", got: 32 }));
    assert!(decode(51, 0x20).is_err());
    assert_eq!(decode(16, 1), Ok(0));
    check_any::<DirectoryPage>(&[]);
}
