//! Changes that an administrator makes at the management service.

use serde::{Deserialize, Serialize};

/// A change of a pool of OSTs, which are given by their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolChange {
    /// Make it.
    New,
    /// Add an OST.
    Add(String),
    /// Remove an OST.
    Remove(String),
    /// Destroy it.
    Destroy,
}

/// A change of nodemaps. All but the first are of the one with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum NodemapChange {
    /// Use them, or not.
    Activate(bool),
    Add,
    Del,
    /// NIDs such as `10.0.0.[1-9]@tcp`.
    AddRange(String),
    DelRange(String),
    /// A property and its value.
    Modify(String, String),
    /// `uid`, `gid` or `projid`, and `CLIENT[-CLIENT]:FS`.
    AddIdmap(String, String),
    DelIdmap(String, String),
    /// The first id in the file system, and how many there are.
    AddOffset(u32, u32),
    DelOffset,
    /// The root of the clients; empty for that of the file system.
    SetFileset(String),
}
