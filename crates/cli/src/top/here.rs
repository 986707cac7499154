//! This machine: its node, and the mounts, which are processes of their own without a control socket.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use fulmar_control::api::{CallError, Client, Place};
use fulmar_top::{Connection, Sample, parameters};

use super::ask::{TIMEOUT, now_ms};
use crate::context::NodeArgs;
use crate::lctl::mount_parameters;
use crate::mounts::mounts;

/// How long all mounts may take to answer.
const MOUNTS_TIMEOUT: Duration = Duration::from_secs(2);

/// The node and the mounts of this machine.
pub(super) struct Here {
    /// `None` if it is the default.
    control: Option<PathBuf>,
    mounts: Mounts,
}

impl Here {
    pub(super) fn new(which: &NodeArgs) -> Self {
        Self { control: which.path().map(PathBuf::from), mounts: Mounts::default() }
    }

    pub(super) fn name(&self) -> String {
        let path = self.control.clone();
        path.map_or_else(|| "this machine".to_owned(), |path| path.display().to_string())
    }

    /// Returns what the node says, with the connections of the mounts; the latter alone where there is no node. As with
    /// `lctl`, a node that is named is asked alone.
    pub(super) fn sample(&mut self) -> Result<Sample, String> {
        let path = self.control.clone().unwrap_or_else(|| Client::at_default().path().to_owned());
        let connections = match self.control {
            Some(_) => Vec::new(),
            None => self.mounts.connections(),
        };
        match Place::Socket(path).sample(TIMEOUT) {
            Ok(sample) => Ok(Sample { connections, ..sample }),
            Err(CallError::NoNode { .. }) if !connections.is_empty() => Ok(Sample {
                at_ms: now_ms(),
                name: "mounts of this machine".to_owned(),
                connections,
                ..Sample::default()
            }),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The reader of the mounts: a mount that does not answer keeps only it waiting.
#[derive(Default)]
struct Mounts {
    reader: Option<(SyncSender<()>, Receiver<Vec<Connection>>)>,
    is_asked: bool,
}

impl Mounts {
    fn connections(&mut self) -> Vec<Connection> {
        if mounts().is_empty() {
            return Vec::new();
        }
        let (question, answers) = self.reader.get_or_insert_with(reader);
        if !self.is_asked {
            self.is_asked = question.try_send(()).is_ok();
        }
        match answers.recv_timeout(MOUNTS_TIMEOUT) {
            Ok(connections) => {
                self.is_asked = false;
                connections
            }
            Err(_) => vec![Connection {
                mount: "of this machine".to_owned(),
                device: "all targets".to_owned(),
                state: "NO ANSWER".to_owned(),
                ..Connection::default()
            }],
        }
    }
}

fn reader() -> (SyncSender<()>, Receiver<Vec<Connection>>) {
    let (question, questions) = sync_channel::<()>(1);
    let (sender, answers) = sync_channel(1);
    // Without a thread there is no answer, which is shown.
    let _ = thread::Builder::new()
        .name("mounts".into())
        .spawn(move || while questions.recv().is_ok() && sender.send(read()).is_ok() {});
    (question, answers)
}

fn read() -> Vec<Connection> {
    let all = mount_parameters::read_all(&parameters::OF_MOUNTS).into_iter();
    parameters::connections(&all.map(|one| (one.name, one.value)).collect::<Vec<_>>())
}
