//! Reading what is no log: the tables of NIDs and the nodemaps.

use fulmar_wire::{wire_enum, wire_struct};
use serde::Serialize;

use crate::Text;

wire_enum! {
    /// What is read. Spec: ptlrpc-ldlm-mgs §32.1.
    #[derive(Default)]
    pub struct ConfigReadKind(u16) {
        /// A log, which is not read in this way.
        CONFIG = 0,
        /// A table of NIDs.
        RECOVER = 2,
        /// The nodemaps.
        NODEMAP = 4,
    }
}

wire_struct! {
    /// A request for a table: 80 bytes. Spec: ptlrpc-ldlm-mgs §32.1.
    #[doc(alias = "mgs_config_body")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct ConfigRead {
        pub name: Text<64>,
        /// The first wanted version; of nodemaps the hash to go on at.
        pub offset: u64,
        pub kind: ConfigReadKind,
        /// The largest NID that the reader understands in bytes: 20, or 0 for small ones. Of
        /// nodemaps the pass.
        pub nid_size: u8,
        /// The logarithm of the unit in bytes.
        pub unit_bits: u8,
        /// The room for the bulk in units.
        pub units: u32,
    }
}

wire_struct! {
    /// The reply to [`ConfigRead`]: 16 bytes. Spec: ptlrpc-ldlm-mgs §32.1.
    #[doc(alias = "mgs_config_res")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct ConfigReadReply {
        /// The version of the last entry of the bulk; of nodemaps the hash to go on at.
        pub offset: u64,
        /// The newest version of the table; of nodemaps the pass.
        pub size: u64,
    }
}

wire_struct! {
    /// Sets a parameter: 1024 bytes. Spec: ptlrpc-ldlm-mgs §11.3.
    #[doc(alias = "mgs_send_param")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct SetParam {
        /// `name=value`.
        pub parameter: Text<1024>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { ConfigRead = 80, ConfigReadReply = 16, SetParam = 1024 }
}
