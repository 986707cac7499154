//! Serialization of values as text, by `Display` and `FromStr`.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(value)
}

pub(crate) fn deserialize<'de, T, D>(d: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
}

/// The same for a list.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(all: &[T], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(all.iter().map(ToString::to_string))
    }

    pub(crate) fn deserialize<'de, T, D>(d: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let all = Vec::<String>::deserialize(d)?;
        all.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
    }
}
