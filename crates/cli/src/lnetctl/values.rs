//! `lnetctl set` and `lnetctl global`. Spec: lnet-admin §10.

use fulmar_base::Errno;
use fulmar_control::api::{AdminError, GlobalSet, GlobalShow, RoutingSet};
use fulmar_control::config::{BuffersConf, GlobalKey};
use fulmar_control::show::{self, ErrorObject, exit};

use crate::context::{Context, Form, Status, complain};
use crate::shell;

/// Settings that are not a [`GlobalKey`].
const ROUTER: [&str; 4] = ["tiny_buffers", "small_buffers", "large_buffers", "routing"];

#[derive(Debug, clap::Args)]
#[command(after_help = names())]
pub(super) struct Set {
    /// Setting to change
    name: String,
    /// New value, a number
    value: String,
}

/// Returns the settings and their ranges, for the help.
fn names() -> String {
    let mut text = String::from("Settings:\n");
    for key in GlobalKey::ALL.into_iter().filter(|key| *key != GlobalKey::LndTimeout) {
        let (min, max) = key.range();
        let range = match max {
            u32::MAX => format!("{min} or more"),
            _ => format!("{min} to {max}"),
        };
        text += &format!("  {:<28} {range}\n", key.name());
    }
    for name in ROUTER {
        let range = if name == "routing" { "0 to 1" } else { "1 or more" };
        text += &format!("  {name:<28} {range}\n");
    }
    text
}

impl Set {
    pub(super) fn run(self, context: &Context) -> Status {
        let name = self.name.as_str();
        let key = name.parse::<GlobalKey>().ok().filter(|key| *key != GlobalKey::LndTimeout);
        if key.is_none() && !ROUTER.contains(&name) {
            return shell::unknown("lnetctl", name);
        }
        let Some(value) = number(&self.value) else { return self.unreadable(context) };
        if let Some(key) = key {
            let request = GlobalSet { key, value };
            return context.execute(Form::Classic, "add", name, &request);
        }
        let mut request = RoutingSet::default();
        match name {
            "tiny_buffers" => {
                request.buffers = BuffersConf { tiny: Some(value), ..request.buffers }
            }
            "small_buffers" => {
                request.buffers = BuffersConf { small: Some(value), ..request.buffers }
            }
            "large_buffers" => {
                request.buffers = BuffersConf { large: Some(value), ..request.buffers }
            }
            _ if value > 1 => return self.unreadable(context),
            _ => request.enable = Some(value == 1),
        }
        context.execute(Form::Classic, "add", name, &request)
    }

    fn unreadable(&self, context: &Context) -> Status {
        let descr = match self.name.as_str() {
            "routing" => {
                "cannot parse routing value.\nmust be 0 for disable or 1 for enable".to_owned()
            }
            name => format!("cannot parse {name} value"),
        };
        let error = AdminError::new(Errno::EPERM, descr);
        let object = ErrorObject {
            op: "parser".into(),
            object: "set".into(),
            errno: error.errno,
            descr: error.descr,
        };
        complain(&if context.json { object.to_json() } else { object.to_classic() });
        exit::FAILED
    }
}

/// Parses a decimal number, a hexadecimal one (`0x`) or an octal one (`0`), as the C library does.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (text, 10),
    };
    let clean = digits.bytes().all(|b| b.is_ascii_alphanumeric());
    u32::from_str_radix(digits, radix).ok().filter(|_| clean)
}

pub(super) fn global_show(context: &Context) -> Status {
    context.query(Form::Classic, "show", "global", &GlobalShow {}, |globals| {
        context.show(&show::global_show(&globals))
    })
}
