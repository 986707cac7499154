//! JSON: NIDs and sets of them are text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Net, Nid, NidMatch, ProcessId, Selector};

macro_rules! as_text {
    ($($name:ident),+) => { $(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+ };
}

as_text!(Net, Nid, ProcessId, Selector, NidMatch);
