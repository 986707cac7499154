//! Two messages, field by field.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::known::{KNOWN, Rule};

/// A field that is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The recorded file, and the XID of the request.
    pub(crate) place: String,
    /// The operation, such as `LDLM_ENQUEUE OPEN`.
    pub(crate) operation: String,
    /// The field, such as `lock_reply.lock.policy.bits`.
    pub(crate) field: String,
    pub(crate) recorded: String,
    pub(crate) own: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, operation, field, recorded, own } = self;
        write!(f, "{place} {operation}: {field} was {recorded}, is {own}")
    }
}

impl Difference {
    /// Returns the entry of the list that explains it.
    pub(crate) fn reason(&self) -> Option<usize> {
        KNOWN.iter().position(|known| {
            let is_of = known.operation.is_empty() || fits(known.operation, &self.operation);
            let is_there = fits(known.field, &self.field);
            is_of && is_there && known.rule.allows(&self.recorded, &self.own)
        })
    }
}

/// Returns whether a name is the wanted one, or begins so.
fn fits(wanted: &str, name: &str) -> bool {
    wanted.strip_suffix('*').map_or(wanted == name, |start| name.starts_with(start))
}

impl Rule {
    fn allows(self, recorded: &str, own: &str) -> bool {
        let is_set = |value: &str| !["0", "\"0x0\"", "-"].contains(&value);
        match self {
            Self::Any => true,
            Self::Own(expected) => own == expected,
            Self::Set => is_set(recorded) == is_set(own),
            Self::Values(expected, instead) => recorded == expected && own == instead,
        }
    }
}

/// Compares a value with the recorded one.
pub(crate) fn differences(
    (place, operation): (&str, &str),
    recorded: &Value,
    own: &Value,
) -> Vec<Difference> {
    let [recorded, own] = [recorded, own].map(|value| {
        let mut fields = BTreeMap::new();
        flatten(String::new(), value, &mut fields);
        fields
    });
    let mut names: Vec<&String> = recorded.keys().chain(own.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut found = vec![];
    for name in names {
        let [recorded, own] = [&recorded, &own]
            .map(|fields| fields.get(name).cloned().unwrap_or_else(|| "-".to_owned()));
        if recorded != own {
            let (place, operation) = (place.to_owned(), operation.to_owned());
            let field = name.split('[').map(|part| match part.split_once(']') {
                Some((_, rest)) => format!("[]{rest}"),
                None => part.to_owned(),
            });
            found.push(Difference { place, operation, field: field.collect(), recorded, own });
        }
    }
    found
}

/// Collects the fields of a value by their paths. Lists of scalars are one field.
fn flatten(path: String, value: &Value, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(format!("{path}{dot}{name}"), value, fields);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (place, item) in items.iter().enumerate() {
                flatten(format!("{path}[{place}]"), item, fields);
            }
        }
        value => drop(fields.insert(path, value.to_string())),
    }
}

#[test]
fn fields_are_compared_by_their_paths() {
    let value = |size: u64, bits: &[&str]| serde_json::json!({ "body": { "size": size, "bits": bits }, "list": [{ "n": size }] });
    let found = differences(("x", "OP"), &value(1, &["A"]), &value(2, &["A", "B"]));
    let shown: Vec<String> = found.iter().map(Difference::to_string).collect();
    assert_eq!(
        shown,
        [
            "x OP: body.bits was [\"A\"], is [\"A\",\"B\"]",
            "x OP: body.size was 1, is 2",
            "x OP: list[].n was 1, is 2",
        ]
    );
    assert!(Rule::Set.allows("3", "4") && !Rule::Set.allows("\"0x0\"", "\"0x4\""));
}
