//! Security flavors.

use std::fmt;

use fulmar_wire::{DecodeError, Field, Reader, Writer, wire_enum};

use crate::serial::as_text;

/// How a message is protected, and the part of the file system that sent it.
/// Spec: ptlrpc-ldlm-mgs §9.1.
///
/// Messages of the policy null have the part in the bits 24 to 31 of the word. Those of the policy
/// plain have the part, and the algorithm of the hash of bulk data, in a header of their own: the
/// word has them in the bits 24 to 31 and 20 to 23 only in memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flavor(pub u32);

/// The bits of a flavor without the part and the algorithm.
const FLAVOR: u32 = 0x000f_ffff;
/// Where the algorithm is, and its bits.
const HASH: (u32, u32) = (20, 0xf);
/// The bits of the service for bulk data.
const BULK_SERVICE: u32 = 0x000f_0000;

macro_rules! flavors {
    ($($name:ident = $word:literal $text:literal),+ $(,)?) => {
        impl Flavor {
            $( #[doc = concat!("The flavor `", $text, "`.")] pub const $name: Self = Self($word); )+

            /// Returns the name of the flavor in the configuration, without the part.
            pub fn name(self) -> Option<&'static str> {
                match self.word() { $( Self::$name => Some($text), )+ _ => None }
            }
        }
    };
}

flavors! {
    NULL = 0 "null",
    PLAIN = 0x2_1001 "plain",
    PLAIN_WITHOUT_HASH = 0x1001 "plain-hash:null",
    GSSNULL = 0x2 "gssnull",
    KRB5N = 0x12 "krb5n",
    KRB5A = 0x112 "krb5a",
    KRB5I = 0x2_0212 "krb5i",
    KRB5P = 0x3_0312 "krb5p",
    SKN = 0x22 "skn",
    SKA = 0x122 "ska",
    SKI = 0x2_0222 "ski",
    SKPI = 0x3_0322 "skpi",
}

impl Flavor {
    /// Returns the flavor of a message from `part`.
    #[must_use]
    pub fn from_part(self, part: Part) -> Self {
        Self(self.0 & 0x00ff_ffff | u32::from(part.0) << 24)
    }

    /// Returns the policy: the layout of the message.
    pub fn policy(self) -> Policy {
        Policy((self.0 & 0xf) as u8)
    }

    /// Returns the part of the file system that sent a message of the policy null.
    pub fn part(self) -> Part {
        Part((self.0 >> 24) as u8)
    }

    /// Returns the flavor plain with an algorithm for the hash of bulk data. Without one they have
    /// none: `plain-hash:null`.
    pub fn plain(hash: HashKind) -> Self {
        match hash {
            HashKind::NULL => Self(Self::PLAIN.0 & !BULK_SERVICE),
            _ => Self::PLAIN.with_hash(hash),
        }
    }

    /// Returns the algorithm of the hash of bulk data in the policy plain.
    pub fn hash(self) -> HashKind {
        HashKind((self.0 >> HASH.0 & HASH.1) as u8)
    }

    /// Returns whether messages with bulk data say how those are protected.
    pub fn has_bulk(self) -> bool {
        self.policy() == Policy::PLAIN && self.0 & BULK_SERVICE != 0
    }

    /// Returns the flavor of a reply to a request of this one: it has no part.
    #[must_use]
    pub fn of_reply(self) -> Self {
        match self.policy() {
            Policy::NULL => Self::NULL,
            _ => self.from_part(Part::CLIENT),
        }
    }

    /// Returns the word without the part and the algorithm.
    #[must_use]
    pub fn word(self) -> Self {
        Self(self.0 & FLAVOR)
    }

    pub(super) fn with_hash(self, hash: HashKind) -> Self {
        Self(self.0 | (u32::from(hash.0) & HASH.1) << HASH.0)
    }
}

wire_enum! {
    /// An algorithm of the hash of bulk data.
    #[doc(alias = "BULK_HASH_ALG")]
    pub struct HashKind(u8) {
        /// There is no hash.
        NULL = 0,
        /// Adler-32.
        ADLER32 = 1,
        /// CRC-32.
        CRC32 = 2,
        /// MD5, of which the first 8 bytes are sent, as of those that follow.
        MD5 = 3,
        /// SHA-1.
        SHA1 = 4,
        /// SHA-256.
        SHA256 = 5,
        /// SHA-384.
        SHA384 = 6,
        /// SHA-512.
        SHA512 = 7,
    }
}

wire_enum! {
    /// A layout of protected messages.
    pub struct Policy(u8) {
        /// No protection.
        NULL = 0,
        /// Checksums, for tests.
        PLAIN = 1,
        /// Kerberos or a shared key.
        GSS = 2,
    }
}

wire_enum! {
    /// A part of a file system.
    pub struct Part(u8) {
        /// A client.
        CLIENT = 0,
        /// A metadata target.
        MDT = 1,
        /// An object target.
        OST = 2,
        /// A client of the management service.
        MGC = 3,
        /// The management service.
        MGS = 4,
        /// Any of them.
        ANY = 0xff,
    }
}

impl Field for Flavor {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.u32(name).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.0);
    }
}

impl fmt::Display for Flavor {
    /// Writes the name, and the part unless it is a client: `null/MGC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.part()) {
            (Some(name), Part::CLIENT) => f.write_str(name),
            (Some(name), part) => write!(f, "{name}/{part:?}"),
            (None, _) => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

as_text!(Flavor);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flavor_has_a_policy_and_a_part() {
        let flavor = Flavor::NULL.from_part(Part::MGC);
        assert_eq!((flavor, flavor.to_string().as_str()), (Flavor(0x0300_0000), "null/MGC"));
        assert_eq!((flavor.policy(), flavor.part()), (Policy::NULL, Part::MGC));
        assert_eq!(Flavor::PLAIN.policy(), Policy::PLAIN);
        assert_eq!(Flavor::SKPI.policy(), Policy::GSS);
        assert_eq!(Flavor(0x77).to_string(), "0x77");
    }
}
