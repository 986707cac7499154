//! Directories as clients read them, and the paths of files.

use std::collections::BTreeSet;

use fulmar_base::Errno;
use fulmar_lustre_wire::directory::{DirectoryPage, PageFlags};
use fulmar_lustre_wire::format::{FID2PATH, FID2PATH_KEY, MDS_FID2PATH, MDT_BODY, VALUE_LEN};
use fulmar_lustre_wire::mdt::{Fid2Path, Fid2PathKey, MdtBody, OpenFlags, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Text};
use fulmar_mdt::mode;

use crate::requests::{
    ROOT, USER, body, chmod, create, fid, link, readpage, rename, rmdir, unlink,
};
use crate::rig::Rig;

const TOP: Fid = Fid::ROOT;
/// The entries of a large directory.
const MANY: u32 = 50_000;

impl Rig {
    fn fill(&mut self, directory: Fid, count: u32) {
        for number in 0..count {
            let (new, name) = (self.next_fid(), format!("file-{number}"));
            self.must(&create(&ROOT, (directory, &name), new, mode::FIFO | 0o600));
        }
    }
}

#[test]
fn a_large_directory_is_read_by_pages_in_order() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    rig.fill(directory, MANY);
    let entries = rig.list(directory, 0);
    assert_eq!(entries.len(), MANY as usize + 2);
    assert!(entries.is_sorted_by_key(|entry| entry.hash));
    assert!(entries.iter().all(|entry| entry.hash < DirectoryPage::END));
    let names: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names.len(), entries.len(), "each once");
    let own = |name: &[u8]| entries.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!((own(b".").fid, own(b"..").fid), (directory, TOP));
    assert_eq!(own(b"..").file_type(), Some(mode::DIRECTORY as u16));
    assert_eq!(own(b"file-0").file_type(), Some(mode::FIFO as u16));
    // From any entry on, the same ones follow.
    for from in [1, 2, 3, 100, 25_000, entries.len() - 1] {
        let rest = rig.pages(directory, entries[from].hash, 1 << 16).unwrap();
        let rest: Vec<_> = rest.into_iter().flat_map(|page| page.entries).collect();
        assert!(!rest.is_empty());
        assert_eq!(rest[..], entries[from..from + rest.len()]);
        let between = rig.pages(directory, entries[from].hash - 1, 4096).unwrap();
        let first = &between[0].entries[0];
        assert_eq!(
            first.name,
            entries[from - usize::from(entries[from - 1].hash == entries[from].hash - 1)].name
        );
    }
}

#[test]
fn a_directory_is_read_by_who_may_read_it_and_by_clients_that_have_opened_it() {
    let mut rig = Rig::new();
    rig.connect(2);
    let directory = rig.mkdir((TOP, "private"));
    rig.must(&chmod(&ROOT, directory, 0o711));
    let asked = MdtBody { nlink: 4096, ..body(&USER, directory, Valid::NONE) };
    let request = readpage(directory, 0, 4096).with(&MDT_BODY, &asked);
    assert_eq!(rig.fails(&request), Errno::EACCES);
    rig.must(&readpage(directory, 0, 4096));
    let handle = rig.open_by(2, (TOP, "private"), OpenFlags::READ | OpenFlags::DIRECTORY);
    rig.ask(2, &request).unwrap();
    assert_eq!(rig.fails(&request), Errno::EACCES, "another client has opened it");
    rig.close(2, directory, handle);
    assert_eq!(rig.ask(2, &request).unwrap_err(), Errno::EACCES);
}

#[test]
fn reading_goes_on_while_entries_come_and_go() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    rig.fill(directory, 1000);
    let first = rig.pages(directory, 0, 4096).unwrap();
    assert_eq!(first.len(), 1, "no more than is wanted");
    let end = first[0].hash_end;
    let mut seen: BTreeSet<Vec<u8>> =
        first[0].entries.iter().map(|entry| entry.name.clone()).collect();
    let gone: Vec<String> = (0..500).map(|number| format!("file-{number}")).collect();
    gone.iter().for_each(|name| drop(rig.must(&unlink(&ROOT, (directory, name)))));
    seen.extend(rig.list(directory, end).into_iter().map(|entry| entry.name));
    assert!((500..1000).all(|number| seen.contains(format!("file-{number}").as_bytes())));
}

#[test]
fn requests_for_pages_fail_as_in_a_kernel() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "file"));
    assert_eq!(rig.pages(file, 0, 4096), Err(Errno::ENOTDIR));
    assert_eq!(rig.pages(fid(99), 0, 4096), Err(Errno::ENOENT));
    let pages = rig.pages(TOP, DirectoryPage::END, 4096).unwrap();
    assert!(pages[0].entries.is_empty());
}

#[test]
fn a_removed_directory_has_no_entries() {
    let mut rig = Rig::new();
    let directory = rig.mkdir((TOP, "d"));
    let handle = rig.open((TOP, "d"), OpenFlags::READ | OpenFlags::DIRECTORY);
    rig.must(&rmdir(&ROOT, (TOP, "d")));
    let pages = rig.pages(directory, 0, 4096).unwrap();
    assert!(pages[0].entries.is_empty() && pages[0].flags.has(PageFlags::EMPTY));
    assert_eq!(pages[0].hash_end, DirectoryPage::END);
    let new = rig.next_fid();
    let made = create(&ROOT, (directory, "new"), new, mode::REGULAR);
    assert_eq!(rig.fails(&made), Errno::ENOENT);
    rig.close(1, directory, handle);
    assert_eq!(rig.pages(directory, 0, 4096), Err(Errno::ENOENT));
    rig.mdt.check().unwrap();
}

fn path(rig: &mut Rig, file: Fid, link: u32, root: Option<Fid>) -> Result<(String, u32), Errno> {
    let question = Fid2Path { fid: file, record: u64::MAX, link, path_len: 4096 };
    let key = Fid2PathKey { name: Text::new("fid2path").unwrap(), question, root };
    let request =
        Message::request(&MDS_FID2PATH).with(&FID2PATH_KEY, &key).with(&VALUE_LEN, &(32 + 4096));
    let found = rig.ask(1, &request)?.message.require(&FID2PATH).unwrap();
    assert_eq!(found.answer.fid, root.unwrap_or(TOP), "where the path begins");
    Ok((String::from_utf8(found.path().to_vec()).unwrap(), found.answer.link))
}

#[test]
fn files_have_paths() {
    let mut rig = Rig::new();
    let outer = rig.mkdir((TOP, "outer"));
    let inner = rig.mkdir((outer, "inner"));
    let file = rig.touch(&ROOT, (inner, "file"));
    let of = |path: &str, link| Ok((path.to_owned(), link));
    assert_eq!(path(&mut rig, file, 0, None), of("outer/inner/file", 0));
    rig.must(&link(&ROOT, file, (TOP, "other")));
    assert_eq!(path(&mut rig, file, 0, None), of("outer/inner/file", 1));
    assert_eq!(path(&mut rig, file, 1, None), of("other", 1));
    rig.must(&rename(&ROOT, (TOP, "outer"), (TOP, "new")));
    assert_eq!(path(&mut rig, inner, 0, None), of("new/inner", 0));
    assert_eq!(path(&mut rig, file, 0, Some(outer)), of("inner/file", 1));
    assert_eq!(path(&mut rig, file, 1, Some(outer)), Err(Errno::ENOENT), "outside of it");
    assert_eq!(path(&mut rig, TOP, 0, None), of("", 0));
    assert_eq!(path(&mut rig, fid(99), 0, None), Err(Errno::ENOENT));
}
