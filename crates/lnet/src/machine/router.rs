//! Being a router: what follows from the state of forwarding. Spec: lnet-behaviour §8.5, §8.7.

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lnet_wire::{Body, Header, RESERVED_PORTAL};

use super::Lnet;
use super::message::{Arrival, RouterHold};
use crate::api::Output;
use crate::notice::Notice;
use crate::routing::{Buffer, Forwarding, RouterBuffers, RoutingConfig, Step};
use crate::views::{self, RoutingState};

impl Lnet {
    /// Returns whether messages for others are forwarded.
    pub(super) fn forwards(&self) -> bool {
        self.routing.forwards()
    }

    /// Switches forwarding. Spec: lnet-behaviour §8.7.
    ///
    /// # Errors
    /// EBUSY if it is to be enabled while it is being stopped.
    pub fn set_forwarding(&mut self, now: Time, forwarding: Forwarding) -> Result<(), Errno> {
        if let Some(step) = self.routing.switch(now, forwarding)? {
            self.follow(now, step);
        }
        self.settle(now);
        Ok(())
    }

    /// Forwards from the start, as module parameters say.
    pub(super) fn start_router(&mut self, now: Time) {
        if let Some(step) = self.routing.start(now) {
            self.follow(now, step);
        }
    }

    /// Changes how many router buffers there may be. Those in use stay until their messages are
    /// gone.
    ///
    /// # Errors
    /// EINVAL if there are none of a class.
    pub fn set_router_buffers(&mut self, now: Time, buffers: RouterBuffers) -> Result<(), Errno> {
        let woken = self.routing.set_buffers(buffers)?;
        self.go_on(woken, RouterHold::Buffer);
        self.settle(now);
        Ok(())
    }

    /// Returns the state of the router that this node is.
    pub fn routing(&self) -> views::Routing {
        self.routing.view()
    }

    /// Returns what routing was configured with.
    pub fn routing_config(&self) -> &RoutingConfig {
        self.routing.config()
    }

    /// Does what a change of the state of forwarding requires.
    pub(super) fn follow(&mut self, now: Time, step: Step) {
        let Step { state, opened, advertised, push } = step;
        if opened {
            for ni in &mut self.nis {
                ni.pinged = now;
            }
        }
        if advertised {
            self.info_edited();
        }
        if state == RoutingState::Disabled {
            self.close_router(now);
        }
        self.notice(Notice::Routing { state });
        if push {
            self.peers.force_push();
        }
    }

    /// Stops forwarding: what waits is dropped, what is here whole is still sent.
    fn close_router(&mut self, now: Time) {
        for id in self.messages.waiting_in_transit() {
            self.drop_waiting(now, id, "this router has been switched off");
        }
        let freed = self.routing.free_buffers();
        self.free(freed);
        for ni in &mut self.nis {
            ni.silent = false;
        }
    }

    fn free(&mut self, buffers: Vec<BufferId>) {
        self.outputs.extend(buffers.into_iter().map(|buffer| Output::Release { buffer }));
    }

    /// Returns memory for a message that was given a buffer of `class`.
    pub(super) fn buffer(&mut self, class: usize) -> Option<BufferId> {
        let Buffer { id: buffer, len, is_new } = self.routing.buffer(class)?;
        if is_new {
            self.outputs.push_back(Output::Allocate { buffer, len });
        }
        Some(buffer)
    }

    /// Receives the memory of a message back.
    pub(super) fn keep_buffer(&mut self, class: usize, buffer: Option<BufferId>) {
        if let Some(buffer) = buffer {
            let freed = self.routing.keep_buffer(class, buffer);
            self.free(freed);
        }
    }

    /// Notes a ping, which shows that a node of the network counts on this router.
    /// Spec: lnet-behaviour §5.2, row 4.
    pub(super) fn note_ping(&mut self, now: Time, arrival: Arrival, header: &Header) {
        let asks = matches!(header.body, Body::Get { portal: RESERVED_PORTAL, .. });
        if !asks || !self.forwards() || self.ni_of(header.source).is_some() {
            return;
        }
        let net = arrival.ni.net();
        let mut changed = false;
        for ni in self.nis.iter_mut().filter(|ni| ni.config.nid.net() == net) {
            ni.pinged = now;
            changed |= std::mem::take(&mut ni.silent);
        }
        if changed {
            self.status_changed();
        }
    }

    /// Reports interfaces as down from which no node has asked for this router for long: those on
    /// the other side then use another path. Spec: lnet-behaviour §8.8.
    pub(super) fn find_silent_nets(&mut self, now: Time) {
        let Some(limit) = self.routing.silence_due(now) else { return };
        let mut changed = false;
        for ni in self.nis.iter_mut().filter(|ni| now.since(ni.pinged) > limit) {
            changed |= !std::mem::replace(&mut ni.silent, true);
        }
        if changed {
            self.status_changed();
        }
    }
}
