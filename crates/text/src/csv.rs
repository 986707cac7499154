//! Comma-separated values, for programs.

use std::fmt::Display;

use csv::Writer;

/// Returns a line of headings and a line for each row. Fields are quoted where necessary.
pub fn csv<R>(headings: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(headings).expect("writing to memory succeeds");
    for row in rows {
        writer.write_record(row).expect("a row has a field for each heading");
    }
    let bytes = writer.into_inner().expect("writing to memory succeeds");
    String::from_utf8(bytes).expect("all fields are text")
}

/// Returns a field with a value, or an empty one.
pub fn field<T: Display>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Returns a field with a measured number, to six digits after the point, or an empty one.
pub fn number_field(value: Option<f64>) -> String {
    field(value.map(|value| (value * 1e6).round() / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_a_comma_or_a_quote_is_quoted() {
        let rows = [[number_field(Some(1.0 / 3.0)), field::<u32>(None), "a,\"b\"".to_owned()]];
        assert_eq!(csv(&["x", "y", "z"], rows), "x,y,z\n0.333333,,\"a,\"\"b\"\"\"\n");
    }
}
