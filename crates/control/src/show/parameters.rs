//! Parameters as `lctl get_param` and `list_param` print them.

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

impl Parameter {
    /// Returns whether its name is selected by a [pattern] such as `obdfilter.*.stats`.
    pub fn is_selected(&self, pattern: &str) -> bool {
        pattern::selects(pattern, &self.name)
    }

    /// Returns its name with dots.
    pub fn full_name(&self) -> String {
        self.name.join(".")
    }
}

/// Returns the output of `get_param`: a value of several lines begins behind its name.
pub fn parameter(parameter: &Parameter) -> String {
    let Parameter { value, .. } = parameter;
    let is_long = value.trim_end_matches('\n').contains('\n');
    let separator = if is_long { "=\n" } else { "=" };
    format!("{}{separator}{value}", parameter.full_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&str], value: &str) -> Parameter {
        let name = parts.iter().map(|part| (*part).to_owned()).collect();
        Parameter { name, value: value.to_owned() }
    }

    #[test]
    fn a_value_of_several_lines_begins_behind_its_name() {
        assert_eq!(parameter(&of(&["a", "b"], "1\n")), "a.b=1\n");
        assert_eq!(parameter(&of(&["a", "b"], "1\n2\n")), "a.b=\n1\n2\n");
    }
}
