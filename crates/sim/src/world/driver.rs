//! Executes the outputs of nodes: the counterpart of the real driver.

use std::time::Duration;

use fulmar_base::{ConnId, Payload, Sink, Span};
use fulmar_lnd::Stream;
use fulmar_lnet::{Batch, CopyId, Event, EventDone, Service};
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::selftest::Usage;
use fulmar_lnet_wire::socklnd::{FrameHeader, FrameKind};
use fulmar_lnet_wire::{Body, Header, RESERVED_PORTAL};
use fulmar_node::Output;
use fulmar_selftest::{HostRequest, SelftestService, Task};
use fulmar_wire::Order;

use super::host::SELFTEST;
use super::{ArmedDefect, HostId, HostTask, ScheduledEvent, World};
use crate::options::Defect;
use crate::signal::Signal;
use crate::words;

impl World {
    /// Executes all outputs of a node and its services, and arms its timer.
    pub(super) fn drain(&mut self, host: HostId) {
        loop {
            while let Some(output) = self.host_mut(host).node.as_mut().and_then(|n| n.poll_output())
            {
                self.output(host, output);
            }
            if !self.serve_selftest(host) {
                break;
            }
        }
        self.touched.insert(host);
        self.arm(host);
    }

    /// Executes the posts and the next host request of the selftest. Returns whether there were
    /// any.
    fn serve_selftest(&mut self, host: HostId) -> bool {
        let now = self.shown(host);
        let this = self.host_mut(host);
        let (Some(node), Some(selftest)) = (&mut this.node, &mut this.selftest) else {
            return false;
        };
        let Some(mut batch) = Batch::take(selftest) else { return false };
        let mut results = Vec::with_capacity(batch.ops.len());
        let ops = std::mem::take(&mut batch.ops);
        node.service(now, SELFTEST).post(ops, |result| results.push(result));
        batch.report(now, selftest, results);
        if let Some(request) = batch.request {
            self.request(host, request);
        }
        true
    }

    /// Executes a host request of the selftest.
    fn request(&mut self, host: HostId, request: HostRequest) {
        let now = self.shown(host);
        match request {
            HostRequest::Task(Task::Allocate { buffer, len, contents }) => {
                self.allocate(host, buffer, len, contents);
            }
            HostRequest::Task(Task::Release { buffer }) => self.release(host, buffer),
            HostRequest::Task(Task::Damage { span, .. }) => self.damage(host, span),
            HostRequest::Task(Task::Check { id, span, .. }) => {
                let found = self.check_memory(host, span);
                self.with_selftest(host, |selftest| selftest.handle_checked(now, id, found));
            }
            HostRequest::Task(Task::Measure { id }) => {
                let usage = Usage::default();
                self.with_selftest(host, |selftest| selftest.handle_measured(now, id, usage));
            }
            HostRequest::Count { id } => {
                let Some(stats) = self.node(host).map(|node| node.lnet().stats()) else { return };
                self.with_selftest(host, |selftest| selftest.handle_counted(now, id, &stats));
            }
            HostRequest::Answer { command, answer } => {
                let subject = format!("c{}", command.0);
                self.log.line(self.now, host, subject, format_args!("{}", words::answer(&answer)));
                self.signals.push_back(Signal::Commanded { host, command, answer });
            }
            HostRequest::Notice(notice) => {
                self.log.line(self.now, host, "-", format_args!("notice {notice}"));
                self.signals.push_back(Signal::SelftestNotice { host, notice });
            }
        }
    }

    fn with_selftest(&mut self, host: HostId, call: impl FnOnce(&mut SelftestService)) {
        if let Some(selftest) = &mut self.host_mut(host).selftest {
            call(selftest);
        }
    }

    fn output(&mut self, host: HostId, output: Output) {
        match output {
            Output::Stream(Stream::Dial { conn, local, remote }) => {
                self.dial(host, conn, local, remote);
            }
            Output::Stream(Stream::Write { conn, head, payload, .. }) => {
                self.write(host, conn, head, payload);
            }
            Output::Stream(Stream::Close { conn, flush }) => self.close(host, conn, flush),
            Output::Resume { conn } => self.resume(host, conn),
            Output::Copy { copy, from, to } => self.copy(host, copy, from, to),
            Output::Event { service: SELFTEST, event, bytes } => {
                let now = self.shown(host);
                self.with_selftest(host, |selftest| selftest.handle_event(now, &event, bytes));
                if let (Some(done), Some(node)) = (event.done, &mut self.host_mut(host).node) {
                    node.handle_event_done(now, done);
                }
            }
            Output::Event { event, .. } => self.event(host, event),
            Output::Pinged { query, result } | Output::Discovered { query, result } => {
                let text = if result.is_ok() { "ok" } else { "failed" };
                self.log.line(self.now, host, format!("q{}", query.0), format_args!("{text}"));
                self.signals.push_back(Signal::Answered { host, query, result });
            }
            Output::Allocate { buffer, len } => self.allocate_router_buffer(host, buffer, len),
            Output::Release { buffer } => self.release_router_buffer(host, buffer),
            Output::Notice(notice) => {
                self.log.line(self.now, host, "-", format_args!("notice {notice}"));
                self.signals.push_back(Signal::Notice { host, notice });
            }
            // The checkers examine the written messages instead.
            Output::Crossing(_) => {}
        }
    }

    fn write(&mut self, host: HostId, conn: ConnId, head: Vec<u8>, payload: Payload) {
        let Some(&(tcp, side)) = self.host(host).connections.get(&conn) else {
            return self.broken(host, format!("writes on {conn:?}, which is closed or unknown"));
        };
        let header = message_header(&head);
        let (head_len, payload_len) = (head.len(), payload.len());
        let name = header.map_or("", |header| header.body.message_type().name().unwrap_or("?"));
        let what = format_args!("write {head_len} + {payload_len} {name}");
        self.log.line(self.now, host, tcp, what);
        let info = header.and_then(|header| ping_info(&header, &payload));
        let kept_in = match &payload {
            Payload::Span(span) => self.router_buffer(host, *span),
            _ => None,
        };
        if let Some(name) = kept_in {
            self.write_from_router(host, name, (tcp, side));
        }
        let payload = match &header {
            Some(header) => self.corrupted(host, header, payload),
            None => payload,
        };
        let payload = self.global_payload(host, payload);
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        connection.end_mut(side).stream.write(head, payload, header.is_some(), kept_in);
        if let Some(header) = header {
            let [from, to] = [side, side.other()].map(|side| connection.end(side).port);
            if !self.is_hostile(to.host) {
                self.overhear(&header);
            }
            let (ni, peer_ni, peer) = (self.nid_of(from), self.nid_of(to), to.host);
            self.signals.push_back(Signal::Wrote { host, peer, ni, peer_ni, tcp, header, info });
        }
        self.transmit(tcp, side);
    }

    fn resume(&mut self, host: HostId, conn: ConnId) {
        if ArmedDefect::triggers(&mut self.defect, Defect::LostResume) {
            return;
        }
        let waited = self.options.is_router(host) && self.is_stalled(host, conn);
        if waited && ArmedDefect::triggers(&mut self.defect, Defect::LostPool) {
            return;
        }
        if let Some(&(tcp, side)) = self.host(host).connections.get(&conn) {
            self.tasks.push_back(HostTask::Read { tcp, side, rested: false });
        }
    }

    fn copy(&mut self, host: HostId, copy: CopyId, from: Payload, to: Sink) {
        match (from, to) {
            (Payload::Span(from), Sink::Span(to)) => {
                let (from, len) = (self.global_span(host, from), from.len.min(to.len));
                self.stored(host, Span { len, ..to }, Span { len, ..from });
            }
            (Payload::Inline(_), _) | (_, Sink::Inline { .. }) => {
                self.broken(host, format!("{copy:?} has an inline source or sink"));
            }
            _ => {}
        }
        let incarnation = self.incarnation(host);
        let after = Duration::from_nanos(self.rng.below(10_000));
        let task = HostTask::Copied { host, incarnation, copy };
        self.queue.push(self.now + after, ScheduledEvent::Task(task));
    }

    fn event(&mut self, host: HostId, event: Event) {
        let Event { kind, status, md, rlength, mlength, unlinked, .. } = event;
        self.log.line(
            self.now,
            host,
            format!("md{}", md.0),
            format_args!(
                "event {}{} {mlength}/{rlength}{}",
                words::kind(kind),
                words::status(status),
                if unlinked { " unlinked" } else { "" }
            ),
        );
        self.signals.push_back(Signal::Event { host, event });
        if let Some(done) = event.done {
            let incarnation = self.incarnation(host);
            let task = HostTask::Handled { host, incarnation, done };
            // Most handlers return at once, some later.
            let after = if self.rng.one_in(4) { self.rng.below(1_000_000) } else { 0 };
            self.queue.push(self.now + Duration::from_nanos(after), ScheduledEvent::Task(task));
        }
    }

    pub(super) fn handled(&mut self, host: HostId, incarnation: u32, done: EventDone) {
        let now = self.shown(host);
        let this = self.host_mut(host);
        let Some(node) = this.node.as_mut().filter(|_| this.incarnation == incarnation) else {
            return;
        };
        node.handle_event_done(now, done);
        self.signals.push_back(Signal::Handled { host, done });
        self.drain(host);
    }

    pub(super) fn copied(&mut self, host: HostId, incarnation: u32, copy: CopyId) {
        let now = self.shown(host);
        let this = self.host_mut(host);
        let Some(node) = this.node.as_mut().filter(|_| this.incarnation == incarnation) else {
            return;
        };
        node.handle_copied(now, copy);
        self.drain(host);
    }

    /// Records that bytes were stored in memory of a node; `source` is a global name.
    pub(super) fn stored(&mut self, host: HostId, sink: Span, source: Span) {
        if self.stored_by_router(host, sink, source) || self.stored_by_selftest(host, sink, source)
        {
            return;
        }
        self.signals.push_back(Signal::Stored { host, sink, source });
    }

    pub(super) fn broken(&mut self, host: HostId, what: String) {
        self.log.line(self.now, host, "-", format_args!("BROKEN {what}"));
        self.signals.push_back(Signal::Broken { host, what });
    }
}

/// Returns the LNet header of a written message, if it is one: nodes write frames of version 3,
/// and a handshake starts with another magic number.
fn message_header(head: &[u8]) -> Option<Header> {
    let (frame, rest) = head.split_at_checked(FrameHeader::LEN)?;
    let frame = FrameHeader::decode(frame, Order::Little).ok()?;
    match frame.kind {
        FrameKind::LNET => {
            Header::decode(rest.get(..HeaderForm::Small.len())?, HeaderForm::Small).ok()
        }
        FrameKind::NOOP => message_header(rest),
        _ => None,
    }
}

/// Returns the ping info in a push or in the reply to a ping.
fn ping_info(header: &Header, payload: &Payload) -> Option<PingInfo> {
    let Payload::Inline(bytes) = payload else { return None };
    match header.body {
        Body::Put { portal: RESERVED_PORTAL, .. } | Body::Reply { .. } => {
            PingInfo::decode(bytes).ok().map(|decoded| decoded.info)
        }
        _ => None,
    }
}
