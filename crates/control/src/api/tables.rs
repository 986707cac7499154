//! The statistics files of a node, with the names that a kernel node has for them.

use fulmar_base::Errno;

use super::error::AdminError;
use super::operations::{Admin, NetShow, PeerShow, RouteShow, RoutersShow, RoutingShow, StatsShow};
use crate::show::tables;

/// Their names.
pub const TABLES: [&str; 6] = ["buffers", "nis", "peers", "routers", "routes", "stats"];

/// Returns the content of a file.
///
/// # Errors
/// If there is none of this name, or the node does not answer.
pub fn table(admin: &dyn Admin, name: &str) -> Result<String, AdminError> {
    Ok(match name {
        "nis" => tables::nis(&admin.net_show(NetShow::default())?),
        "peers" => tables::peers(&admin.peer_show(PeerShow::default())?),
        "stats" => tables::stats(&admin.stats_show(StatsShow {})?),
        "routers" => tables::routers(&admin.routers_show(RoutersShow {})?),
        "routes" => {
            let routing = admin.routing_show(RoutingShow {})?;
            tables::routes(&routing, &admin.route_show(RouteShow {})?)
        }
        "buffers" => tables::buffers(&admin.routing_show(RoutingShow {})?),
        _ => {
            let error = AdminError::new(Errno::ENOENT, format!("there is no table \"{name}\""));
            return Err(error.with_hint(format!("there are {}", TABLES.join(", "))));
        }
    })
}
