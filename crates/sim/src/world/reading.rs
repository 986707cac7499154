//! Reads connections as their nodes request.

use std::ops::ControlFlow;

use fulmar_base::{ConnId, Sink, Span};
use fulmar_lnd::{CloseCause, Need};

use super::hostile::hostile_span;
use super::{HostId, HostTask, ScheduledEvent, TcpId, World};
use crate::tcp::{EndState, Segment, Side};

impl World {
    /// Reads arrived data until the node needs no more or the inbox is empty.
    pub(super) fn read(&mut self, tcp: TcpId, side: Side, rested: bool) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let coalesce = self.rng.one_in(2);
        if coalesce {
            connection.incoming(side).coalesce();
        }
        let end = connection.end_mut(side);
        let Some(id) = end.id.filter(|_| end.state == EndState::Open) else { return };
        let host = end.host;
        if self.options.is_hostile(host) {
            return self.read_hostile(tcp, side, host, id);
        }
        let this = &mut self.hosts[host.0 as usize];
        if let Some(pause) = this.read_pause.filter(|_| !rested) {
            this.stalled.remove(&id);
            if !std::mem::replace(&mut end.read_pending, true) {
                let task = HostTask::Read { tcp, side, rested: true };
                self.queue.push(self.now + pause, ScheduledEvent::Task(task));
            }
            return;
        }
        end.read_pending = false;
        let slow = this.read_pause.is_some();
        let mut used = 0;
        while let ControlFlow::Continue(len) = self.read_segment(tcp, side, host, id) {
            used += len;
            if slow {
                self.tasks.push_back(HostTask::Read { tcp, side, rested: false });
                break;
            }
        }
        self.give_window(tcp, side, used);
    }

    /// Reads one segment or a part of it; breaks when there are no data or the node reads no more.
    fn read_segment(
        &mut self,
        tcp: TcpId,
        side: Side,
        host: HostId,
        id: ConnId,
    ) -> ControlFlow<(), u64> {
        let Some(connection) = &mut self.connections[tcp.0] else { return ControlFlow::Break(()) };
        if connection.end(side).state != EndState::Open {
            return ControlFlow::Break(());
        }
        let this = &mut self.hosts[host.0 as usize];
        let Some(node) = &mut this.node else { return ControlFlow::Break(()) };
        let stream = connection.incoming(side);
        let need = node.need(id);
        this.stalled.remove(&id);
        match (need, stream.inbox.front()) {
            (_, None) => return ControlFlow::Break(()),
            // A stalled reader does not see the end of the stream either.
            (Need::Wait | Need::Verdict | Need::Nothing, Some(_)) => {
                this.stalled.insert(id);
                return ControlFlow::Break(());
            }
            (_, Some(Segment::Fin)) => {
                self.tasks.push_back(HostTask::Closed { tcp, side, how: CloseCause::Eof });
                return ControlFlow::Break(());
            }
            (Need::Bytes(_), Some(Segment::Bytes(bytes))) => {
                let used = node.handle_bytes(this.clock.show(self.now), id, bytes);
                stream.consume(used);
                self.drain(host);
                // Bytes that the node leaves are payload; its next need gives their destination.
                return ControlFlow::Continue(used as u64);
            }
            (Need::Payload { sink, crc }, Some(Segment::Bytes(bytes))) => {
                let len = bytes.len().min(sink.len() as usize);
                if let Sink::Span(span) = sink {
                    let bytes = bytes[..len].to_vec();
                    let for_router = self.bytes_for_router(host, span, &bytes);
                    if !for_router && self.options.hostile.is_some() {
                        // Nodes send the data of their applications as references.
                        let part = Span { len: len as u32, ..span };
                        self.stored(host, part, hostile_span(len as u32));
                    } else if !for_router {
                        let what = format!("{tcp}: {len} inline bytes go to {sink:?}");
                        self.broken(host, what);
                        return ControlFlow::Break(());
                    }
                }
                self.read_payload(tcp, side, host, id, len as u32, crc);
                return ControlFlow::Continue(len as u64);
            }
            (Need::Payload { sink, crc }, Some(Segment::Bulk(source))) => {
                let (source, len) = (*source, source.len.min(sink.len()));
                if let Sink::Span(sink) = sink {
                    let sink = self.misplace(sink);
                    self.stored(host, Span { len, ..sink }, Span { len, ..source });
                }
                self.read_payload(tcp, side, host, id, len, crc);
                return ControlFlow::Continue(u64::from(len));
            }
            (Need::Bytes(_), Some(Segment::Bulk(source))) => {
                let what = format!("{tcp}: bulk {source:?} is read as headers");
                self.broken(host, what);
            }
        }
        ControlFlow::Break(())
    }

    /// Notifies the node of payload. Only hostile hosts send checksums, and those are wrong: their
    /// state stays as it is.
    fn read_payload(
        &mut self,
        tcp: TcpId,
        side: Side,
        host: HostId,
        id: ConnId,
        len: u32,
        crc: Option<u32>,
    ) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        connection.incoming(side).consume(len as usize);
        let this = &mut self.hosts[host.0 as usize];
        let shown = this.clock.show(self.now);
        if let Some(node) = &mut this.node {
            node.handle_payload(shown, id, len, crc);
        }
        self.drain(host);
    }

    /// Returns whether a connection has data that its node does not read yet.
    pub(super) fn is_stalled(&self, host: HostId, conn: ConnId) -> bool {
        self.host(host).stalled.contains(&conn)
    }

    /// Notes that bytes were read, and sends a window update if needed.
    pub(super) fn give_window(&mut self, tcp: TcpId, reader: Side, len: u64) {
        let Some(connection) = self.connections[tcp.0].as_mut().filter(|_| len > 0) else { return };
        let stream = connection.incoming(reader);
        let round_trip = stream.sender.round_trip().unwrap_or_default();
        stream.receiver.handle_read(self.now, len, round_trip);
        // A pending acknowledgement carries the window too.
        if stream.acks_due > 0 || !stream.receiver.should_advertise() {
            return;
        }
        let (upto, edge) = (stream.receiver.next(), stream.receiver.advertise_edge());
        let at = self.ack_time(tcp, reader.other());
        self.queue.push(at, ScheduledEvent::Window { tcp, writer: reader.other(), upto, edge });
    }

    /// Returns a connection that could be read but is not: its wake-up was lost.
    pub(crate) fn lost_wakeup(&self, host: HostId) -> Option<TcpId> {
        let this = self.host(host);
        let node = this.node.as_ref()?;
        let id = this
            .stalled
            .iter()
            .find(|id| matches!(node.need(**id), Need::Bytes(_) | Need::Payload { .. }))?;
        this.connections.get(id).map(|(tcp, _)| *tcp)
    }
}
