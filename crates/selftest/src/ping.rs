//! The PING test: small requests that are echoed, client and server side. Spec: lnet-selftest §6.2,
//! §11.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{Body, FEATURES, Ping, PingReply, Service};

use crate::Selftest;
use crate::rpc::{Call, CallId, Caller};
use crate::serve::Client;
use crate::unit::{Failure, UnitId};

const NANOSECONDS: u64 = 1_000_000_000;

impl Selftest {
    /// Echoes a request.
    pub(crate) fn serve_ping(&mut self, now: Time, client: Client, features: u32, ping: &Ping) {
        if ping.magic != Ping::MAGIC {
            return self.drop_rpc(client);
        }
        let (status, features) = match features & !FEATURES {
            0 => (0, features),
            _ => (Errno::EPROTO.0 as u32, FEATURES),
        };
        // The client reads only these two fields, whatever the status.
        let (magic, sequence) = (Ping::MAGIC, ping.sequence);
        self.reply(now, client, Body::PingReply(PingReply { status, magic, sequence }), features);
    }

    /// Sends a request of a unit. All units of the node share one sequence.
    pub(crate) fn call_ping(&mut self, now: Time, id: UnitId) -> CallId {
        let sequence = self.ping_sequence;
        self.ping_sequence = sequence.wrapping_add(1);
        let instance = self.instances.get_mut(id.instance);
        instance.units[id.index].sequence = sequence;
        let call = Call {
            caller: Caller::Unit(id.number()),
            target: instance.peer(id),
            service: Service::PING,
            features: instance.features,
            bulk: None,
            timeout: self.config.load_timeout(),
        };
        let wall_clock = self.config.wall_clock.saturating_add(now.0);
        self.rpcs.start(now, call, |reply_id, _| {
            Body::Ping(Ping {
                reply_id,
                magic: Ping::MAGIC,
                sequence,
                seconds: wall_clock / NANOSECONDS,
                nanoseconds: wall_clock % NANOSECONDS,
            })
        })
    }
}

/// Checks a reply. Its status is ignored.
pub(crate) fn judge(sequence: u32, reply: &Body) -> Result<(), Failure> {
    match reply {
        Body::PingReply(reply) if reply.magic == Ping::MAGIC && reply.sequence == sequence => {
            Ok(())
        }
        Body::PingReply(_) => Err(Failure::Reply(Errno::EBADMSG)),
        other => unreachable!("{other:?} is not the reply to a PING"),
    }
}
