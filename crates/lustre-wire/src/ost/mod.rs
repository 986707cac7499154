//! Objects: attributes, the ranges of reads and writes, advice and maps.

mod advice;
mod checksum;
mod fiemap;
mod io;
mod obdo;
mod object;

pub use advice::{Advice, AdviceKind, AdviceList, FallocateMode};
pub use checksum::{ChecksumKind, ChecksumTypes};
pub use fiemap::{Fiemap, FiemapExtent, FiemapHeader, FiemapKey};
pub use io::{IoObject, MaxBrw, Niobuf, NiobufFlags};
pub use obdo::{FlagWord, Obdo, ObdoFlags, OstLayout};
pub use object::OstId;
