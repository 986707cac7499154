//! Creating and opening stores.

use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use crate::keys::{Keys, MemoryKeys, Opening, TreeKeys};
use crate::medium::{Directory, Medium, Name, SimulatedDisk};
use crate::objects::Objects;
use crate::pace::Pace;
use crate::records::{Numbers, RemovedFile, Row};
use crate::reserve::Reserve;
use crate::store::Front;
use crate::{Policy, Store, StoreError};

/// The version of the files and records.
const VERSION: u32 = 1;
/// The longest label in bytes.
pub const LABEL_MAX: usize = 4096;

/// Where a store is.
#[derive(Clone, Debug)]
pub enum Place<'a> {
    /// In a directory that exists, and that it has for itself.
    Directory(&'a Path),
    /// On a simulated disk.
    Simulated(&'a SimulatedDisk),
}

impl<'a> From<&'a Path> for Place<'a> {
    fn from(path: &'a Path) -> Self {
        Self::Directory(path)
    }
}

impl<'a> From<&'a SimulatedDisk> for Place<'a> {
    fn from(disk: &'a SimulatedDisk) -> Self {
        Self::Simulated(disk)
    }
}

/// What is in the file `store`: the version, and whose store it is.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    label: Vec<u8>,
}

impl Store {
    /// Creates a store and opens it. The label, at most [`LABEL_MAX`] bytes, says whose it is; it is
    /// the owner's and does not change.
    ///
    /// # Errors
    /// If there is a store or something else already, or the medium refuses.
    ///
    /// # Panics
    /// If the label is too long.
    pub fn create<'a>(
        place: impl Into<Place<'a>>,
        label: &[u8],
        policy: Policy,
    ) -> Result<Self, StoreError> {
        assert!(label.len() <= LABEL_MAX, "a label of {} bytes", label.len());
        let medium: Arc<dyn Medium> = match place.into() {
            Place::Directory(path) => Arc::new(Directory::create(path)?),
            Place::Simulated(disk) => Arc::new(disk.clone()),
        };
        match Header::read(&*medium) {
            Err(StoreError::NotAStore { .. }) => {}
            Err(error) => return Err(error),
            Ok(_) => {
                let what = "a store".to_owned();
                return Err(StoreError::Occupied { place: medium.place(), what });
            }
        }
        let create = || -> io::Result<()> {
            let reserve = medium.create(Name::Reserve)?;
            // A file system that cannot do this is found here, not later.
            reserve.set_len(1)?;
            reserve.allocate(0, 1)?;
            reserve.punch(0, 1)?;
            let reserve = Arc::new(Reserve::new(medium.clone(), reserve, policy.reserve)?);
            let keys = medium.create(Name::Keys)?;
            TreeKeys::open(keys, reserve, policy.cache, Opening::Trust)?;
            medium.sync_names()?;
            let header = medium.create(Name::Header)?;
            header.write(0, &[IoSlice::new(&Header { label: label.to_vec() }.encode())])?;
            header.sync()?;
            medium.sync_names()
        };
        create().map_err(|error| StoreError::of_io(&medium.place(), "create a store", &error))?;
        Ok(Self::open_on(medium, policy, Opening::Trust)?.0)
    }

    /// Opens a store. After a crash it contains all committed transactions, and no part of others.
    ///
    /// # Errors
    /// If there is no store, it is in use, damaged, or of another version.
    pub fn open<'a>(place: impl Into<Place<'a>>, policy: Policy) -> Result<Self, StoreError> {
        Ok(Self::open_with(place.into(), policy, Opening::Trust)?.0)
    }

    /// Returns a store in memory, which ends with the process.
    pub fn memory(label: &[u8], policy: Policy) -> Self {
        let medium: Arc<dyn Medium> = Arc::new(SimulatedDisk::reliable());
        let reserve =
            medium.create(Name::Reserve).and_then(|file| Reserve::new(medium.clone(), file, 0));
        let reserve = reserve.expect("memory has no errors");
        let keys = MemoryKeys::default();
        let view = keys.view().expect("memory has no errors");
        let front = Front::new(Numbers::default(), view);
        Self::new(medium, Box::new(keys), Arc::new(reserve), policy, label.to_vec(), front)
    }

    pub(crate) fn open_with(
        place: Place<'_>,
        policy: Policy,
        opening: Opening,
    ) -> Result<(Self, bool), StoreError> {
        let medium: Arc<dyn Medium> = match place {
            Place::Directory(path) => Arc::new(Directory::open(path)?),
            Place::Simulated(disk) => Arc::new(disk.clone()),
        };
        Self::open_on(medium, policy, opening)
    }

    fn open_on(
        medium: Arc<dyn Medium>,
        policy: Policy,
        opening: Opening,
    ) -> Result<(Self, bool), StoreError> {
        let header = Header::read(&*medium)?;
        let place = medium.place();
        let failed = |what: &'static str| {
            let place = place.clone();
            move |error: io::Error| match error.kind() {
                io::ErrorKind::NotFound => {
                    StoreError::Damaged { place, what: format!("cannot {what}: {error}") }
                }
                _ => StoreError::of_io(&place, what, &error),
            }
        };
        // What the last process has written may still be in the system's cache.
        medium.sync_all().map_err(failed("write what was left"))?;
        let fenced = medium.open(Name::Fenced).is_ok();
        let file = medium.create_if_missing(Name::Reserve);
        let reserve = file.and_then(|file| Reserve::new(medium.clone(), file, policy.reserve));
        let reserve = Arc::new(reserve.map_err(failed("open the reserve"))?);
        let file = medium.open(Name::Keys).map_err(failed("open the keys"))?;
        if file.len().map_err(failed("open the keys"))? == 0 {
            return Err(StoreError::Damaged {
                place,
                what: "the file of the keys is empty".into(),
            });
        }
        if fenced {
            file.forget_cache().map_err(failed("read the keys from the disk"))?;
        }
        let opened = TreeKeys::open(file, reserve.clone(), policy.cache, opening);
        let (keys, good) = opened.map_err(failed("open the keys"))?;
        let view = keys.view().map_err(failed("read keys"))?;
        let numbers = view.get(&Numbers::key()).map_err(failed("read keys"))?;
        let numbers = numbers.map(|value| Numbers::decode(&value)).transpose();
        let numbers = numbers.map_err(|error| StoreError::Damaged {
            place: place.clone(),
            what: error.to_string(),
        })?;
        let front = Front::new(numbers.unwrap_or_default(), view);
        let store = Self::new(medium, Box::new(keys), reserve, policy, header.label, front);
        if fenced {
            store.forget_caches()?;
        }
        store.remove_leftovers()?;
        Ok((store, good))
    }

    fn new(
        medium: Arc<dyn Medium>,
        keys: Box<dyn Keys>,
        reserve: Arc<Reserve>,
        policy: Policy,
        label: Vec<u8>,
        front: Front,
    ) -> Self {
        Self {
            medium,
            keys,
            reserve,
            policy,
            label,
            objects: Objects::new(policy.open_objects),
            front: Mutex::new(front),
            moved: Condvar::new(),
            work: Condvar::new(),
            commits: Mutex::new(()),
            on_commit: OnceLock::new(),
            fenced: OnceLock::new(),
            changing_data: AtomicU32::new(0),
            pace: Pace::default(),
        }
    }

    /// Lets all objects be read from the medium, after a sync of an earlier process has failed.
    fn forget_caches(&self) -> Result<(), StoreError> {
        self.each_key(Row::all(), |_, value| {
            let row = Row::decode(value).map_err(|error| self.damaged(&error))?;
            // One that is missing is reported to its reader.
            let forgotten = match self.medium.open(Name::Object(row.file)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                file => file.and_then(|file| file.forget_cache()),
            };
            forgotten.map_err(|error| self.failed("read an object from the disk", &error))
        })?;
        let removed = self.medium.remove(Name::Fenced);
        removed.map_err(|error| self.failed("remove the mark of a failed sync", &error))
    }

    /// Removes files that were created by transactions that are lost, and those whose removal is
    /// committed.
    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let failed = |error: io::Error| self.failed("remove a file without an object", &error);
        let first = self.front().next_file;
        for file in self.medium.objects_from(first).map_err(failed)? {
            self.medium.remove(Name::Object(file)).map_err(failed)?;
        }
        self.each_key(RemovedFile::all(), |key, _| {
            let file = RemovedFile::of_key(key).map_err(|error| self.damaged(&error))?;
            match self.medium.remove(Name::Object(file.0)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
                _ => {
                    self.front().running.change(key.to_vec(), None);
                    Ok(())
                }
            }
        })
    }
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let label: String = self.label.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("fulmar store\nversion {VERSION}\nlabel {label}\nend\n").into_bytes()
    }

    fn read(medium: &dyn Medium) -> Result<Self, StoreError> {
        let place = medium.place();
        let not = |why| StoreError::NotAStore { place: place.clone(), why };
        let file = match medium.open(Name::Header) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(not("it has no file named store"));
            }
            file => file.map_err(|error| StoreError::of_io(&place, "open it", &error))?,
        };
        let mut bytes = vec![0; 2 * LABEL_MAX + 100];
        let read = file.read(0, &mut [IoSliceMut::new(&mut bytes)]);
        let read = read.map_err(|error| StoreError::of_io(&place, "read its header", &error))?;
        let text = String::from_utf8_lossy(&bytes[..read]);
        let mut lines = text.lines();
        if lines.next() != Some("fulmar store") {
            return Err(not("its file named store is of something else, or not complete"));
        }
        let version = lines.next().and_then(|line| line.strip_prefix("version "));
        let version = version.ok_or_else(|| not("its file named store is not complete"))?;
        if version.parse() != Ok(VERSION) {
            let found = version.to_owned();
            return Err(StoreError::Version { place, found, known: VERSION });
        }
        let label = lines.next().and_then(|line| line.strip_prefix("label ")).and_then(of_hex);
        match (label, lines.next()) {
            (Some(label), Some("end")) => Ok(Self { label }),
            _ => Err(not("its file named store is not complete")),
        }
    }
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}
