//! Faults of interfaces and routers, and actions of administrators on them.

use fulmar_base::Errno;
use fulmar_lnet::Forwarding;

use super::{HostId, Port, World};
use crate::words;

impl World {
    /// Cuts the link of an interface. With `reported` its node is notified; without, packets are
    /// lost silently, as behind a switch.
    pub fn cut_link(&mut self, port: Port, reported: bool) {
        self.note(
            port.host,
            &port.to_string(),
            format_args!("FAULT link cut, reported {reported}"),
        );
        let link = self.link_mut(port);
        link.cut = true;
        link.down |= reported;
        if reported {
            self.notify_links(port.host);
        }
    }

    /// Restores a link; TCP retransmits the lost data.
    pub fn restore_link(&mut self, port: Port) {
        let link = self.link_mut(port);
        if !std::mem::take(&mut link.cut) {
            return;
        }
        let reported = std::mem::take(&mut link.down);
        self.note(port.host, &port.to_string(), format_args!("FAULT link restored"));
        if reported {
            self.notify_link(port, true);
        }
    }

    /// Makes an interface refuse all connections, or accept them again.
    pub fn refuse_connections(&mut self, port: Port, refuse: bool) {
        self.note(
            port.host,
            &port.to_string(),
            format_args!("FAULT refuses connections: {refuse}"),
        );
        self.link_mut(port).refuses = refuse;
    }

    /// Removes an interface, unless the node is down or would have none left.
    pub fn remove_ni(&mut self, port: Port) {
        let left = self.host(port.host).links.iter().filter(|link| !link.removed).count();
        if left < 2 || self.link_mut(port).removed {
            return;
        }
        let (now, nid) = (self.shown(port.host), self.nid_of(port));
        let Some(node) = &mut self.host_mut(port.host).node else { return };
        let removed = node.admin(now).remove_ni(nid);
        self.note(
            port.host,
            &port.to_string(),
            format_args!("FAULT remove {nid}: {}", words::done(Some(&removed))),
        );
        self.link_mut(port).removed = true;
        self.drain(port.host);
        if removed.is_err() {
            self.broken(port.host, format!("{nid} cannot be removed: {removed:?}"));
        }
    }

    /// Adds a removed interface again.
    pub fn add_ni(&mut self, port: Port) {
        if !std::mem::take(&mut self.link_mut(port).removed) {
            return;
        }
        // Unique, like nanoseconds of a wall clock.
        let incarnation = (self.now.0 + 1) << 12 | u64::from(port.host.0 & 0xfff);
        let (now, ni) = (self.shown(port.host), self.ni_config(port, incarnation));
        let Some(node) = &mut self.host_mut(port.host).node else { return };
        let added = node.admin(now).add_ni(ni);
        self.note(
            port.host,
            &port.to_string(),
            format_args!("FAULT add again: {}", words::done(Some(&added))),
        );
        if added.is_err() {
            self.broken(port.host, format!("{port} cannot be added: {added:?}"));
        }
        // The routes on its network were removed with it; adding the others again fails.
        for route in self.routes.get(&port.host).cloned().unwrap_or_default() {
            let _ = self.admin(port.host, |admin| admin.route_add(route));
        }
        self.drain(port.host);
        self.notify_links(port.host);
    }

    /// Enables or disables an interface, as an administrator would.
    pub fn switch_ni(&mut self, port: Port, enabled: bool) {
        let nid = self.nid_of(port);
        let done = self.admin(port.host, |admin| admin.set_ni_enabled(nid, enabled));
        let subject = port.to_string();
        self.note(
            port.host,
            &subject,
            format_args!(
                "FAULT {}: {}",
                if enabled { "enable" } else { "disable" },
                words::done(done.as_ref())
            ),
        );
    }

    /// Sets the forwarding state of a router, as an administrator would. Returns the result, unless
    /// the node is down.
    pub fn set_forwarding(&mut self, host: HostId, word: Forwarding) -> Option<Result<(), Errno>> {
        let done = self.admin(host, |admin| admin.set_forwarding(word));
        self.note(
            host,
            "-",
            format_args!(
                "FAULT forwarding: {}: {}",
                words::forwarding(word),
                words::done(done.as_ref())
            ),
        );
        done
    }

    /// Restores all links and interfaces.
    pub(super) fn heal_rails(&mut self) {
        if self.options.rails.is_none() {
            return;
        }
        for port in self.host_ids().flat_map(|host| self.options.ports(host)).collect::<Vec<_>>() {
            self.restore_link(port);
            self.link_mut(port).refuses = false;
            self.add_ni(port);
            self.switch_ni(port, true);
        }
    }

    /// Notifies a node of its links that are down.
    pub(super) fn notify_links(&mut self, host: HostId) {
        for port in self.options.ports(host) {
            if self.link(port).down && !self.link(port).removed {
                self.notify_link(port, false);
            }
        }
    }

    fn notify_link(&mut self, port: Port, up: bool) {
        let (now, nid) = (self.shown(port.host), self.nid_of(port));
        if let Some(node) = &mut self.host_mut(port.host).node {
            node.handle_link(now, nid, up);
        }
        self.drain(port.host);
    }
}
