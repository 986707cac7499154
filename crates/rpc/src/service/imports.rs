//! The service of callbacks of a client node.

use fulmar_base::Time;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::connect::ConnectData;
use fulmar_lustre_wire::message::Flavor;

use super::server::Server;
use crate::export::TargetId;

impl Server {
    /// Admits callbacks of the server that an import is connected to, at a target of the kind
    /// [`Client`](crate::import::TargetKind::Client). They name `connection`, the import's
    /// [`Target::connection`](crate::import::Target::connection), and are executed as requests whose
    /// export it is. To be called each time that the import is connected, with its flavor and what was granted.
    ///
    /// # Panics
    /// If the target is of another kind, or the handle is none.
    pub fn admit_server(
        &mut self,
        now: Time,
        target: TargetId,
        connection: Handle,
        server: ProcessId,
        flavor: Flavor,
        granted: &ConnectData,
    ) {
        let kind = self.targets[target].config.kind;
        assert!(kind.is_client() && !connection.is_none(), "{kind:?} has no callbacks");
        self.exports.admit_server(now, target, connection, server, flavor, granted);
    }

    /// Refuses callbacks that name `connection` from now on, with ENOTCONN: its import is closed.
    /// Returns whether they were admitted.
    pub fn dismiss_server(&mut self, connection: Handle) -> bool {
        let is_import = self.exports.get(connection).is_some_and(|export| export.is_import());
        is_import && self.exports.remove(connection).is_some()
    }
}
