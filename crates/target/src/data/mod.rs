//! The data of objects, with the space that clients have for them: what an OST and an MDT have in common.
//! Spec: mdt-ost §13.1, §16.6 to §16.9, §17.1 to §17.8, §18.2, §19.1 to §19.5.
//!
//! A target has one [`Data`], keeps the attributes of its objects itself, and says by [`Holder`] what both
//! need of each other.

mod brw;
mod change;
mod grants;
mod space;
mod times;
mod transfer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::ost::ChecksumTypes;
use fulmar_store::{Store, StoreError};

pub use brw::Holder;
pub use change::{Allocation, EOF};
pub use grants::Total;
pub use space::{BLOCK, ObjectSpace, block_end};
pub use transfer::{LoadedRead, Room, Sources, Transfer, WriteResult};

use grants::{BLOCK_BITS, EXTENT_BLOCKS, Grants, INODE_BITS, Share, TAX_KIB};
use times::Times;

/// The largest read or write in bytes of a client that does not say its own.
const BRW_SIZE_MIN: u32 = 1 << 20;

/// What clients may do with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The largest read or write in bytes: a power of two of at least 1 MiB.
    pub brw_size: u32,
    /// The largest object in bytes.
    pub bytes_max: u64,
    /// Bytes of the medium that clients do not get at first, such as for the keys of the store.
    pub reserved: u64,
    /// The checksums that it computes fast.
    pub checksums: ChecksumTypes,
}

impl Settings {
    /// The checksums that every processor computes fast enough.
    pub const CHECKSUMS: ChecksumTypes = ChecksumTypes(
        ChecksumTypes::CRC32.0
            | ChecksumTypes::ADLER.0
            | ChecksumTypes::CRC32C.0
            | ChecksumTypes::T10IP512.0
            | ChecksumTypes::T10IP4K.0
            | ChecksumTypes::T10CRC4K.0,
    );
}

/// The data of the objects of a target, and who may use its space.
pub struct Data {
    store: Arc<Store>,
    settings: Settings,
    reserved: AtomicU64,
    grants: Mutex<Grants>,
    times: Mutex<Times>,
}

impl Data {
    /// Returns the data in a store. No client has a grant.
    pub fn new(store: Arc<Store>, settings: Settings) -> Self {
        let reserved = AtomicU64::new(settings.reserved);
        Self { store, settings, reserved, grants: Mutex::default(), times: Mutex::default() }
    }

    /// Returns the bytes of the medium that clients may use.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn free(&self) -> Result<u64, StoreError> {
        Ok(self.store.room()?.free.saturating_sub(self.reserved()))
    }

    /// Returns the bytes of the medium that clients may use and that none of them was granted.
    pub(crate) fn left(&self) -> Result<u64, StoreError> {
        let free = self.free()?;
        Ok(self.grants().left(free))
    }

    /// Returns how many bytes of the medium clients do not get.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Sets how many bytes of the medium clients do not get. What was granted before stays so.
    pub fn set_reserved(&self, bytes: u64) {
        self.reserved.store(bytes, Ordering::Relaxed);
    }

    /// Adds to what is granted to a client that connects what concerns data, except its grant.
    /// Spec: mdt-ost §18.3, §19.2.
    pub fn offer(&self, asked: &ConnectData, granted: &mut ConnectData) {
        let flags = granted.flags;
        if flags.has(ConnectFlags::BRW_SIZE) {
            granted.brw_size = asked.brw_size.min(self.settings.brw_size);
        }
        if flags.has(ConnectFlags::GRANT_PARAM) {
            granted.grant_block_bits = BLOCK_BITS;
            granted.grant_inode_bits = INODE_BITS;
            granted.grant_tax_kib = TAX_KIB;
            granted.grant_blocks_max = EXTENT_BLOCKS;
        }
        if flags.has(ConnectFlags::CKSUM) {
            let both = ChecksumTypes(asked.checksums.0 & self.settings.checksums.0);
            // Every client can compute this one.
            let none = both == ChecksumTypes::NONE;
            granted.checksums = if none { ChecksumTypes::ADLER } else { both };
        }
    }

    /// Adds a client that has connected, and adds its grant to what is granted. `is_again`: it was
    /// connected before, and keeps what it has, also after a restart of the target.
    ///
    /// # Errors
    /// If the system does not say what is free.
    pub fn connect(
        &self,
        export: Handle,
        asked: &ConnectData,
        granted: &mut ConnectData,
        is_again: bool,
    ) -> Result<(), StoreError> {
        let flags = granted.flags;
        let says_size = flags.has(ConnectFlags::BRW_SIZE);
        let brw_size = if says_size { granted.brw_size } else { BRW_SIZE_MIN };
        let free = self.free()?;
        let mut grants = self.grants();
        grants.connect(export, Share::of(flags, brw_size));
        let grant = grants.grant(export, asked.grant.into(), free, is_again);
        if flags.has(ConnectFlags::GRANT) {
            granted.grant = u32::try_from(grant).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// Restores the export that a known client has after a restart.
    pub fn restore(&self, export: Handle, flags: ConnectFlags) {
        self.grants().connect(export, Share::of(flags, self.settings.brw_size));
    }

    /// Handles the end of an export: its grant goes back.
    pub fn forget(&self, export: Handle) {
        self.grants().disconnect(export);
    }

    /// Receives grant back that a client does not need.
    ///
    /// # Errors
    /// If the system does not say what is free.
    pub fn shrink(&self, export: Handle, back: u64) -> Result<(), StoreError> {
        let free = self.free()?;
        self.grants().shrink(export, back, free);
        Ok(())
    }

    /// Returns the sums of all grants.
    pub fn granted(&self) -> Total {
        self.grants().total()
    }

    /// Adds the grants of all clients up.
    ///
    /// # Errors
    /// What does not match the sums.
    pub fn check(&self) -> Result<(), String> {
        self.grants().check()
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
