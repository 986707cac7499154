//! Checks of a file system through two mounts of it on this machine: what programs expect of names, data and locks,
//! and that each mount sees at once what the other has done.

mod check;
mod data;
mod layouts;
mod locks;
mod modes;
mod mounts;
mod names;
mod random;
mod records;
mod run;
mod tools;
mod trees;

use check::Check;

pub use mounts::{Options, run};
pub use run::{Settings, check};

/// Every check with its name.
const CHECKS: [(&str, Check); 27] = [
    ("names of 255 bytes and of any bytes", names::any_bytes),
    ("what must be refused is refused", names::refusals),
    ("hard links", names::hard_links),
    ("symbolic links", names::symbolic_links),
    ("renames", names::renames),
    ("renames over open files", names::renames_over_open_files),
    ("a removed file lives while it is open", names::removed_while_open),
    ("modes and owners", modes::modes_and_owners),
    ("permissions of another user", modes::another_user),
    ("times", modes::times),
    ("extended attributes", modes::extended_attributes),
    ("a deep tree", trees::deep),
    ("a large directory", trees::large),
    ("a tree of small files", trees::small_files),
    ("lengths and parts of any size", data::any_part),
    ("sparse files", data::sparse),
    ("truncation", data::truncation),
    ("appends of both mounts", data::appends),
    ("layouts of stripes and components", layouts::layouts),
    ("each mount sees the other's data at once", data::seen_at_once),
    ("each mount sees the other's names at once", names::seen_at_once),
    ("flock between the mounts", locks::flock),
    ("fcntl locks between the mounts", locks::fcntl),
    ("random data by both mounts", random::data),
    ("random names by both mounts", random::names),
    ("the same records by both mounts", records::records),
    ("fio: data with checksums", tools::fio),
];

/// Parses a part of the title of a check.
pub(super) fn title(part: &str) -> Result<String, String> {
    if CHECKS.iter().any(|(title, _)| title.contains(part)) {
        Ok(part.to_owned())
    } else {
        let titles = CHECKS.map(|(title, _)| title);
        Err(format!("no check is called so; there are: {}", titles.join(", ")))
    }
}
