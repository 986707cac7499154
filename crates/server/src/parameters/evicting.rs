//! Clients that an administrator evicts, by `mdt.*.evict_client` and `obdfilter.*.evict_client`: who waits for a lock
//! of a client that is gone need not wait until the target gives that one up.

use fulmar_lustre_wire::Handle;
use fulmar_rpc::export::{Eviction, Export, TargetId};
use fulmar_text::pattern::selects;

use super::{Parameters, Unset};
use crate::roster::Service;

/// The name of the parameter, which is only set.
const NAME: &str = "evict_client";

impl Parameters {
    /// Evicts the clients with a NID or a UUID from the targets whose parameters a pattern selects, if it ends with the
    /// name. Returns the names of these parameters.
    ///
    /// # Errors
    /// If there is no such client.
    pub(super) fn evict_clients(&self, pattern: &str, value: &str) -> Result<Vec<String>, Unset> {
        if pattern.rsplit('.').next() != Some(NAME) {
            return Ok(vec![]);
        }
        // As for a kernel server, the kind may be told.
        let client = ["nid:", "uuid:"].iter().find_map(|kind| value.strip_prefix(kind));
        let client = client.unwrap_or(value).trim();
        let (mut names, mut count) = (vec![], 0);
        for (target, listed) in self.roster.served() {
            let area = match listed.service {
                Service::Mgs(_) => continue,
                Service::Mdt(_) => "mdt",
                Service::Ost(_) => "obdfilter",
            };
            let parts = [area, &listed.device.name, NAME].map(str::to_owned);
            if selects(pattern, &parts) {
                names.push(parts.join("."));
                count += self.evict(target, client);
            }
        }
        match names.first() {
            Some(name) if count == 0 => {
                let why = format!("there is no client with the NID or the UUID {client}");
                Err(Unset::Invalid { name: name.clone(), why })
            }
            _ => Ok(names),
        }
    }

    /// Evicts clients from a target, and returns how many.
    fn evict(&self, target: TargetId, client: &str) -> usize {
        let is_meant = |export: &Export| {
            let names = [export.client.to_string(), export.peer.nid.to_string()];
            export.target == target && names.iter().any(|name| name == client)
        };
        let evicted = self.running.call(|targets, now| {
            targets.with_server(now, |server| {
                let exports = server.exports().iter().filter(|(_, export)| is_meant(export));
                let meant: Vec<Handle> = exports.map(|(handle, _)| handle).collect();
                for export in &meant {
                    server.evict(now, *export, Eviction::Administrator);
                }
                meant.len()
            })
        });
        // A node that has failed has no clients.
        evicted.unwrap_or(0)
    }
}
