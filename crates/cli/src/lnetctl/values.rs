//! `lnetctl set` and `lnetctl global`. Spec: lnet-admin §10.

use fulmar_base::Errno;
use fulmar_control::api::{AdminError, GlobalSet, GlobalShow, RoutingSet};
use fulmar_control::config::{BuffersConf, GlobalKey, lenient};
use fulmar_control::show::{self, exit};
use fulmar_control::tool::unknown_command;
use fulmar_lnet::RouterBuffers;
use fulmar_text::integer;

use crate::context::{Context, Form, Status};

/// Settings that are not a [`GlobalKey`].
const ROUTER: [&str; 4] = ["tiny_buffers", "small_buffers", "large_buffers", "routing"];

#[derive(Debug, clap::Args)]
#[command(after_help = names())]
pub(super) struct Set {
    /// Setting to change
    name: String,
    /// New value, a number
    #[arg(allow_negative_numbers = true)]
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
            let text = unknown_command("lnetctl", name);
            context.tell("parser", "set", &text, Errno::EINVAL);
            return exit::FAILED;
        }
        let Some(value) = number(&self.value) else { return self.unreadable(context) };
        if let Some(key) = key {
            let object = match key {
                GlobalKey::MaxRecoveryPingInterval => "maximum recovery ping interval",
                _ => name,
            };
            return match lenient(key, value) {
                Ok(value) => {
                    let request = GlobalSet { key, value };
                    context.execute(Form::Classic, "add", object, &request)
                }
                Err(why) => {
                    let error = AdminError::global_set(key, why);
                    context.refuse(Form::Classic, "add", object, &error)
                }
            };
        }
        self.set_routing(value, context)
    }

    fn set_routing(&self, value: i64, context: &Context) -> Status {
        let name = self.name.as_str();
        if name == "routing" && !matches!(value, 0 | 1) {
            return self.unreadable(context);
        }
        let usual = RouterBuffers::default();
        let value = match (value, name) {
            // 0 is for the default, and -1 for no change.
            (-1, _) => return context.execute(Form::Classic, "add", name, &RoutingSet::default()),
            (0, "tiny_buffers") => usual.tiny,
            (0, "small_buffers") => usual.small,
            (0, "large_buffers") => usual.large,
            _ => match u32::try_from(value) {
                Ok(value) => value,
                Err(_) => {
                    let descr = "tiny, small and large must be >= 0";
                    let error = AdminError::new(Errno::ERANGE, descr);
                    return context.refuse(Form::Classic, "add", "buf", &error);
                }
            },
        };
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
            _ => request.enable = Some(value == 1),
        }
        context.execute(Form::Classic, "add", name, &request)
    }

    fn unreadable(&self, context: &Context) -> Status {
        context.reject(
            "parser",
            "set",
            &match self.name.as_str() {
                "routing" => {
                    "cannot parse routing value.\nmust be 0 for disable or 1 for enable".to_owned()
                }
                name => format!("cannot parse {name} value"),
            },
        )
    }
}

/// Parses a number in the notation of C, which may be negative.
fn number(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let number = i64::try_from(integer(digits)?).ok()?;
    Some(if is_negative { -number } else { number })
}

pub(super) fn global_show(context: &Context) -> Status {
    context.query(Form::Classic, "show", "global", &GlobalShow {}, |globals| {
        context.show(&show::global_show(&globals))
    })
}
