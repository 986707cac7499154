//! Which type and which subsystem an event of the log has, and which lines a mask selects.

use std::sync::Arc;

use fulmar_control::masks::{ALWAYS, Masks};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

use super::{Log, MARKER, messages};

/// The types that targets of events name.
const OWN_TYPES: [&str; 4] = ["rpctrace", "dlmtrace", "ha", "config"];

/// The bits of an event in both masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) types: u32,
    pub(super) subsystem: u32,
}

impl Kind {
    /// Returns that of an event of ours; `None` for those of others.
    pub(super) fn of(metadata: &Metadata<'_>) -> Option<Self> {
        let target = metadata.target();
        if target == messages::TARGET {
            return Some(Self::messages());
        }
        if target == MARKER {
            return Some(Self::named("warning console", "undefined"));
        }
        let subsystem = subsystem(target)?;
        let types = match *metadata.level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "console",
            level => match (own_type(target), level) {
                (Some(named), _) => named,
                // Messages that were dropped.
                (None, Level::DEBUG) if subsystem == "lnet" => "neterror",
                (None, Level::DEBUG) => "info",
                (None, _) => "trace",
            },
        };
        Some(Self::named(types, subsystem))
    }

    /// Returns that of messages of LNet.
    pub(super) fn messages() -> Self {
        Self::named("net", "lnet")
    }

    fn named(types: &str, subsystem: &str) -> Self {
        let (types, subsystem) = (bits(Masks::Types, types), bits(Masks::Subsystems, subsystem));
        Self { types, subsystem }
    }
}

/// Returns the type that the end of a target names, such as `fulmar_server::ldlm::dlmtrace`.
fn own_type(target: &str) -> Option<&str> {
    let (_, last) = target.rsplit_once("::")?;
    OWN_TYPES.contains(&last).then_some(last)
}

/// Returns the subsystem of a module of ours.
fn subsystem(target: &str) -> Option<&'static str> {
    let (name, module) = target.split_once("::").unwrap_or((target, ""));
    Some(match name.strip_prefix("fulmar_")? {
        "server" => match module.split("::").next() {
            Some("osts") => "ost",
            Some("rpc") => "rpc",
            Some("ldlm") => "ldlm",
            Some("mgs") => "mgs",
            _ => "class",
        },
        "mdt" => "mds",
        "ost" => "filter",
        "mgs" => "mgs",
        "rpc" => "rpc",
        "client" => match module.split("::").next() {
            Some("rpc") => "rpc",
            Some("ldlm") => "ldlm",
            _ => "llite",
        },
        _ => "lnet",
    })
}

fn bits(masks: Masks, names: &str) -> u32 {
    names.split(' ').filter_map(|name| masks.bit(name)).sum()
}

/// Which events become lines. Only the masks decide, so the answer for a place in the code holds until
/// one of them changes.
#[derive(Clone)]
pub(super) enum Selection {
    /// Those that the debug log keeps.
    Kept(Arc<Log>),
    /// Those that are printed besides what `FULMAR_LOG` selects.
    Printed(Arc<Log>),
}

impl Selection {
    fn selects(&self, metadata: &Metadata<'_>) -> bool {
        let Some(kind) = Kind::of(metadata) else { return false };
        match self {
            Self::Kept(log) => log.keeps(kind),
            Self::Printed(log) => log.prints(kind),
        }
    }

    /// Returns the types that it may select.
    fn types(&self) -> u32 {
        match self {
            Self::Kept(log) => log.debug.get() | ALWAYS,
            Self::Printed(log) if log.subsystem_printk.get() != 0 => u32::MAX,
            Self::Printed(log) => log.printk.get(),
        }
    }
}

impl<S> Filter<S> for Selection {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.selects(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.selects(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let has = |names: &str| self.types() & bits(Masks::Types, names) != 0;
        Some(match () {
            () if has("net trace rpctrace dlmtrace") => LevelFilter::TRACE,
            () if has("neterror info ha config") => LevelFilter::DEBUG,
            () => LevelFilter::INFO,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_subsystem_of_their_crate() {
        for (target, expected) in [
            ("fulmar_net::notices", Some("lnet")),
            ("fulmar_server::osts::link", Some("ost")),
            ("fulmar_server::live", Some("class")),
            ("fulmar_server::ldlm::dlmtrace", Some("ldlm")),
            ("fulmar_server::rpc::rpctrace", Some("rpc")),
            ("fulmar_server::mgs::config", Some("mgs")),
            ("fulmar_mdt", Some("mds")),
            ("hyper::proto", None),
        ] {
            assert_eq!(subsystem(target), expected, "{target}");
        }
        assert_eq!(own_type("fulmar_server::ldlm::dlmtrace"), Some("dlmtrace"));
        assert_eq!(own_type("fulmar_server::settings"), None);
        assert_eq!(bits(Masks::Types, "warning console"), 0x200_0400);
        assert_eq!(bits(Masks::Types, &OWN_TYPES.join(" ")).count_ones(), 4);
    }
}
