//! The output of a command as a tree; and the printers: two dialects of YAML, and JSON.
//!
//! ```text
//! net:                              net:
//!     - net type: tcp               -     net type: tcp
//!       local NI(s):                      local NI(s):
//!         - nid: 10.0.0.1@tcp             -     nid: 10.0.0.1@tcp
//!           interfaces:                         interfaces:
//!               0: eth0                               0: eth0
//! ```
//!
//! Left is the output of releases up to 2.15, and of later ones for some commands; right is that of
//! later releases for the other commands. Spec: lnet-admin §1.

use std::fmt;

/// An ordered tree: the output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Keys and values, in order.
    Map(Map),
    /// Items, each usually a map.
    List(Vec<Self>),
    /// A number.
    Number(i128),
    /// `true` or `false`, and `True` or `False` in the older dialect.
    Bool(bool),
    /// Text, quoted only where YAML requires it.
    Text(String),
    /// Text of error objects, with its quotes.
    Described(Quotes, String),
    /// A key without a value.
    Empty,
}

/// Keys and values, in order.
pub type Map = Vec<(String, Value)>;

/// The quotes of the `descr` of an error object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// `"text"`.
    Double,
    /// `! "text"`, with the tag of plain text.
    TaggedDouble,
    /// `! 'text'`, the same.
    TaggedSingle,
}

/// The releases whose format is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// 2.16 and later.
    #[default]
    Netlink,
    /// Up to 2.15.
    Cyaml,
}

/// Commands with the same layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The lists: net, peer, route, fault.
    Listing,
    /// The answers of other nodes: ping and discover.
    Query,
    /// Commands that did not change: stats, global, routing, udsp.
    Classic,
}

/// The output of one command: a sequence of blocks, each with the layout of its family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report(pub Vec<(Family, Map)>);

impl Report {
    /// Returns a report of one block, or of none if the block is empty.
    pub fn one(family: Family, map: Map) -> Self {
        if map.is_empty() { Self::default() } else { Self(vec![(family, map)]) }
    }

    /// Returns the text in `dialect`, empty without content.
    pub fn to_yaml(&self, dialect: Dialect) -> String {
        let mut out = String::new();
        for (family, map) in &self.0 {
            Layout::of(*family, dialect).map(&mut out, map, 0, false);
        }
        out
    }

    /// Returns one line of JSON and a newline; `{}` without content.
    pub fn to_json(&self) -> String {
        let mut all = serde_json::Map::new();
        for (key, value) in self.0.iter().flat_map(|(_, map)| map) {
            all.insert(key.clone(), value.to_json());
        }
        serde_json::Value::Object(all).to_string() + "\n"
    }
}

impl Value {
    fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Self::Map(map) => {
                Json::Object(map.iter().map(|(k, v)| (k.clone(), v.to_json())).collect())
            }
            Self::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Number(n) => match i64::try_from(*n) {
                Ok(n) => n.into(),
                Err(_) => u64::try_from(*n).map_or(Json::Null, Json::from),
            },
            Self::Bool(b) => Json::Bool(*b),
            Self::Text(text) | Self::Described(_, text) => Json::String(text.clone()),
            Self::Empty => Json::Null,
        }
    }
}

/// The indentation of keys and dashes.
#[derive(Clone, Copy)]
enum Layout {
    /// A map is indented by this many columns; a dash is below its key.
    Indent(usize),
    /// A map is indented by 4; a dash too, or by 2 if the key is that of an item.
    Cyaml,
}

impl Layout {
    fn of(family: Family, dialect: Dialect) -> Self {
        match (dialect, family) {
            (Dialect::Cyaml, _) | (_, Family::Classic) => Self::Cyaml,
            (_, Family::Listing) => Self::Indent(6),
            (_, Family::Query) => Self::Indent(2),
        }
    }

    /// Prints `map` at `column`. The first key of an item follows the dash that was printed before.
    fn map(self, out: &mut String, map: &Map, column: usize, item: bool) {
        for (index, (key, value)) in map.iter().enumerate() {
            if index > 0 || !item {
                out.extend(std::iter::repeat_n(' ', column));
            }
            out.push_str(&Plain(key).to_string());
            out.push(':');
            match value {
                Value::Map(inner) => {
                    out.push('\n');
                    self.map(out, inner, column + self.map_step(), false);
                }
                Value::List(items) => {
                    out.push('\n');
                    self.list(out, items, column + self.dash_step(item));
                }
                scalar => {
                    self.scalar(out, scalar);
                    out.push('\n');
                }
            }
        }
    }

    fn list(self, out: &mut String, items: &[Value], column: usize) {
        for item in items {
            out.extend(std::iter::repeat_n(' ', column));
            out.push('-');
            match item {
                Value::Map(map) => {
                    let step = self.item_step();
                    out.extend(std::iter::repeat_n(' ', step - 1));
                    self.map(out, map, column + step, true);
                }
                scalar => {
                    self.scalar(out, scalar);
                    out.push('\n');
                }
            }
        }
    }

    fn scalar(self, out: &mut String, value: &Value) {
        let text = match value {
            Value::Number(n) => n.to_string(),
            Value::Bool(b) => match (self, b) {
                (Self::Cyaml, true) => "True".into(),
                (Self::Cyaml, false) => "False".into(),
                (Self::Indent(_), b) => b.to_string(),
            },
            Value::Text(text) => Plain(text).to_string(),
            Value::Described(quotes, text) => quotes.around(text),
            Value::Empty | Value::Map(_) | Value::List(_) => return,
        };
        out.push(' ');
        out.push_str(&text);
    }

    fn map_step(self) -> usize {
        match self {
            Self::Indent(step) => step,
            Self::Cyaml => 4,
        }
    }

    fn dash_step(self, in_item: bool) -> usize {
        match (self, in_item) {
            (Self::Indent(_), _) => 0,
            (Self::Cyaml, true) => 2,
            (Self::Cyaml, false) => 4,
        }
    }

    fn item_step(self) -> usize {
        match self {
            Self::Indent(step) => step,
            Self::Cyaml => 2,
        }
    }
}

impl Quotes {
    fn around(self, text: &str) -> String {
        match self {
            Self::Double => double_quoted(text),
            Self::TaggedDouble => format!("! {}", double_quoted(text)),
            Self::TaggedSingle => format!("! '{}'", text.replace('\'', "''")),
        }
    }
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c) & 0xff)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Text that is quoted where YAML would interpret it differently.
struct Plain<'a>(&'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0;
        let first_misleads = text.starts_with(|c: char| "-?:,[]{}#&*!|>'\"%@` ".contains(c));
        let inside_misleads = text.contains(": ")
            || text.contains(" #")
            || text.ends_with([':', ' '])
            || text.contains(char::is_control);
        if text.is_empty() || first_misleads || inside_misleads {
            f.write_str(&double_quoted(text))
        } else {
            f.write_str(text)
        }
    }
}

/// Appends to a [`Map`].
pub trait MapExt {
    /// Appends a key with its value.
    fn put(&mut self, key: &str, value: impl Into<Value>);
    /// Appends a key if there is a value.
    fn put_some(&mut self, key: &str, value: Option<impl Into<Value>>);
}

impl MapExt for Map {
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.push((key.to_owned(), value.into()));
    }

    fn put_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }
}

macro_rules! value_from {
    ($($from:ty => |$x:ident| $to:expr),+ $(,)?) => { $(
        impl From<$from> for Value {
            fn from($x: $from) -> Self { $to }
        }
    )+ };
}

value_from! {
    i32 => |n| Self::Number(n.into()),
    i64 => |n| Self::Number(n.into()),
    u32 => |n| Self::Number(n.into()),
    u64 => |n| Self::Number(n.into()),
    bool => |b| Self::Bool(b),
    &str => |text| Self::Text(text.to_owned()),
    String => |text| Self::Text(text),
    fulmar_lnet_wire::Net => |net| Self::Text(net.to_string()),
    fulmar_lnet_wire::Nid => |nid| Self::Text(nid.to_string()),
    Map => |map| Self::Map(map),
    Vec<Value> => |items| Self::List(items),
}

impl FromIterator<Map> for Value {
    fn from_iter<I: IntoIterator<Item = Map>>(items: I) -> Self {
        Self::List(items.into_iter().map(Self::Map).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Map {
        let mut ni = Map::new();
        ni.put("nid", "10.0.0.1@tcp");
        ni.put("interfaces", vec![("0".to_owned(), Value::from("eth0"))]);
        ni.put("CPT", "[0,1]");
        let mut net = Map::new();
        net.put("net type", "tcp");
        net.put("local NI(s)", Value::from_iter([ni]));
        net.put("Multi-Rail", true);
        vec![("net".into(), Value::from_iter([net]))]
    }

    #[test]
    fn each_dialect_has_its_columns() {
        let report = Report::one(Family::Listing, sample());
        assert_eq!(
            report.to_yaml(Dialect::Netlink),
            "net:\n-     net type: tcp\n      local NI(s):\n      -     nid: 10.0.0.1@tcp\n            \
             interfaces:\n                  0: eth0\n            CPT: \"[0,1]\"\n      Multi-Rail: true\n"
        );
        assert_eq!(
            report.to_yaml(Dialect::Cyaml),
            "net:\n    - net type: tcp\n      local NI(s):\n        - nid: 10.0.0.1@tcp\n          \
             interfaces:\n              0: eth0\n          CPT: \"[0,1]\"\n      Multi-Rail: True\n"
        );
        let query = Report::one(Family::Query, sample()).to_yaml(Dialect::Netlink);
        assert!(query.starts_with("net:\n- net type: tcp\n  local NI(s):\n  - nid"), "{query}");
    }

    #[test]
    fn json_has_numbers_and_booleans() {
        let map = vec![
            ("a".into(), Value::from(-3)),
            ("b".into(), u64::MAX.into()),
            ("c".into(), false.into()),
            ("d".into(), Value::Empty),
        ];
        let json = Report::one(Family::Classic, map).to_json();
        assert_eq!(json, "{\"a\":-3,\"b\":18446744073709551615,\"c\":false,\"d\":null}\n");
    }

    #[test]
    fn ambiguous_text_is_quoted() {
        for (text, printed) in [
            ("[0]", "\"[0]\""),
            ("a: b", "\"a: b\""),
            ("", "\"\""),
            ("10.0.0.1@tcp", "10.0.0.1@tcp"),
            ("*", "\"*\""),
            ("say \"x\"", "say \"x\""),
            ("fe80::1@tcp", "fe80::1@tcp"),
        ] {
            assert_eq!(Plain(text).to_string(), printed);
        }
    }

    #[test]
    fn nothing_prints_as_nothing() {
        let report = Report::one(Family::Listing, Map::new());
        assert_eq!(
            (report.to_yaml(Dialect::Netlink).as_str(), report.to_json().as_str()),
            ("", "{}\n")
        );
    }
}
