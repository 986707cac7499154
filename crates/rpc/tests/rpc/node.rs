//! A service of RPC over its LNet, with the memory of its bulk data.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Errno, Payload, Sink, Span, Time};
use fulmar_lnd::{NiConfig, NiTunables, Received, RxId, SendError, SendRequest, Verdict};
use fulmar_lnet::{
    Batch, Config, Globals, Lnet, Output, RoutingConfig, Service, ServiceConfig, ServiceId,
};
use fulmar_lnet_wire::{Nid, Pid};

/// A service, its LNet, and its memory.
pub(crate) struct Node<S: Service> {
    pub(crate) lnet: Lnet,
    id: ServiceId,
    pub(crate) service: S,
    /// What the service wants of its host.
    pub(crate) requests: VecDeque<S::Request>,
    /// Messages to send.
    pub(crate) sends: Vec<SendRequest>,
    /// Payloads to store.
    pub(crate) stores: Vec<(RxId, Sink, Vec<u8>)>,
    /// The payload of the message that is being received.
    arriving: Vec<u8>,
    /// Memory of bulk data. LNet uses none that is not here.
    pub(crate) buffers: BTreeMap<BufferId, Vec<u8>>,
}

impl<S: Service> Node<S> {
    pub(crate) fn new(nid: Nid, cookie: u64, config: ServiceConfig, service: S) -> Self {
        let globals = Globals { discovery: false, ..Globals::default() };
        let routing = RoutingConfig::default();
        let config_of_node =
            Config { pid: Pid::LUSTRE, interface_cookie: cookie, globals, routing };
        let mut lnet = Lnet::new(config_of_node);
        let tunables = NiTunables::default();
        let (incarnation, conns_per_peer, conns_max, timeout) = (cookie, 1, 1, None);
        let ni = NiConfig { nid, tunables, incarnation, conns_per_peer, conns_max, timeout };
        lnet.add_ni(Time::ZERO, ni, Duration::from_secs(50)).unwrap();
        lnet.start(Time::ZERO);
        let id = lnet.open_service(config);
        let (requests, sends, stores, arriving, buffers) = Default::default();
        Self { lnet, id, service, requests, sends, stores, arriving, buffers }
    }

    /// Does what the service and LNet want, until they want nothing.
    pub(crate) fn settle(&mut self, now: Time) {
        loop {
            if let Some(mut batch) = Batch::take(&mut self.service) {
                let (ops, mut results) = (std::mem::take(&mut batch.ops), Vec::new());
                self.lnet.post(now, self.id, ops, |result| results.push(result));
                batch.report(now, &mut self.service, results);
                self.requests.extend(batch.request);
            } else if let Some(output) = self.lnet.poll_output() {
                self.handle(now, output);
            } else {
                return;
            }
        }
    }

    fn handle(&mut self, now: Time, output: Output) {
        match output {
            Output::Send(request) => self.sends.push(request),
            Output::Verdict { rx, verdict: Verdict::Receive(sink), .. } => {
                let bytes = std::mem::take(&mut self.arriving);
                self.stores.push((rx, sink, bytes));
            }
            Output::Event { event, bytes, .. } => {
                self.service.handle_event(now, &event, bytes);
                if let Some(done) = event.done {
                    self.lnet.handle_event_done(now, done);
                }
            }
            Output::Verdict { .. } | Output::Copy { .. } => panic!("{output:?}"),
            _ => {}
        }
    }

    /// Writes a message, and returns its payload.
    pub(crate) fn write(&mut self, now: Time, request: &SendRequest) -> Vec<u8> {
        let bytes = match &request.payload {
            Payload::Empty => Vec::new(),
            Payload::Inline(bytes) => bytes.to_vec(),
            Payload::Span(span) => self.memory(*span).to_vec(),
        };
        self.lnet.handle_sent(now, request.message, Ok(()));
        bytes
    }

    /// Fails to write a message.
    pub(crate) fn fail(&mut self, now: Time, request: &SendRequest) {
        let error = SendError::remote_error(Errno::ECONNRESET);
        self.lnet.handle_sent(now, request.message, Err(error));
    }

    pub(crate) fn receive(&mut self, now: Time, request: SendRequest, bytes: Vec<u8>) {
        let SendRequest { ni, next_hop, header, .. } = request;
        self.arriving = bytes;
        let received = Received { conn: ConnId(1), ni: next_hop, from: ni, header };
        self.lnet.handle_received(now, received);
        self.settle(now);
    }

    /// Stores a payload, or a part of it if the connection breaks.
    pub(crate) fn store(&mut self, now: Time, rx: RxId, sink: Sink, bytes: &[u8], breaks: bool) {
        let mut inline = Vec::new();
        match sink {
            Sink::Inline { len } => inline = bytes[..len as usize].to_vec(),
            Sink::Discard { .. } => {}
            Sink::Span(span) => {
                let len = if breaks { span.len / 2 } else { span.len };
                let span = Span { len, ..span };
                self.memory(span).copy_from_slice(&bytes[..len as usize]);
            }
        }
        let result = if breaks { Err(Errno::ECONNRESET) } else { Ok(inline) };
        self.lnet.handle_receive_done(now, rx, result);
    }

    /// Writes all messages, and returns them with their payloads.
    pub(crate) fn write_all(&mut self, now: Time) -> Vec<(SendRequest, Vec<u8>)> {
        let mut written = Vec::new();
        while !self.sends.is_empty() {
            for request in std::mem::take(&mut self.sends) {
                let bytes = self.write(now, &request);
                written.push((request, bytes));
            }
            self.settle(now);
        }
        written
    }

    /// Receives a message, and stores its payload at once.
    pub(crate) fn receive_whole(&mut self, now: Time, request: SendRequest, bytes: Vec<u8>) {
        self.receive(now, request, bytes);
        for (rx, sink, bytes) in std::mem::take(&mut self.stores) {
            self.store(now, rx, sink, &bytes, false);
        }
        self.settle(now);
    }

    fn memory(&mut self, span: Span) -> &mut [u8] {
        let buffer = self.buffers.get_mut(&span.buffer);
        let buffer = buffer.unwrap_or_else(|| panic!("LNet uses {span:?}, which was released"));
        &mut buffer[span.offset as usize..][..span.len as usize]
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.lnet.poll_timeout().is_some_and(|at| at <= now) {
            self.lnet.handle_timeout(now);
        }
        if self.service.poll_timeout().is_some_and(|at| at <= now) {
            self.service.handle_timeout(now);
        }
        self.settle(now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        [self.lnet.poll_timeout(), self.service.poll_timeout()].into_iter().flatten().min()
    }
}
