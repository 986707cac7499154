//! What users do with files, and the locks that it needs.

use fulmar_base::Rng;
use fulmar_ldlm::client::{Coverage, LockSpec};
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::{
    Extent, InodeBits, InodebitsPolicy, LockMode, LockType, Policy, ResourceDesc, ResourceId,
};

use super::check::Part;

/// How many parts a file has, and how long each is.
const PARTS: u64 = 4;
const PART_LEN: u64 = 4096;

/// What a user does under a lock.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) file: u32,
    first: u64,
    last: u64,
    pub(super) writes: bool,
}

impl Wish {
    /// Returns any wish.
    pub(super) fn any(rng: &mut Rng) -> Self {
        let first = rng.below(PARTS);
        let last = rng.between(first, PARTS - 1);
        Self { file: rng.below(4) as u32, first, last, writes: rng.one_in(3) }
    }

    pub(super) fn parts(&self, target: usize) -> impl Iterator<Item = Part> + use<> {
        let file = self.file;
        (self.first..=self.last).map(move |part| (target, file, part))
    }

    /// Files with even numbers have locks of ranges, others of bits.
    pub(super) fn wanted(&self) -> LockSpec {
        let fid = Fid { seq: 7, oid: self.file, version: 0 };
        let (kind, policy) = if self.file.is_multiple_of(2) {
            let (start, end) = (self.first * PART_LEN, (self.last + 1) * PART_LEN - 1);
            (LockType::EXTENT, Policy::from(Extent { start, end, gid: 0 }))
        } else {
            let bits = InodeBits((self.first..=self.last).map(|part| 1 << part).sum());
            let policy = InodebitsPolicy { bits, try_bits: InodeBits::NONE, gid: 0, initiator: 0 };
            (LockType::IBITS, Policy::from(policy))
        };
        let mode = if self.writes { LockMode::PW } else { LockMode::PR };
        let resource = ResourceDesc { kind, id: ResourceId::of_fid(fid), ..Default::default() };
        LockSpec::new(resource, mode, policy)
    }
}

/// Returns the parts that a lock covers.
pub(super) fn parts_of(target: usize, file: u32, covered: &Coverage) -> Vec<Part> {
    let [first, last, _] = covered.policy.words;
    let is_covered = |part: &u64| match covered.resource.kind {
        LockType::EXTENT => first < (part + 1) * PART_LEN && part * PART_LEN <= last,
        _ => first & 1 << part != 0,
    };
    (0..PARTS).filter(is_covered).map(|part| (target, file, part)).collect()
}
