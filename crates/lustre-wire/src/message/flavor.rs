//! Security flavors.

use std::fmt;

use fulmar_wire::{DecodeError, Field, Reader, Writer, wire_enum};

use crate::serial::as_text;

/// How a message is protected, and the part of the file system that sent it.
/// Spec: ptlrpc-ldlm-mgs §9.1.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flavor(pub u32);

/// The bits of a flavor without the part.
const FLAVOR: u32 = 0x000f_ffff;

macro_rules! flavors {
    ($($name:ident = $word:literal $text:literal),+ $(,)?) => {
        impl Flavor {
            $( #[doc = concat!("The flavor `", $text, "`.")] pub const $name: Self = Self($word); )+

            /// Returns the name of the flavor in the configuration, without the part.
            pub fn name(self) -> Option<&'static str> {
                match self.without_part() { $( Self::$name => Some($text), )+ _ => None }
            }
        }
    };
}

flavors! {
    NULL = 0 "null",
    PLAIN = 0x2_1001 "plain",
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
        Self(self.0 & FLAVOR | u32::from(part.0) << 24)
    }

    /// Returns the policy: the layout of the message.
    pub fn policy(self) -> Policy {
        Policy((self.0 & 0xf) as u8)
    }

    /// Returns the part of the file system that sent a message of the policy null.
    pub fn part(self) -> Part {
        Part((self.0 >> 24) as u8)
    }

    fn without_part(self) -> Self {
        Self(self.0 & FLAVOR)
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
