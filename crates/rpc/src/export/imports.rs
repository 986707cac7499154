//! The imports of a client node, as its service of callbacks sees them: its servers send requests that
//! name a connection. Spec: ptlrpc-ldlm-mgs §22.

use fulmar_base::Time;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::ConnectData;
use fulmar_lustre_wire::message::Flavor;
use fulmar_lustre_wire::{Handle, Uuid};

use super::{Export, Exports, TargetId};

impl Exports {
    /// Admits the server of an import: its requests name `connection`. Replaces what was known of the
    /// connection, since a server that is reached again may count anew.
    pub fn admit_server(
        &mut self,
        now: Time,
        target: TargetId,
        connection: Handle,
        server: ProcessId,
        flavor: Flavor,
        granted: &ConnectData,
    ) {
        self.remove(connection);
        // No two connections have the same.
        let client = Uuid::new(&connection.to_string()).unwrap_or_default();
        let export = Export {
            connection,
            flavor,
            flags: granted.flags,
            flags2: granted.flags2,
            is_import: true,
            ..Export::new(now, target, client, server)
        };
        self.add(connection, export);
    }
}

impl Export {
    /// Returns whether requests may come: the client has connected, or this is an import.
    pub fn is_connected(&self) -> bool {
        self.is_import || self.connection_count > 0
    }

    /// Returns whether this is an import of this node, whose server sends callbacks.
    pub fn is_import(&self) -> bool {
        self.is_import
    }
}
