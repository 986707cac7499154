//! The kinds of records by their names, and sets of them.

use fulmar_base::Errno;
use fulmar_lustre_wire::changelog::ChangeKind;

/// The names of the kinds, by their numbers.
const NAMES: [&str; 25] = [
    "MARK", "CREAT", "MKDIR", "HLINK", "SLINK", "MKNOD", "UNLNK", "RMDIR", "RENME", "RNMTO",
    "OPEN", "CLOSE", "LYOUT", "TRUNC", "SATTR", "XATTR", "HSM", "MTIME", "CTIME", "ATIME", "MIGRT",
    "FLRW", "RESYNC", "GXATR", "NOPEN",
];

/// A set of kinds: a bit for each number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mask(pub(crate) u32);

impl Mask {
    /// What cannot be left out.
    pub(crate) const LEAST: Self = Self(1 << ChangeKind::MARK.0);
    /// All kinds.
    pub(crate) const ALL: Self = Self((1 << NAMES.len()) - 1);
    /// All but those that cost much and matter only to audits.
    pub(crate) const DEFAULT: Self = Self(
        Self::ALL.0
            & !(1 << ChangeKind::ATIME.0)
            & !(1 << ChangeKind::OPEN.0)
            & !(1 << ChangeKind::GXATR.0)
            & !(1 << ChangeKind::NOPEN.0),
    );

    /// Returns whether a kind is in it.
    pub(crate) fn has(self, kind: ChangeKind) -> bool {
        kind.0 < u32::BITS && self.0 >> kind.0 & 1 == 1
    }

    /// Returns the names of its kinds.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let is_in = move |(kind, _): &(usize, &&str)| self.0 >> kind & 1 == 1;
        NAMES.iter().enumerate().filter(is_in).map(|(_, name)| *name)
    }

    /// Returns what a text makes of a set: names, `ALL`, `NONE` or `DEFAULT`, each with `+` or `-` in
    /// front to change `before` rather than to begin anew.
    ///
    /// # Errors
    /// EINVAL if a word is unknown, or an operator has none.
    pub(crate) fn parse(text: &str, before: Self) -> Result<Self, Errno> {
        let mut mask = before.0;
        let mut rest = text;
        let mut is_first = true;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
            if rest.is_empty() {
                return Ok(Self(mask));
            }
            let operator = rest.chars().next().filter(|c| matches!(c, '+' | '-'));
            if operator.is_some() {
                rest = rest[1..].trim_start_matches(|c: char| c.is_ascii_whitespace());
            } else if is_first {
                mask = Self::LEAST.0;
            }
            let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '+' | '-' | ',');
            let (word, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            mask = combined(mask, operator, word)?;
            (rest, is_first) = (behind, false);
        }
    }
}

/// Returns a set with what a word adds or removes.
fn combined(mask: u32, operator: Option<char>, word: &str) -> Result<u32, Errno> {
    let removes = operator == Some('-');
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    if let Some(kind) = NAMES.iter().position(|name| is(name)) {
        return Ok(if removes { mask & !(1 << kind) } else { mask | 1 << kind });
    }
    let (least, default) = (Mask::LEAST.0, Mask::DEFAULT.0);
    match () {
        () if is("ALL") => Ok(if removes { least } else { Mask::ALL.0 }),
        () if is("NONE") => Ok(if removes { mask } else { least }),
        () if is("DEFAULT") => Ok(match operator {
            Some('-') => mask & !default | least,
            Some(_) => mask | default,
            None => default,
        }),
        () => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_a_list_of_names_that_adds_or_begins_anew() {
        let parse =
            |text| Mask::parse(text, Mask::DEFAULT).map(|mask| mask.names().collect::<Vec<_>>());
        assert_eq!(parse("creat, HSM").unwrap(), ["MARK", "CREAT", "HSM"]);
        assert_eq!(parse("CREAT+hsm -creat").unwrap(), ["MARK", "HSM"]);
        assert_eq!(
            Mask::parse("+ATIME", Mask::DEFAULT).map(|mask| mask.0),
            Ok(Mask::DEFAULT.0 | 1 << 19)
        );
        assert_eq!(Mask::parse("-ALL +RMDIR", Mask::ALL).map(|mask| mask.0), Ok(1 | 1 << 7));
        assert_eq!(Mask::parse("ALL", Mask::LEAST), Ok(Mask::ALL));
        assert_eq!(Mask::parse("DEFAULT", Mask::LEAST), Ok(Mask::DEFAULT));
        assert_eq!(Mask::parse("", Mask::LEAST), Ok(Mask::LEAST));
        assert_eq!((parse("CREATE"), parse("CREAT,+")), (Err(Errno::EINVAL), Err(Errno::EINVAL)));
    }

    #[test]
    fn the_names_have_the_order_of_the_kinds() {
        for (kind, name) in [(ChangeKind::CLOSE, "CLOSE"), (ChangeKind::NOPEN, "NOPEN")] {
            assert_eq!(Mask(1 << kind.0).names().collect::<Vec<_>>(), [name]);
        }
        assert!(Mask::DEFAULT.has(ChangeKind::MTIME) && !Mask::DEFAULT.has(ChangeKind::ATIME));
        assert!(!Mask::ALL.has(ChangeKind(25)) && !Mask::ALL.has(ChangeKind(99)));
    }
}
