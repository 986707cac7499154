//! The error objects of `lnetctl`, and its exit statuses. Spec: lnet-admin §1.3, §2.

use crate::value::{Dialect, Family, Map, MapExt, Quotes, Report, Value};

/// The report of a failed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorObject {
    /// `add`, `set`, `del`, `show`, `manage`, `import`, `parser`, ….
    pub op: String,
    /// The object of the command: `net`, `peer`, ….
    pub object: String,
    /// A negative error number.
    pub errno: i32,
    /// What failed.
    pub descr: String,
    /// What to do.
    pub hint: Option<String>,
}

impl ErrorObject {
    /// Returns the text of the commands that changed in 2.16: net, peer, route, import, …. In
    /// [`Dialect::Netlink`] it is a separate document.
    pub fn to_listing(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Netlink => {
                let body = self.report(Family::Listing, Quotes::TaggedDouble).to_yaml(dialect);
                format!("---\n{body}...\n")
            }
            Dialect::Cyaml => self.to_classic(),
        }
    }

    /// Returns the text of the commands that did not change: stats, global, set, ….
    pub fn to_classic(&self) -> String {
        let mut inner = Map::new();
        inner.put("errno", self.errno);
        inner.put(
            "descr",
            if self.is_of_the_tool() {
                Value::Text(self.descr.clone())
            } else {
                Value::Described(Quotes::Double, self.descr.clone())
            },
        );
        let item: Map = vec![(self.object.clone(), inner.into())];
        let block = vec![(self.op.clone(), Value::from_iter([item]))];
        Report::one(Family::Classic, block).to_yaml(Dialect::Cyaml)
    }

    /// Returns the same as JSON, with the hint.
    pub fn to_json(&self) -> String {
        let mut item = self.item(Quotes::Double);
        item.put_some("hint", self.hint.clone());
        Report::one(Family::Classic, vec![(self.op.clone(), Value::from_iter([item]))]).to_json()
    }

    /// Returns whether the tool itself has refused an argument: such texts have no quotes.
    fn is_of_the_tool(&self) -> bool {
        self.op == "parser" || (self.errno == -1 && matches!(self.op.as_str(), "ni" | "net"))
    }

    pub(crate) fn report(&self, family: Family, quotes: Quotes) -> Report {
        Report::one(family, vec![(self.op.clone(), Value::from_iter([self.item(quotes)]))])
    }

    fn item(&self, quotes: Quotes) -> Map {
        let mut item = Map::new();
        item.put(&self.object, Value::Empty);
        item.put("errno", self.errno);
        item.put("descr", Value::Described(quotes, self.descr.clone()));
        item
    }
}

/// Exit statuses. Those of ioctl commands are the low byte of a negative error number.
pub mod exit {
    /// A part of an import was refused.
    pub const PARTLY: u8 = 1;
    /// A generic failure, an unknown command, an unanswered ping.
    pub const FAILED: u8 = 255;
    /// There is no node.
    pub const NO_NODE: u8 = 254;
    /// An invalid parameter, missing arguments, any error of a command that changed in 2.16.
    pub const BAD_PARAM: u8 = 234;

    /// Returns the status for a negative error number.
    pub fn of_errno(errno: i32) -> u8 {
        errno as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_the_low_byte() {
        assert_eq!([-22, -17, -110, -34, -2].map(exit::of_errno), [234, 239, 146, 222, 254]);
    }

    #[test]
    fn the_older_form_has_the_fields_inside_the_object() {
        let error = |op: &str, object: &str, errno, descr: &str| ErrorObject {
            op: op.into(),
            object: object.into(),
            errno,
            descr: descr.into(),
            hint: None,
        };
        assert_eq!(
            error("show", "statistics", -2, "cannot get lnet statistics: No such file")
                .to_classic(),
            "show:\n    - statistics:\n          errno: -2\n          \
             descr: \"cannot get lnet statistics: No such file\"\n"
        );
        assert_eq!(
            error("parser", "set", -1, "cannot parse discovery value").to_classic(),
            "parser:\n    - set:\n          errno: -1\n          descr: cannot parse discovery value\n"
        );
    }
}
