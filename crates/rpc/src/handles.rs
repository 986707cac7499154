//! The handles that a node issues. Spec: ptlrpc-ldlm-mgs §1.3.

use fulmar_lustre_wire::Handle;

/// Issues handles. None is issued twice, and handles that are known do not show others.
///
/// Handles are numbers from 0 on, encrypted with a key of 128 bits by the cipher XTEA. With another
/// key after a restart, a handle of the earlier start is valid by accident only: with one export, once
/// in 2^64.
#[derive(Clone)]
pub struct HandleSource {
    key: [u32; 4],
    issued: u64,
}

impl HandleSource {
    /// Begins with a key that the owner draws at random at each start.
    pub fn new(key: u128) -> Self {
        let word = |n: u32| (key >> (32 * n)) as u32;
        Self { key: [word(3), word(2), word(1), word(0)], issued: 0 }
    }

    /// Issues a handle.
    pub fn issue(&mut self) -> Handle {
        loop {
            let handle = Handle(encrypt(self.key, self.issued));
            self.issued = self.issued.wrapping_add(1);
            if !handle.is_none() {
                return handle;
            }
        }
    }
}

impl std::fmt::Debug for HandleSource {
    /// Does not show the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandleSource").field("issued", &self.issued).finish_non_exhaustive()
    }
}

/// Returns 64 bits encrypted by XTEA.
fn encrypt(key: [u32; 4], bits: u64) -> u64 {
    const DELTA: u32 = 0x9e37_79b9;
    const ROUNDS: u32 = 32;
    let half = |v: u32| (v << 4 ^ v >> 5).wrapping_add(v);
    let word = |sum: u32, shift: u32| sum.wrapping_add(key[(sum >> shift) as usize & 3]);
    let (mut a, mut b, mut sum) = ((bits >> 32) as u32, bits as u32, 0_u32);
    for _ in 0..ROUNDS {
        a = a.wrapping_add(half(b) ^ word(sum, 0));
        sum = sum.wrapping_add(DELTA);
        b = b.wrapping_add(half(a) ^ word(sum, 11));
    }
    u64::from(a) << 32 | u64::from(b)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_cipher_is_xtea() {
        let key = [0x0001_0203, 0x0405_0607, 0x0809_0a0b, 0x0c0d_0e0f];
        assert_eq!(encrypt(key, 0x4142_4344_4546_4748), 0x497d_f3d0_7261_2cb5);
    }

    #[test]
    fn handles_differ_within_a_start_and_between_starts() {
        let draw = |key| {
            let mut source = HandleSource::new(key);
            (0..1000).map(move |_| source.issue())
        };
        let handles: BTreeSet<_> = draw(1).chain(draw(2)).chain(draw(1 << 100)).collect();
        assert_eq!(handles.len(), 3000);
        assert!(!handles.contains(&Handle::NONE));
        assert!(draw(7).eq(draw(7)));
        assert!(!format!("{:?}", HandleSource::new(0xabcd)).contains("abcd"));
    }
}
