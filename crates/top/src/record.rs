//! Recordings: lines of JSON, the first with the names of the nodes, each further one with a round of answers.
//!
//! ```text
//! {"fulmar_top":1,"nodes":["10.0.0.1:9988"]}
//! {"at_ms":1795392111000,"answers":[{"sample":{...}}]}
//! ```

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::{Answer, NODES_MAX};

/// The version of the format.
const VERSION: u64 = 1;
/// The most bytes of a line: more than all nodes of a round can have within their bounds.
pub const LINE_MAX: u64 = 128 << 20;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    fulmar_top: u64,
    /// Where each node was asked.
    pub nodes: Vec<String>,
}

/// What all nodes have answered at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The clock of who asked: milliseconds since 1970.
    pub at_ms: u64,
    /// The answers in the order of the nodes; `None` of those that have not answered since the last round.
    pub answers: Vec<Option<Answer>>,
}

/// Why a line is not one of a recording.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum RecordError {
    #[error("the first line is not that of a recording of fulmar top: {0}")]
    NotARecording(serde_json::Error),
    #[error("it is of version {0} of the format, and this release reads version {VERSION}")]
    Version(u64),
    #[error("it has {0} nodes, and {NODES_MAX} are possible")]
    Nodes(usize),
    #[error("it is not a round of answers: {0}")]
    NotARound(serde_json::Error),
}

impl Header {
    /// Returns the first line of a recording of these nodes.
    pub fn new(nodes: Vec<String>) -> Self {
        Self { fulmar_top: VERSION, nodes }
    }

    /// Returns the line, with a line feed.
    pub fn line(&self) -> String {
        line(self)
    }

    /// Reads the first line.
    ///
    /// # Errors
    /// If it is not one, or of another version.
    pub fn parse(line: &str) -> Result<Self, RecordError> {
        let header: Self = serde_json::from_str(line).map_err(RecordError::NotARecording)?;
        match header {
            Self { fulmar_top, .. } if fulmar_top != VERSION => {
                Err(RecordError::Version(fulmar_top))
            }
            Self { nodes, .. } if nodes.len() > NODES_MAX => Err(RecordError::Nodes(nodes.len())),
            header => Ok(header),
        }
    }
}

impl Round {
    /// Returns the line, with a line feed.
    pub fn line(&self) -> String {
        line(self)
    }

    /// Reads a further line.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse(line: &str) -> Result<Self, RecordError> {
        serde_json::from_str(line).map_err(RecordError::NotARound)
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers are JSON") + "\n"
}
