//! Files with layouts: stripes on every OST, components, the first part on the MDT.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::check::{At, Outcome, Site, Wrong, equal, failed, pattern, same};
use crate::lfs::{components_in_use, set_layout};

const LEN: usize = 3 << 20;
const PART: usize = 1 << 18;
const LAYOUTS: [(&str, &str); 4] = [
    ("wide", "-c -1 -S 64K"),
    ("grows", "-E 1M -c 1 -S 64K -E 2M -c 2 -S 256K -E -1 -c -1 -S 1M"),
    ("on-mdt", "-E 64K -L mdt -E -1 -c 1 -S 1M"),
    ("one", "-c 1"),
];

pub(super) fn layouts(site: &Site) -> Outcome {
    let at = site.sub("layouts")?;
    let data = pattern(site.seed, LEN);
    let mut refused = Vec::new();
    for (name, words) in LAYOUTS {
        let words = words.split(' ').map(str::to_owned);
        if let Err(why) = set_layout(words, at.one.join(name)) {
            // An OST may be missing, and an administrator may switch off what is on MDTs.
            refused.push(format!("{name}: {why}"));
            continue;
        }
        let mut file = fs::File::options().write(true).open(at.one.join(name)).at("opening it")?;
        // Backwards, so that components are used before those in front of them.
        for part in (0..LEN / PART).rev() {
            file.seek(SeekFrom::Start((part * PART) as u64)).at("seeking")?;
            file.write_all(&data[part * PART..][..PART]).at(format!("writing {name}"))?;
        }
        equal(name, fs::metadata(at.two.join(name)).at("stat")?.len(), LEN as u64)?;
        same(name, &fs::read(at.two.join(name)).at("reading it by the other")?, &data)?;
        described(&at.two.join(name), name)?;
    }
    if refused.is_empty() {
        Ok(format!("{} layouts of {LEN} bytes", LAYOUTS.len()))
    } else {
        failed(refused.join("; "))
    }
}

/// The layout of a file that was written can be read, and all its components are in use.
fn described(path: &Path, name: &str) -> Result<(), Wrong> {
    let found = components_in_use(path).or_else(|errno| failed(format!("{name}: {errno}")))?;
    let expected = match name {
        "grows" => 3,
        "on-mdt" => 2,
        _ => 0,
    };
    equal(format!("components of {name}"), found, expected)
}
