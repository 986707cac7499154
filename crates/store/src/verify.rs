//! The examination of a store.

use std::collections::BTreeMap;
use std::io::IoSliceMut;

use crate::format::Place;
use crate::keys::Opening;
use crate::records::{ObjectId, Row};
use crate::{Policy, Space, Store, StoreError};

/// How many bytes are read at once.
const CHUNK: usize = 1 << 20;

/// What an examination has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The keys of the owner.
    pub keys: u64,
    /// The objects that are not empty.
    pub objects: u64,
    /// Their bytes, without holes at the end of their files.
    pub bytes: u64,
    /// What is damaged, a sentence for each; nothing if the store is good.
    pub damage: Vec<String>,
}

impl Store {
    /// Opens a store that is not in use, reads all of it and compares the keys with their checksums.
    /// The bytes of objects have none: whether they can be read is all that is known.
    ///
    /// # Errors
    /// If it cannot be opened at all, which also tells damage.
    pub fn verify<'a>(place: impl Into<Place<'a>>, policy: Policy) -> Result<Report, StoreError> {
        let (store, good) = Self::open_with(place.into(), policy, Opening::Check)?;
        let mut report = Report::default();
        if !good {
            let what = "The file of the keys was not as it was written, and has been repaired.";
            report.damage.push(what.to_owned());
        }
        store.verify_keys(&mut report)?;
        store.verify_objects(&mut report)?;
        Ok(report)
    }

    fn verify_keys(&self, report: &mut Report) -> Result<(), StoreError> {
        let all = (vec![], Space::new(Space::COUNT - 1).end());
        self.each_key(all, |_, _| {
            report.keys += 1;
            Ok(())
        })
    }

    fn verify_objects(&self, report: &mut Report) -> Result<(), StoreError> {
        let mut owners: BTreeMap<u64, ObjectId> = BTreeMap::new();
        self.each_key(Row::all(), |key, value| {
            let id = Row::object(key).map_err(|error| self.damaged(&error))?;
            let row = Row::decode(value).map_err(|error| self.damaged(&error))?;
            if let Some(other) = owners.insert(row.file, id) {
                let file = row.file;
                report.damage.push(format!("{id} and {other} have the same file {file}."));
            }
            report.objects += 1;
            self.verify_object(id, row, report);
            Ok(())
        })
    }

    fn verify_object(&self, id: ObjectId, row: Row, report: &mut Report) {
        let mut bytes = vec![0; CHUNK];
        let mut offset = 0;
        while offset < row.size {
            match self.read(id, offset, &mut [IoSliceMut::new(&mut bytes)]) {
                Ok(read) => {
                    offset += read as u64;
                    report.bytes += read as u64;
                }
                Err(StoreError::Damaged { what, .. }) => {
                    report.damage.push(format!("{id} is damaged at byte {offset}: {what}."));
                    return;
                }
                Err(error) => {
                    report.damage.push(format!("{id} cannot be read at byte {offset}: {error}."));
                    return;
                }
            }
        }
    }
}
