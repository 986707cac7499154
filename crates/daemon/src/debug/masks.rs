//! The parameters of the log: its masks, its length, and the file for marks. A node and the process of a mount have them.

use fulmar_base::Errno;
use fulmar_control::api::AdminError;
use fulmar_control::masks::Masks;
use fulmar_net::Admin;
use fulmar_text::integer;

use super::{Log, MEGABYTE, MEGABYTES_MAX, Mask};
use crate::admin::Result;

impl Log {
    /// The names of the parameters.
    pub(crate) const PARAMETERS: [&str; 6] =
        ["debug", "debug_marker", "debug_mb", "printk", "subsystem_debug", "subsystem_printk"];

    /// Returns a mask by the name of its parameter.
    fn mask(&self, name: &str) -> Option<(Masks, &Mask)> {
        Some(match name {
            "debug" => (Masks::Types, &self.debug),
            "printk" => (Masks::Types, &self.printk),
            "subsystem_debug" => (Masks::Subsystems, &self.subsystem_debug),
            "subsystem_printk" => (Masks::Subsystems, &self.subsystem_printk),
            _ => return None,
        })
    }

    /// Returns the value of a parameter, if it can be read.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        if name == "debug_mb" {
            return Some(format!("{}\n", self.ring().limit() / MEGABYTE));
        }
        let (masks, mask) = self.mask(name)?;
        Some(masks.text(mask.get()) + "\n")
    }

    /// Sets a parameter, or marks the log. A mask also decides who observes the node.
    pub(crate) fn write(&self, node: &Admin, name: &str, text: &str) -> Result<()> {
        if let Some((masks, mask)) = self.mask(name) {
            let value =
                masks.parse(text, mask.get()).map_err(|error| invalid(error.to_string()))?;
            self.set(mask, value);
            let observed = node.observe(self.observer());
            return observed.map_err(|errno| AdminError::new(errno, "cannot observe the node"));
        }
        match (name, text.trim_end_matches('\n')) {
            ("debug_marker", "clear") => drop(self.take()),
            ("debug_marker", text) => Self::mark(text),
            ("debug_mb", text) => self.set_megabytes(text)?,
            _ => return Err(invalid(format!("the log has no {name}"))),
        }
        Ok(())
    }

    /// Changes how much memory lines may take, within its limits.
    fn set_megabytes(&self, text: &str) -> Result<()> {
        let wanted = integer(text.trim()).ok_or_else(|| invalid("debug_mb is a number of MB"))?;
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let set = wanted.clamp(1, MEGABYTES_MAX);
        if set != wanted {
            tracing::warn!(
                "the debug log has {set} MB, since {wanted} is not 1 to {MEGABYTES_MAX}"
            );
        }
        self.ring().set_limit(set * MEGABYTE);
        Ok(())
    }
}

fn invalid(what: impl Into<String>) -> AdminError {
    AdminError::new(Errno::EINVAL, what)
}
