//! Parameters as `lctl get_param` and `list_param` print them. Spec: lnet-admin §20.

use std::fmt::Write;

use fulmar_text::pattern;
use serde::{Deserialize, Serialize};

/// A parameter with its value, as the text of the file that a kernel node has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// The parts of its name, such as `obdfilter`, `lv-OST0000`, `stats`. A part may contain dots.
    pub name: Vec<String>,
    /// The value, with a line feed at its end.
    pub value: String,
}

/// The name of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterName {
    /// Its parts.
    pub name: Vec<String>,
    /// Whether it has a value.
    pub is_readable: bool,
    /// Whether it can be set.
    pub is_writable: bool,
}

impl Parameter {
    /// Returns whether its name is selected by a [pattern] such as `obdfilter.*.stats`.
    pub fn is_selected(&self, pattern: &str) -> bool {
        pattern::selects(pattern, &self.name)
    }
}

impl ParameterName {
    /// Returns how many of the first parts of its name a [pattern] selects, in each way in which it does: all of
    /// them, or those of a directory.
    pub fn selected(&self, pattern: &str) -> impl Iterator<Item = usize> {
        (1..=self.name.len()).filter(move |len| pattern::selects(pattern, &self.name[..*len]))
    }
}

/// What `get_param` prints of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// `name=value`; a value of several lines begins on a line of its own.
    #[default]
    Both,
    /// `-n`
    Value,
    /// `-N`
    Name,
    /// `-H`: the name before each line of the value.
    EachLine,
    /// `-y`: `name: value`
    Yaml,
}

impl Form {
    /// Returns the text for a parameter. The line feed at the end of a value counts for nothing, and of a value
    /// that is empty otherwise nothing is printed without its name.
    pub fn text(self, name: &str, value: &str) -> String {
        let value = value.strip_suffix('\n').unwrap_or(value);
        let is_long = value.contains('\n');
        match self {
            Self::Name => format!("{name}\n"),
            Self::Value if value.is_empty() => String::new(),
            Self::Value => format!("{value}\n"),
            Self::EachLine => lines(name, value),
            Self::Yaml => format!("{name}: {value}\n"),
            Self::Both if is_long => format!("{name}=\n{value}\n"),
            Self::Both => format!("{name}={value}\n"),
        }
    }
}

fn lines(name: &str, value: &str) -> String {
    let mut text = String::new();
    for line in value.split('\n') {
        writeln!(text, "{name}={line}").expect("writing to a string succeeds");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_several_lines_begins_behind_its_name() {
        let text = |form: Form, value: &str| form.text("a.b", value);
        for (form, one, two, none) in [
            (Form::Both, "a.b=1\n", "a.b=\n1\n2\n", "a.b=\n"),
            (Form::Value, "1\n", "1\n2\n", ""),
            (Form::Name, "a.b\n", "a.b\n", "a.b\n"),
            (Form::EachLine, "a.b=1\n", "a.b=1\na.b=2\n", "a.b=\n"),
            (Form::Yaml, "a.b: 1\n", "a.b: 1\n2\n", "a.b: \n"),
        ] {
            assert_eq!([text(form, "1\n"), text(form, "1\n2\n")], [one, two], "{form:?}");
            assert_eq!([text(form, ""), text(form, "\n")], [none, none], "{form:?}");
            assert_eq!(text(form, "1"), one, "{form:?}");
        }
    }

    #[test]
    fn a_pattern_selects_files_and_directories() {
        let name = ["osc", "lv-OST0000-osc-1", "import"].map(str::to_owned).to_vec();
        let listed = ParameterName { name, is_readable: true, is_writable: false };
        let selected = |pattern: &str| listed.selected(pattern).collect::<Vec<usize>>();
        assert_eq!(selected("*"), [1]);
        assert_eq!(selected("osc/*"), [2]);
        assert_eq!(selected("osc.*.import"), [3]);
        assert_eq!(selected("osc.*.stats"), [0; 0]);
    }
}
