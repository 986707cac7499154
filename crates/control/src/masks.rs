//! The masks that select what a node keeps in its debug log: types of messages, and subsystems.
//! Spec: lnet-admin §20.8.

use thiserror::Error;

/// One of the two kinds of masks: each has 32 bits with a name, or without one if it is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masks {
    /// `debug` and `printk`.
    Types,
    /// `subsystem_debug` and `subsystem_printk`.
    Subsystems,
}

const TYPES: [&str; 32] = [
    "trace", "inode", "super", "iotrace", "malloc", "cache", "info", "ioctl", "neterror", "net",
    "warning", "buffs", "other", "dentry", "nettrace", "page", "dlmtrace", "error", "emerg", "ha",
    "rpctrace", "vfstrace", "reada", "mmap", "config", "console", "quota", "sec", "lfsck", "hsm",
    "snapshot", "layout",
];

const SUBSYSTEMS: [&str; 32] = [
    "undefined",
    "mdc",
    "mds",
    "osc",
    "ost",
    "class",
    "log",
    "llite",
    "rpc",
    "mgmt",
    "lnet",
    "lnd",
    "pinger",
    "filter",
    "libcfs",
    "echo",
    "ldlm",
    "lov",
    "lquota",
    "osd",
    "lfsck",
    "snapshot",
    "",
    "lmv",
    "",
    "sec",
    "gss",
    "",
    "mgc",
    "mgs",
    "fid",
    "fld",
];

/// The types that a name never takes away, only a number: errors, warnings, and what is for the
/// administrator.
pub const ALWAYS: u32 = bit(10) | bit(17) | bit(18) | bit(25);

const fn bit(number: u32) -> u32 {
    1 << number
}

/// A word is not the name of a bit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown mask \"{0}\": use +NAME, -NAME, NAME, ALL, NONE, DEFAULT or a number")]
pub struct UnknownMask(pub String);

impl Masks {
    /// Returns the names of the bits, the lowest first; that of an unused bit is empty.
    pub fn names(self) -> &'static [&'static str; 32] {
        match self {
            Self::Types => &TYPES,
            Self::Subsystems => &SUBSYSTEMS,
        }
    }

    /// Returns the bit of a name in any case.
    pub fn bit(self, name: &str) -> Option<u32> {
        let known = |one: &str| !one.is_empty() && one.eq_ignore_ascii_case(name);
        self.names().iter().position(|one| known(one)).map(|place| 1 << place)
    }

    /// Returns the mask that a node starts with, and that `DEFAULT` means.
    pub fn default_mask(self) -> u32 {
        match self {
            Self::Types => {
                // neterror, ha, config, ioctl, lfsck
                ALWAYS | bit(8) | bit(19) | bit(24) | bit(7) | bit(28)
            }
            Self::Subsystems => u32::MAX,
        }
    }

    /// The least that a list of names leaves.
    fn least(self) -> u32 {
        match self {
            Self::Types => ALWAYS,
            Self::Subsystems => 0,
        }
    }

    /// Returns the mask as its file shows it: names, or `0`.
    pub fn text(self, mask: u32) -> String {
        if mask == 0 {
            return "0".into();
        }
        // A bit without a name leaves its blank.
        let set = self.names().iter().enumerate().filter(|(place, _)| mask & (1 << place) != 0);
        set.map(|(_, name)| *name).collect::<Vec<&str>>().join(" ")
    }

    /// Returns the mask that `text` makes of `old`: a number, or names separated by blanks or commas.
    /// `+` and `-` are for the one name behind them; names without either replace the mask if they
    /// come first.
    ///
    /// # Errors
    /// The first word that is not a name.
    pub fn parse(self, text: &str, old: u32) -> Result<u32, UnknownMask> {
        let text = text.trim();
        if let Some(number) = number(text) {
            return Ok(number);
        }
        let mut mask = old;
        let mut rest = text;
        let mut is_first = true;
        loop {
            rest = rest.trim_start_matches(is_separator);
            if rest.is_empty() {
                return Ok(mask);
            }
            let operator = rest.chars().next().filter(|c| matches!(c, '+' | '-'));
            if operator.is_some() {
                rest = rest[1..].trim_start();
            } else if is_first {
                mask = self.least();
            }
            is_first = false;
            let ends = |c: char| is_separator(c) || matches!(c, '+' | '-');
            let (word, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            mask = self.apply(mask, operator, word)?;
            rest = behind;
        }
    }

    /// Adds what a word names, or takes it away.
    fn apply(self, mask: u32, operator: Option<char>, word: &str) -> Result<u32, UnknownMask> {
        let (least, default) = (self.least(), self.default_mask());
        let removes = operator == Some('-');
        if let Some(bit) = self.bit(word) {
            return Ok(if removes { mask & !bit } else { mask | bit });
        }
        Ok(match word.to_ascii_uppercase().as_str() {
            "ALL" if removes => least,
            "ALL" => u32::MAX,
            "NONE" if removes => mask,
            "NONE" => least,
            "DEFAULT" if removes => (mask & !default) | least,
            "DEFAULT" if operator.is_some() => mask | default,
            "DEFAULT" => default,
            _ => return Err(UnknownMask(word.to_owned())),
        })
    }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || c == ','
}

/// Parses a number in the notation of C, which may be negative.
fn number(text: &str) -> Option<u32> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = fulmar_text::integer(digits)?;
    let low = number as u32;
    Some(if is_negative { low.wrapping_neg() } else { low })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_add_remove_and_replace_as_in_a_kernel() {
        let default = Masks::Types.default_mask();
        let text = |mask: &str, old: u32| Masks::Types.text(Masks::Types.parse(mask, old).unwrap());
        let start = "ioctl neterror warning error emerg ha config console lfsck";
        assert_eq!(Masks::Types.text(default), start);
        for (mask, expected) in [
            ("+net", "ioctl neterror net warning error emerg ha config console lfsck"),
            ("net", "net warning error emerg console"),
            ("NET,info", "info net warning error emerg console"),
            ("+net -ha", "ioctl neterror net warning error emerg config console lfsck"),
            ("+net-ha", "ioctl neterror net warning error emerg config console lfsck"),
            ("+ net", "ioctl neterror net warning error emerg ha config console lfsck"),
            ("-neterror", "ioctl warning error emerg ha config console lfsck"),
            ("-error", "ioctl neterror warning emerg ha config console lfsck"),
            ("none", "warning error emerg console"),
            ("-all", "warning error emerg console"),
            ("-none", start),
            ("DEFAULT", start),
            ("0", "0"),
            ("0x200", "net"),
            ("512", "net"),
            ("01000", "net"),
            ("", start),
        ] {
            assert_eq!(text(mask, default), expected, "{mask}");
        }
        for all in ["-1", "ALL", "all", "+all", "0xffffffff"] {
            assert_eq!(Masks::Types.parse(all, default), Ok(u32::MAX), "{all}");
        }
        assert_eq!(Masks::Types.text(u32::MAX).split(' ').count(), 32);
        for wrong in ["bogus", "+", "net +", "+net bogus", "nets", "12x"] {
            assert!(Masks::Types.parse(wrong, default).is_err(), "{wrong}");
        }
    }

    #[test]
    fn subsystems_have_unused_bits_and_may_be_none() {
        let parse = |mask: &str| Masks::Subsystems.parse(mask, u32::MAX);
        assert_eq!(parse("lnet"), Ok(0x400));
        assert_eq!(parse("none"), Ok(0));
        assert_eq!(parse("-lnd"), Ok(!0x800));
        assert_eq!(Masks::Subsystems.text(0), "0");
        assert_eq!(Masks::Subsystems.text(u32::MAX).split_whitespace().count(), 29);
        assert_eq!(Masks::Subsystems.text(0xc00), "lnet lnd");
        assert_eq!(Masks::Subsystems.text(0xe0_0000), "snapshot  lmv");
    }
}
