//! Values that are serialised as the text that people read.

/// Serialises types as their `Display`, or as their `Debug` where they have only that.
macro_rules! as_text {
    (debug: $($name:ty),+ $(,)?) => { $(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&format_args!("{self:?}"))
            }
        }
    )+ };
    ($($name:ty),+ $(,)?) => { $(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+ };
}

pub(crate) use as_text;

/// Serialises a number in hexadecimal: an identifier of which people compare the digits.
pub(crate) fn hex<S: serde::Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{number:#x}"))
}
