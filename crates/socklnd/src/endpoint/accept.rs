//! Incoming connections. Spec: lnet-wire §3.3, §4.6.

use std::net::SocketAddr;

use fulmar_base::{ConnId, Time};
use fulmar_lnet_wire::socklnd::{ConnKind, Hello, Version};
use fulmar_lnet_wire::{Nid, Pid, ProcessId};
use fulmar_wire::{DecodeError, Order};

use super::{Socklnd, Timer};
use crate::conn::{Agreement, Conn, Phase, Tx, WriteContent};
use crate::handshake::{self, Handshake, Step};
use crate::peer::{CallJudgement, PeerInstance, PeerKey};
use fulmar_lnd::{NiConfig, Notice};

use crate::AcceptMode;

impl Socklnd {
    pub(super) fn accept(
        &mut self,
        now: Time,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnId> {
        if self.config.accept == AcceptMode::None {
            // In this mode the owner should not even listen.
            return None;
        }
        if self.config.accept == AcceptMode::Secure && !is_privileged(remote) {
            self.counters.refused_unprivileged += 1;
            self.notice(Notice::UnprivilegedPort { remote });
            return None;
        }
        if !self.make_room(now, remote.ip()) {
            self.counters.refused_handshakes += 1;
            self.notice(Notice::TooManyHandshakes { remote });
            return None;
        }
        self.counters.accepted += 1;
        let phase = Phase::Called(None, Handshake::called());
        let conn = self.new_conn(Conn { local, remote, phase, tx: Tx::default() });
        self.callers.add(now, conn, remote.ip());
        self.timers.set(Timer::Conn(conn), now + self.config.accept_timeout);
        Some(conn)
    }

    /// Continues an incoming connection to `ni`, if known.
    pub(super) fn handle_called(&mut self, now: Time, conn: ConnId, ni: Option<Nid>, step: Step) {
        match step {
            Step::More => {}
            Step::Asked(nid) => self.handle_request(now, conn, nid),
            Step::BadRequest(error) => {
                self.malformed(conn, error);
                // A peer with another acceptor version gets the supported one as the answer.
                let reported = match error {
                    DecodeError::Magic { got } => {
                        got == Hello::MAGIC || got == Hello::MAGIC.swap_bytes()
                    }
                    DecodeError::Version { .. } => true,
                    _ => false,
                };
                self.refuse(conn, reported.then(handshake::refusal));
            }
            Step::Greeted(hello, order) => {
                let ni = self.called_ni(ni).clone();
                self.handle_call(now, conn, ni, &hello, order);
            }
            Step::BadHello(error) => {
                self.malformed(conn, error);
                let unknown = matches!(error, DecodeError::Version { .. });
                let word = unknown.then(|| other_version(self.called_ni(ni)));
                self.refuse(conn, word);
            }
        }
    }

    /// Ends an incoming connection without an answer, except perhaps for a last message.
    pub(super) fn refuse(&mut self, conn: ConnId, word: Option<Vec<u8>>) {
        self.counters.handshake_failures += 1;
        let flush = word.is_some();
        if let Some(head) = word {
            self.write_last(conn, head);
        }
        self.close_conn(conn, flush);
    }

    /// Returns the interface that the request of an incoming connection selected.
    fn called_ni(&self, nid: Option<Nid>) -> &NiConfig {
        nid.and_then(|nid| self.nis.get(&nid))
            .expect("incoming connections are removed with their interface")
    }

    /// Handles the request, which selects an interface.
    fn handle_request(&mut self, now: Time, id: ConnId, nid: Nid) {
        let conn = self.conns.get_mut(&id).expect("the request arrived on this connection");
        if self.nis.contains_key(&nid) {
            if let Phase::Called(ni, _) = &mut conn.phase {
                *ni = Some(nid);
            }
            self.timers.set(Timer::Conn(id), now + self.config.accept_timeout);
        } else {
            let remote = conn.remote;
            self.counters.refused_nid += 1;
            self.notice(Notice::NotOurNid { remote, asked: nid });
            self.refuse(id, None);
        }
    }

    /// Handles the hello, which has the identity of the peer and the kind of the connection.
    fn handle_call(&mut self, now: Time, id: ConnId, ni: NiConfig, hello: &Hello, order: Order) {
        if ni.nid.is_large() && hello.version != Version::V4 {
            return self.refuse(id, Some(other_version(&ni)));
        }
        let (kind, source) = (hello.kind, hello.source.nid);
        let Some(kind) = kind.mirror().filter(|_| !source.is_any()) else {
            let (field, got) = if source.is_any() {
                ("hello.source", u64::MAX)
            } else {
                ("hello.kind", kind.0.into())
            };
            self.malformed(id, DecodeError::Range { field, got });
            return self.refuse(id, None);
        };
        let remote = self.conns[&id].remote;
        let Some(peer) = self.identity(&ni, remote, hello.source) else {
            self.counters.refused_identity += 1;
            self.notice(Notice::WrongAddress { remote, claimed: source });
            return self.refuse(id, None);
        };
        let key = PeerKey { ni: ni.nid, peer };
        let processes = self.peers.range(key.all_processes());
        let others = processes.map(|(_, peer)| peer.of_kind(kind)).sum();
        let state = self.peers.entry(key).or_default();
        let judgement = state.judge_call(&key, remote.ip(), others, hello);
        let word = |kind| handshake::answer(&ni, hello.source.nid, hello.version, kind);
        match judgement {
            CallJudgement::Accept => {
                self.write(now, id, word(kind), WriteContent::Handshake);
                let imposed = peer != hello.source;
                let known = PeerInstance::from_hello(hello);
                self.open(now, id, Agreement { key, kind, known, order, imposed });
                self.settle(now, key);
            }
            CallJudgement::LostRace | CallJudgement::Duplicate => {
                self.counters.refused_races += 1;
                self.refuse(id, Some(word(ConnKind::NONE)));
                self.settle(now, key);
            }
            CallJudgement::Stale => {
                self.close_stale(&key);
                self.refuse(id, Some(word(ConnKind::NONE)));
                self.settle(now, key);
            }
        }
    }

    /// Returns the identity of an incoming peer; `None` if it claims that of another. Spec:
    /// lnet-wire §2.5; the crate documentation has the deviations with their reasons.
    fn identity(&self, ni: &NiConfig, remote: SocketAddr, claimed: ProcessId) -> Option<ProcessId> {
        let own = claimed.nid.ip() == Some(remote.ip());
        let allowed = || self.config.accept_nid.iter().any(|a| a.accepts(claimed.nid, remote.ip()));
        if claimed.nid.net() == ni.nid.net() && (own || allowed()) {
            return Some(claimed);
        }
        let pid = Pid(u32::from(remote.port()) | Pid::USER_FLAG);
        let invented = ProcessId { nid: Nid::of_ip(ni.nid.net(), remote.ip()), pid };
        (!is_privileged(remote)).then_some(invented)
    }
}

/// Answers with the version that the peer should use.
fn other_version(ni: &NiConfig) -> Vec<u8> {
    let version = handshake::default_version(ni.nid, Version::V3);
    handshake::answer(ni, ni.nid, version, ConnKind::NONE)
}

fn is_privileged(remote: SocketAddr) -> bool {
    remote.port() <= PRIVILEGED_PORT_MAX
}

/// The highest port that only root may bind.
const PRIVILEGED_PORT_MAX: u16 = 1023;
