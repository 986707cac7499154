//! Reading a connection the way that its node asks for.

use std::ops::ControlFlow;

use fulmar_base::{ConnId, Sink, Span};
use fulmar_lnd::{Closed, Need};

use super::{Happening, HostId, TcpId, Todo, World};
use crate::tcp::{EndState, Segment, Side};

impl World {
    /// Reads what has arrived, until the node or the inbox has enough.
    pub(super) fn read(&mut self, tcp: TcpId, side: Side, rested: bool) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        let coalesce = self.rng.one_in(2);
        if coalesce {
            connection.incoming(side).coalesce();
        }
        let end = connection.end_mut(side);
        let Some(id) = end.id.filter(|_| end.state == EndState::Open) else { return };
        let host = end.host;
        let this = &mut self.hosts[host.0 as usize];
        if let Some(pause) = this.read_pause.filter(|_| !rested) {
            this.stalled.remove(&id);
            if !std::mem::replace(&mut end.read_pending, true) {
                let todo = Todo::Read { tcp, side, rested: true };
                self.queue.push(self.now + pause, Happening::Todo(todo));
            }
            return;
        }
        end.read_pending = false;
        let slow = this.read_pause.is_some();
        let mut used = 0;
        while let ControlFlow::Continue(len) = self.read_segment(tcp, side, host, id) {
            used += len;
            if slow {
                self.todo.push_back(Todo::Read { tcp, side, rested: false });
                break;
            }
        }
        self.give_window(tcp, side, used);
    }

    /// Reads one segment or a part of it; breaks when there is nothing to read or to be read.
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
                self.todo.push_back(Todo::Closed { tcp, side, how: Closed::Eof });
                return ControlFlow::Break(());
            }
            (Need::Bytes(_), Some(Segment::Bytes(bytes))) => {
                let used = node.handle_bytes(this.clock.show(self.now), id, bytes);
                stream.consume(used);
                self.drain(host);
                // Bytes that the node leaves are payload: what it needs next says where they go.
                return ControlFlow::Continue(used as u64);
            }
            (Need::Payload { sink, .. }, Some(Segment::Bytes(bytes))) => {
                let len = bytes.len().min(sink.len() as usize);
                if let Sink::Span(span) = sink {
                    let bytes = bytes[..len].to_vec();
                    if !self.bytes_for_router(host, span, &bytes) {
                        let what = format!("{tcp}: {len} bytes of a machine go to {sink:?}");
                        self.broken(host, what);
                        return ControlFlow::Break(());
                    }
                }
                self.read_payload(tcp, side, host, id, len as u32);
                return ControlFlow::Continue(len as u64);
            }
            (Need::Payload { sink, .. }, Some(Segment::Bulk(source))) => {
                let (source, len) = (*source, source.len.min(sink.len()));
                if let Sink::Span(sink) = sink {
                    let sink = self.misplace(sink);
                    self.stored(host, Span { len, ..sink }, Span { len, ..source });
                }
                self.read_payload(tcp, side, host, id, len);
                return ControlFlow::Continue(u64::from(len));
            }
            (Need::Bytes(_), Some(Segment::Bulk(source))) => {
                let what = format!("{tcp}: bulk {source:?} is taken for headers");
                self.broken(host, what);
            }
        }
        ControlFlow::Break(())
    }

    fn read_payload(&mut self, tcp: TcpId, side: Side, host: HostId, id: ConnId, len: u32) {
        let Some(connection) = &mut self.connections[tcp.0] else { return };
        connection.incoming(side).consume(len as usize);
        let this = &mut self.hosts[host.0 as usize];
        let shown = this.clock.show(self.now);
        if let Some(node) = &mut this.node {
            node.handle_payload(shown, id, len, None);
        }
        self.drain(host);
    }

    /// Returns whether a connection has something to read that its node did not want.
    pub(super) fn is_stalled(&self, host: HostId, conn: ConnId) -> bool {
        self.host(host).stalled.contains(&conn)
    }

    /// Notes that bytes were read, and lets the writer know if that is news.
    fn give_window(&mut self, tcp: TcpId, reader: Side, len: u64) {
        let Some(connection) = self.connections[tcp.0].as_mut().filter(|_| len > 0) else { return };
        let stream = connection.incoming(reader);
        stream.receiver.handle_read(len);
        // An acknowledgement that is about to be sent says it too.
        if stream.acks_due > 0 || !stream.receiver.has_news() {
            return;
        }
        let (upto, edge) = (stream.receiver.next(), stream.receiver.tell_edge());
        let at = self.ack_time(tcp, reader.other());
        self.queue.push(at, Happening::Window { tcp, writer: reader.other(), upto, edge });
    }

    /// Returns a connection that could be read and is not: its wake-up was lost.
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
