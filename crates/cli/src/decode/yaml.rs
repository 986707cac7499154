//! Decoded messages as YAML.

use serde_json::Value;

/// Appends the entries of a map, or a scalar, at a column.
pub(super) fn write(out: &mut String, value: &Value, column: usize) {
    let indent = " ".repeat(column);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                out.push_str(&format!("{indent}{}:", scalar(&Value::String(key.clone()))));
                write_value(out, value, column);
            }
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(map) if !map.is_empty() => {
                        let mut text = String::new();
                        write(&mut text, item, column + 2);
                        out.push_str(&format!("{indent}- {}", text.trim_start()));
                    }
                    item => out.push_str(&format!("{indent}- {}\n", inline(item))),
                }
            }
        }
        value => out.push_str(&format!("{indent}{}\n", scalar(value))),
    }
}

fn write_value(out: &mut String, value: &Value, column: usize) {
    let is_nested = |item: &Value| item.is_object() || item.is_array();
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            write(out, value, column + 2);
        }
        Value::Array(items) if items.iter().any(is_nested) => {
            out.push('\n');
            write(out, value, column + 2);
        }
        value => out.push_str(&format!(" {}\n", inline(value))),
    }
}

/// A value in the rest of a line.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        value => scalar(value),
    }
}

/// A scalar; text has quotes where it could be something else.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        value => value.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./|@+".contains(c));
    starts && rest && !["true", "false", "null", "yes", "no", "on", "off"].contains(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_are_indented_and_text_is_quoted_where_necessary() {
        let value = json!({
            "body": { "flags": ["A", "B"], "none": [], "status": 0, "uuid": "lv-MDT0000_UUID" },
            "list": [{ "fid": "[0x1:0x2:0x0]", "n": 1 }, { "n": 2 }],
            "odd": ["a: b", "true", "12", ""],
            "empty": {},
        });
        let mut out = String::new();
        write(&mut out, &value, 0);
        let expected = "\
body:
  flags: [A, B]
  none: []
  status: 0
  uuid: lv-MDT0000_UUID
list:
  - fid: \"[0x1:0x2:0x0]\"
    n: 1
  - n: 2
odd: [\"a: b\", \"true\", \"12\", \"\"]
empty: {}
";
        assert_eq!(out, expected);
    }
}
