//! The examination of a store.

use std::io::IoSliceMut;

use crate::format::Place;
use crate::keys::Opening;
use crate::records::{ObjectId, Row};
use crate::{Policy, Seek, Space, Store, StoreError};

/// How many bytes are read at once.
const CHUNK: usize = 1 << 20;

/// What an examination has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The keys of the owner.
    pub keys: u64,
    /// The objects that are not empty.
    pub objects: u64,
    /// The sum of their sizes in bytes.
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
        let mut files = vec![];
        let mut bytes = vec![0; CHUNK];
        self.each_key(Row::all(), |key, value| {
            let id = Row::object(key).map_err(|error| self.damaged(&error))?;
            let row = Row::decode(value).map_err(|error| self.damaged(&error))?;
            report.objects += 1;
            report.bytes += row.size;
            files.push(row.file);
            match self.read_all(id, row.size, &mut bytes) {
                Ok(()) => {}
                Err((offset, StoreError::Damaged { what, .. })) => {
                    report.damage.push(format!("The {id} is damaged at byte {offset}: {what}."));
                }
                Err((offset, error)) => {
                    let what = format!("The {id} cannot be read at byte {offset}: {error}.");
                    report.damage.push(what);
                }
            }
            Ok(())
        })?;
        files.sort_unstable();
        for twice in files.windows(2).filter(|pair| pair[0] == pair[1]) {
            report.damage.push(format!("The file {} is that of two objects.", twice[0]));
        }
        Ok(())
    }

    /// Reads the end of an object, which shows whether its file is complete, and all its data.
    fn read_all(&self, id: ObjectId, size: u64, bytes: &mut [u8]) -> Result<(), (u64, StoreError)> {
        let read = |offset, bytes: &mut [u8]| {
            let read = self.read(id, offset, &mut [IoSliceMut::new(bytes)]);
            read.map_err(|error| (offset, error))
        };
        read(size.saturating_sub(1), &mut bytes[..1])?;
        let mut offset = 0;
        while let Some(data) = self.seek(id, offset, Seek::Data).map_err(|error| (offset, error))? {
            offset = data + read(data, bytes)? as u64;
        }
        Ok(())
    }
}
