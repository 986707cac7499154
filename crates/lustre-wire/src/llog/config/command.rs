//! What a configuration record does.

use fulmar_wire::wire_enum;

wire_enum! {
    /// What a configuration record does. Spec: ptlrpc-ldlm-mgs §30.
    ///
    /// A node that does not know a command with [`ConfigCommand::REQUIRED`] must stop.
    #[doc(alias = "lcfg_command_type")]
    pub struct ConfigCommand(u32) {
        /// Create a device.
        ATTACH = 0x000c_f001,
        /// Remove a device.
        DETACH = 0x000c_f002,
        /// Start a device.
        SETUP = 0x000c_f003,
        /// Stop a device.
        CLEANUP = 0x000c_f004,
        /// Give a node a NID.
        ADD_UUID = 0x000c_f005,
        /// Forget a node.
        DEL_UUID = 0x000c_f006,
        /// Name the devices of a mount.
        MOUNTOPT = 0x000c_f007,
        /// Forget the devices of a mount.
        DEL_MOUNTOPT = 0x000c_f008,
        /// Set `timeout`.
        SET_TIMEOUT = 0x000c_f009,
        /// Set the upcall.
        SET_UPCALL = 0x000c_f00a,
        /// Add a node to a target.
        ADD_CONN = 0x000c_f00b,
        /// Remove a node from a target.
        DEL_CONN = 0x000c_f00c,
        /// Add an OST.
        LOV_ADD_OBD = 0x000c_f00d,
        /// Remove an OST.
        LOV_DEL_OBD = 0x000c_f00e,
        /// Set a parameter of a device.
        PARAM = 0x000c_f00f,
        /// The start or the end of records that belong together.
        MARKER = 0x000c_f010,
        /// The start of a log.
        LOG_START = 0x000c_e011,
        /// The end of a log.
        LOG_END = 0x000c_e012,
        /// Add an inactive OST.
        LOV_ADD_INA = 0x000c_e013,
        /// Add an MDT.
        ADD_MDC = 0x000c_f014,
        /// Remove an MDT.
        DEL_MDC = 0x000c_f015,
        /// Set a rule of the security.
        SPTLRPC_CONF = 0x000c_e016,
        /// Create a pool.
        POOL_NEW = 0x000c_e020,
        /// Add an OST to a pool.
        POOL_ADD = 0x000c_e021,
        /// Remove an OST from a pool.
        POOL_REM = 0x000c_e022,
        /// Destroy a pool.
        POOL_DEL = 0x000c_e023,
        /// Set `ldlm_timeout`.
        SET_LDLM_TIMEOUT = 0x000c_e030,
        /// Prepare to stop a device.
        PRE_CLEANUP = 0x000c_f031,
        /// Set a parameter of every node that it fits.
        SET_PARAM = 0x000c_e032,
    }
}

impl ConfigCommand {
    /// The bit of commands that a node must know.
    #[doc(alias = "LCFG_REQUIRED")]
    pub const REQUIRED: u32 = 0x1000;

    /// Returns whether a node that does not know the command must stop.
    pub fn is_required(self) -> bool {
        self.0 & Self::REQUIRED != 0
    }
}
