//! Comma-separated values: a heading, then a line for each row; nothing where nothing is known.

use std::fmt::Display;

/// Returns the text.
pub(super) fn text<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut text = headings.join(",") + "\n";
    for row in rows {
        text += &row.map(|field| quoted(&field)).join(",");
        text.push('\n');
    }
    text
}

/// Returns a value, or nothing.
pub(super) fn field<T: Display>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Returns a number as exactly as anybody measures, or nothing.
pub(super) fn number(value: Option<f64>) -> String {
    field(value.map(|value| (value * 1e6).round() / 1e6))
}

/// Quotes what would be taken for more than one field.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_comma_or_a_quote_is_quoted() {
        let rows = [[number(Some(1.0 / 3.0)), field::<u32>(None), "a,\"b\"".to_owned()]];
        assert_eq!(text(["x", "y", "z"], rows), "x,y,z\n0.333333,,\"a,\"\"b\"\"\"\n");
    }
}
