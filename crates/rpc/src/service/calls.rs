//! Requests of a server to its clients.

use fulmar_base::Time;
use fulmar_lnet::ServiceOutput;
use fulmar_lustre_wire::Handle;

use super::Task;
use super::server::Server;
use crate::XidSource;
use crate::handles::HandleSource;
use crate::reverse::{Call, CallId, Output, Reverse};
use crate::timeouts::Limits;

impl Server {
    /// Sends a request to the client of an export; [`Task::Called`] follows. `None` if it is not
    /// connected.
    pub fn call(&mut self, now: Time, export: Handle, call: Call) -> Option<CallId> {
        let client = self.exports.get(export).filter(|client| client.connection_count > 0)?;
        let id = self.reverse.call(now, export, client, call);
        self.drain_calls();
        Some(id)
    }

    /// Ends a call of which nothing more is to be known, such as a callback about a lock that the
    /// client has given up. Returns whether it was under way.
    pub fn forget_call(&mut self, now: Time, id: CallId) -> bool {
        let was_active = self.reverse.forget(now, id);
        self.drain_calls();
        was_active
    }

    /// Ends the calls to a client that is gone.
    pub(super) fn end_calls_of(&mut self, export: Handle) {
        self.reverse.gone(export);
        self.drain_calls();
    }

    /// Sends what a client has not answered to its new connection.
    pub(super) fn repeat_calls_of(&mut self, now: Time, export: Handle) {
        if let Some(client) = self.exports.get(export) {
            self.reverse.reconnected(now, export, client);
        }
        self.drain_calls();
    }

    /// Passes on what the calls want.
    pub(super) fn drain_calls(&mut self) {
        while let Some(output) = self.reverse.poll_output() {
            self.outputs.push_back(match output {
                Output::Post(op) => ServiceOutput::Post(op),
                Output::Called { export, call, result } => {
                    let result = result.map(Box::new);
                    ServiceOutput::Host(Task::Called { export, call, result })
                }
            });
        }
    }
}

/// Returns the calls of a server with this key, whose numbers begin at random.
pub(super) fn reverse(key: u128, limits: Limits) -> Reverse {
    // Another key than that of the handles, which numbers must not show.
    let random = HandleSource::new(!key).issue().0;
    Reverse::new(XidSource::at_random(random), limits)
}
