//! Which stripe of a directory has a name. Spec: mdt-ost §12.2.

use super::{HashFlags, HashFunction, HashType, LmvMd};

/// The stripes in which a name is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameStripe {
    /// Unknown, as the hash function is.
    Any,
    /// The name is in this stripe, or nowhere.
    One(u32),
    /// The directory moves: the name is in the first of both if it is new or was moved, else in the second.
    Moving(u32, u32),
}

impl LmvMd {
    /// The most stripes of a directory.
    pub const STRIPES_MAX: u32 = 2000;

    /// Returns the stripe of a name.
    pub fn name_stripe(&self, name: &[u8]) -> NameStripe {
        let (header, count) = (&self.header, self.stripes.len() as u32);
        let offset = header.migrate_offset;
        let (hash, other) = (header.hash, header.migrate_hash);
        if [HashFlags::LOST_LMV, HashFlags::BAD_TYPE].iter().any(|flag| hash.flags.has(*flag)) {
            return NameStripe::Any;
        }
        let moving = [HashFlags::SPLIT, HashFlags::MERGE, HashFlags::MIGRATION];
        let found = match moving.map(|flag| hash.flags.has(flag)) {
            [_, _, false] => hash.stripe(name, count).map(NameStripe::One),
            [true, _, true] => both(hash.stripe(name, count), other.stripe(name, offset)),
            [_, true, true] => both(other.stripe(name, offset), hash.stripe(name, count)),
            [_, _, true] => {
                let old = other.stripe(name, count.saturating_sub(offset));
                both(hash.stripe(name, offset), old.map(|stripe| stripe + offset))
            }
        };
        found.unwrap_or(NameStripe::Any)
    }
}

fn both(new: Option<u32>, old: Option<u32>) -> Option<NameStripe> {
    Some(NameStripe::Moving(new?, old?))
}

impl HashType {
    fn stripe(self, name: &[u8], count: u32) -> Option<u32> {
        self.function.stripe(name, count)
    }
}

impl HashFunction {
    /// Returns the number of the stripe of a name among `count`; `None` if the function is not known, or there
    /// is no stripe.
    pub fn stripe(self, name: &[u8], count: u32) -> Option<u32> {
        if count == 0 {
            return None;
        }
        match self {
            Self::ALL_CHARS => {
                let sum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
                Some(sum % count)
            }
            Self::FNV_1A_64 => Some((fnv(name) % u64::from(count)) as u32),
            Self::CRUSH | Self::CRUSH2 => Some(crush(stem(name, self == Self::CRUSH2), count)),
            _ => None,
        }
    }
}

/// Returns the FNV-1a hash of 64 bits.
fn fnv(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Returns the stripe that draws the longest straw.
fn crush(name: &[u8], count: u32) -> u32 {
    let group = (fnv(name) % 4096) as u32;
    let (mut stripe, mut longest) = (0, 0);
    for number in 0..count {
        let straw = straw(group, number);
        if straw > longest {
            (stripe, longest) = (number, straw);
        }
    }
    stripe
}

fn straw(a: u32, b: u32) -> u32 {
    let [h, x, y] = [1_315_423_911 ^ a ^ b, 231_232, 1232];
    let [a, b, h] = mix([a, b, h]);
    let [_, _, h] = mix([x, a, h]);
    let [_, _, h] = mix([b, y, h]);
    h
}

fn mix([mut p, mut q, mut r]: [u32; 3]) -> [u32; 3] {
    for [first, second, third] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        p = p.wrapping_sub(q).wrapping_sub(r) ^ r >> first;
        q = q.wrapping_sub(r).wrapping_sub(p) ^ p << second;
        r = r.wrapping_sub(p).wrapping_sub(q) ^ q >> third;
    }
    [p, q, r]
}

/// Returns a name without what marks it as temporary or as a copy: so a file stays in its stripe when it gets its
/// final name.
fn stem(name: &[u8], is_strict: bool) -> &[u8] {
    let len = name.len();
    let ends_with = |suffix: usize| {
        let at = len - suffix;
        name[at - 1] == b'.' && is_temporary(&name[at..], is_strict)
    };
    if len >= 9 && name[0] == b'.' && ends_with(6) {
        return &name[1..len - 7];
    }
    if len >= 10 && ends_with(8) {
        return &name[..len - 9];
    }
    if len > 1 && name[len - 1] == b'~' && name[len - 2] != b'.' {
        return &name[..len - 1];
    }
    for suffix in [&b".bak"[..], b".sav", b".orig"] {
        let stem = len.saturating_sub(suffix.len());
        if stem > 0 && name[stem..].eq_ignore_ascii_case(suffix) {
            return &name[..stem];
        }
    }
    name
}

/// Returns whether a suffix looks as if a program had drawn it.
fn is_temporary(suffix: &[u8], is_strict: bool) -> bool {
    let count = |is: fn(&u8) -> bool| suffix.iter().filter(|byte| is(byte)).count();
    let [lower, upper, digits] =
        [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit].map(count);
    let len = suffix.len();
    if is_strict && lower + upper + digits < len || lower == len || upper == len {
        return false;
    }
    let begins_with_digit = suffix.first().is_some_and(u8::is_ascii_digit);
    digits + 1 < len || begins_with_digit != is_strict
}

#[cfg(test)]
mod tests {
    use fulmar_wire::Order;
    use proptest::prelude::*;

    use super::*;
    use crate::layout::LayoutMagic;
    use crate::{Content, Fid};

    /// Names, and the stripe of two in which a kernel's client has each with ALL_CHARS, FNV_1A_64, CRUSH and CRUSH2.
    const KNOWN: [(&str, [u32; 4]); 32] = [
        (".config", [0, 1, 0, 0]),
        (".file-1.a1B2c3", [0, 1, 1, 1]),
        (".file.AbC1d2", [1, 0, 0, 0]),
        (".longer.name.123456", [1, 0, 0, 0]),
        (".longer.name.1234a6", [1, 0, 0, 0]),
        (".longer.name.A23456", [1, 0, 1, 0]),
        (".rsync.abcdef", [0, 1, 1, 1]),
        ("0", [0, 1, 0, 0]),
        ("00", [0, 1, 1, 1]),
        ("000", [0, 1, 0, 0]),
        ("Makefile", [0, 1, 0, 0]),
        ("README.txt.bak", [0, 1, 0, 0]),
        ("a", [1, 0, 0, 0]),
        ("b", [0, 1, 1, 1]),
        ("core.1234", [1, 0, 1, 1]),
        ("data.1234567A", [1, 0, 0, 0]),
        ("data.1a2B3c4D", [0, 1, 0, 0]),
        ("data.A1234567", [1, 0, 1, 0]),
        ("data.a-b2C3d4", [0, 1, 0, 0]),
        ("data.abcdefgh", [0, 1, 0, 0]),
        ("draft~", [1, 0, 0, 0]),
        ("file-1", [0, 1, 1, 1]),
        ("file-2", [1, 0, 1, 1]),
        ("file-3", [0, 1, 1, 1]),
        ("file-4", [1, 0, 1, 1]),
        ("file-5", [0, 1, 1, 1]),
        ("lost+found", [1, 0, 0, 0]),
        ("main.rs", [0, 1, 0, 0]),
        ("notes.sav", [1, 0, 1, 1]),
        ("page.ORIG", [0, 1, 1, 1]),
        ("prog.o.12345678", [1, 0, 1, 1]),
        ("x.~", [0, 1, 1, 1]),
    ];

    #[test]
    fn names_are_where_a_kernel_has_them() {
        for (name, stripes) in KNOWN {
            let of = |function: HashFunction| function.stripe(name.as_bytes(), 2);
            let all = HashFunction::KNOWN.iter().map(|function| of(*function));
            assert!(all.eq(stripes.map(Some)), "{name}");
        }
    }

    #[test]
    fn temporary_names_are_with_the_final_ones() {
        for (name, expected) in [
            (".file.AbC1d2", "file"),
            ("file.a1B2c3d4", "file"),
            ("file~", "file"),
            ("file.BAK", "file"),
            ("file.orig", "file"),
            ("file.abcdefgh", "file.abcdefgh"),
            ("x.~", "x.~"),
            (".bak", ".bak"),
            ("~", "~"),
            ("", ""),
        ] {
            for is_strict in [false, true] {
                assert_eq!(stem(name.as_bytes(), is_strict), expected.as_bytes(), "{name}");
            }
        }
        assert_eq!(stem(b"file.A1234567", false), b"file.A1234567");
        assert_eq!(stem(b"file.A1234567", true), b"file");
        assert_eq!(stem(b"file.12345678", false), b"file");
        assert_eq!(stem(b"file.12345678", true), b"file.12345678");
    }

    fn layout(function: u32, flags: HashFlags, (count, offset): (u32, u32)) -> LmvMd {
        let mut bytes = vec![0; 56];
        bytes[..4].copy_from_slice(&LayoutMagic::LMV_V1.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&count.to_le_bytes());
        bytes[12..16].copy_from_slice(&(flags.0 | function).to_le_bytes());
        bytes[20..24].copy_from_slice(&offset.to_le_bytes());
        bytes[24] = HashFunction::ALL_CHARS.0 as u8;
        let mut layout = LmvMd::decode(&bytes, Order::Little).unwrap();
        layout.stripes = (1..=count).map(|oid| Fid { seq: 1 << 33, oid, version: 0 }).collect();
        layout
    }

    #[test]
    fn a_directory_that_moves_has_each_name_in_one_of_two_stripes() {
        // 97 and FNV-1a of "a", whose last byte is 0x8c.
        let place = |flags, sizes| layout(2, flags, sizes).name_stripe(b"a");
        assert_eq!(place(HashFlags::NONE, (4, 0)), NameStripe::One(0));
        assert_eq!(place(HashFlags::FIXED, (4, 0)), NameStripe::One(0));
        let moving = HashFlags::MIGRATION;
        assert_eq!(place(moving, (5, 2)), NameStripe::Moving(0, 2 + 97 % 3));
        assert_eq!(place(moving | HashFlags::SPLIT, (4, 3)), NameStripe::Moving(0, 97 % 3));
        assert_eq!(place(moving | HashFlags::MERGE, (4, 3)), NameStripe::Moving(97 % 3, 0));
        for sizes in [(2, 0), (2, 2), (0, 0)] {
            assert_eq!(place(moving, sizes), NameStripe::Any);
        }
        assert_eq!(layout(9, HashFlags::NONE, (4, 0)).name_stripe(b"a"), NameStripe::Any);
    }

    proptest! {
        #[test]
        fn any_name_has_a_stripe(name: Vec<u8>, count in 1..3000_u32, flags: u32, offset: u32) {
            for function in HashFunction::KNOWN {
                prop_assert!(function.stripe(&name, count).unwrap() < count);
            }
            let layout = layout(u32::from(flags as u8) % 6, HashFlags(flags & 0xffff_0000), (count % 9, offset % 12));
            if let NameStripe::One(one) | NameStripe::Moving(one, _) = layout.name_stripe(&name) {
                // A wrong offset may lead behind the last one.
                prop_assert!(one < 12);
            }
        }
    }
}
