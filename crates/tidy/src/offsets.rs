//! Only the `*-wire` crates contain byte offsets.

use crate::Finding;
use crate::source::Source;

/// Conversions of native order are not listed: native order is not used on the wire.
const CONVERSIONS: &[&str] = &["from_le_bytes", "from_be_bytes", "to_le_bytes", "to_be_bytes"];

/// Returns every conversion between integers and bytes in product code outside the wire crates.
pub fn check(source: &Source) -> Vec<Finding> {
    if source.krate().is_none_or(|name| name == "wire" || name.ends_with("-wire")) {
        return vec![];
    }
    let found = source.names_in_product().filter_map(|name| {
        let conversion = CONVERSIONS.iter().find(|conversion| name.contains(conversion))?;
        let what = format!("{conversion} belongs to a *-wire crate");
        Some(Finding::new("offsets", &source.path, name.line, what))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_allowed_only_in_the_wire_crates() {
        let text = "fn f(b: [u8; 4]) -> u32 { u32::from_le_bytes(b) }";
        assert_eq!(check(&Source::parse("crates/lnet/src/a.rs", text)).len(), 1);
        assert_eq!(check(&Source::parse("crates/lnet/src/tests.rs", text)).len(), 0);
        assert_eq!(check(&Source::parse("crates/lnet-wire/src/a.rs", text)).len(), 0);
    }
}
