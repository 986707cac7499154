//! The parameters of a target, each as a file of a kernel node that is read and, in part, written.

use std::time::Duration;

use fulmar_text::integer;

/// What a parameter shows that the target itself does not know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// The time since 1970.
    pub now: Duration,
    /// The same when the target was started.
    pub started: Duration,
    /// How many clients are connected.
    pub exports: usize,
}

/// Sets a parameter, or says what is wrong with the value.
pub type Write<T> = fn(&T, &str) -> Result<(), String>;

/// A parameter of a target of the type `T`.
pub struct Parameter<T: 'static> {
    /// Its name, where `*` stands for the device of the target: `mdt.*.root_squash`.
    pub name: &'static str,
    /// Returns its value with a line feed at the end; `None` if it is not shown.
    pub read: fn(&T, &Moment) -> Option<String>,
    /// Sets it, or says what is wrong; `None` if it is only read.
    pub write: Option<Write<T>>,
}

impl<T> Parameter<T> {
    /// Returns one that is only read.
    pub const fn shown(name: &'static str, read: fn(&T, &Moment) -> Option<String>) -> Self {
        Self { name, read, write: None }
    }

    /// Returns one that is read and set.
    pub const fn set(
        name: &'static str,
        read: fn(&T, &Moment) -> Option<String>,
        write: Write<T>,
    ) -> Self {
        Self { name, read, write: Some(write) }
    }

    /// Returns the parts of its name for a target such as `lv-MDT0000`.
    pub fn parts(&self, target: &str) -> Vec<String> {
        let device = |area: &str| match area {
            "mdd" => target.replacen("-MDT", "-MDD", 1),
            "lod" => format!("{target}-mdtlov"),
            _ => target.to_owned(),
        };
        let area = self.name.split('.').next().unwrap_or_default();
        let part = |part: &str| if part == "*" { device(area) } else { part.to_owned() };
        self.name.split('.').map(part).collect()
    }
}

/// Returns a value on a line.
pub fn line(value: impl ToString) -> Option<String> {
    Some(value.to_string() + "\n")
}

/// Reads a number of 32 bits, in the notation of C.
///
/// # Errors
/// What is wrong with it.
pub fn number(text: &str) -> Result<u32, String> {
    let number = integer(text.trim()).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("{text:?} is not a number of 0 to {}", u32::MAX))
}

/// Reads a switch: 0 or 1.
///
/// # Errors
/// What is wrong with it.
pub fn switch(text: &str) -> Result<bool, String> {
    match text.trim() {
        "0" | "off" | "n" | "no" | "f" | "false" => Ok(false),
        "1" | "on" | "y" | "yes" | "t" | "true" => Ok(true),
        text => Err(format!("{text:?} is not 0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_a_target_depends_on_the_area() {
        let of = |name| Parameter::<()>::shown(name, |(), _| None).parts("lv-MDT0001").join(".");
        assert_eq!(of("mdt.*.root_squash"), "mdt.lv-MDT0001.root_squash");
        assert_eq!(of("mdd.*.atime_diff"), "mdd.lv-MDD0001.atime_diff");
        assert_eq!(of("lod.*.dom_stripesize"), "lod.lv-MDT0001-mdtlov.dom_stripesize");
        assert_eq!(of("quota.mdt"), "quota.mdt");
    }

    #[test]
    fn values_are_read_as_by_a_kernel_node() {
        assert_eq!((number("0x10"), number(" 010 ")), (Ok(16), Ok(8)));
        assert!(number("4294967296").is_err() && number("-1").is_err() && number("").is_err());
        assert_eq!((switch("1"), switch("off")), (Ok(true), Ok(false)));
        assert!(switch("2").is_err());
    }
}
