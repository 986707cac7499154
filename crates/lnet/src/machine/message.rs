//! A message from its creation to its completion. Spec: lnet-behaviour §5.
//!
//! ```text
//! sent       launched -> Parked (discovery) -> launched
//!                     -> Sending (credits, LND) -> finalized, or launched again
//!                     -> Looping (0@lo: until the receiving side is done) -> finalized
//! received   Delayed (lazy portal) -> Receiving (payload) -> InHandler (ACK wanted) -> finalized
//! forwarded  Transit (router credit, buffer, payload) -> launched, as what is sent
//! ```

use fulmar_base::{BufferId, ConnId, MessageId, Payload, Table, Time};
use fulmar_lnd::RxId;
use fulmar_lnet_wire::{Header, Nid};

use crate::api::MdId;
use crate::matching::Operation;
use crate::ni::NiId;
use crate::peers::PeerNiId;

#[derive(Debug)]
pub(super) struct Message {
    pub(super) header: Header,
    /// What follows the header, of a message that is sent.
    pub(super) payload: Payload,
    /// The operation of a descriptor that it carries.
    pub(super) operation: Option<Operation>,
    /// Our NID, if it must be this one.
    pub(super) source: Option<Nid>,
    /// The source in the header, if that is another: our NID to which a router brought the request.
    pub(super) header_source: Option<Nid>,
    /// The router that brought the request, if this is the response to it.
    pub(super) router: Option<Nid>,
    /// The NID that it was sent to at first: another attempt begins from there.
    pub(super) target: Nid,
    /// How often it was sent again.
    pub(super) retries: u32,
    /// It goes where it was sent to, and only once: a ping by which that is watched.
    pub(super) probe: bool,
    /// It answers a request for a service.
    pub(super) of_service: bool,
    /// What it holds of this router, if it is forwarded.
    pub(super) transit: Option<Box<Transit>>,
    pub(super) stage: Stage,
}

/// What a message that is forwarded holds. The router credit of the previous hop comes first and
/// goes last.
#[derive(Debug)]
pub(super) struct Transit {
    pub(super) arrival: Arrival,
    /// The previous hop, whose router credit it takes.
    pub(super) from: PeerNiId,
    /// Which of the pools of buffers.
    pub(super) class: usize,
    pub(super) hold: RouterHold,
    pub(super) buffer: Option<BufferId>,
    pub(super) since: Time,
    /// The LND has got the verdict to wait.
    pub(super) stalled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouterHold {
    Nothing,
    WaitsForCredit,
    Credit,
    WaitsForBuffer,
    /// Both: the payload is on its way into the buffer, or has arrived.
    Buffer,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// Needs a path.
    Launched,
    /// Waits until its peer is discovered.
    Parked,
    /// Sent to `0@lo`: waits for its receiving side.
    Looping,
    /// Committed to a path.
    Sending(Transmission),
    /// Comes into this router, as [`Message::transit`] says.
    Transit,
    /// A PUT that waits at a lazy portal.
    Delayed(Arrival),
    /// Its payload is arriving.
    Receiving(Arrival),
    /// Its event is being handled; then it is acknowledged.
    InHandler(Arrival),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    pub(super) ni: NiId,
    /// The next hop.
    pub(super) peer_ni: PeerNiId,
    pub(super) deadline: Time,
    pub(super) committed: Time,
    /// The LND cannot move it now: it has given back the credit of its interface.
    pub(super) waits: bool,
    /// It is a REPLY or an ACK of ours.
    pub(super) response: bool,
    pub(super) hold: Hold,
}

/// Which credits a message holds. The peer's comes first and goes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Nothing,
    WaitsForPeer,
    Peer,
    WaitsForNi,
    /// Both: its turn comes.
    Granted,
    /// Both, but a fault rule delays it.
    Delayed,
    /// Both: the LND has the message.
    Both,
}

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) origin: Origin,
    /// Our NID.
    pub(super) ni: Nid,
    /// The previous hop.
    pub(super) from: Nid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Lnd(RxId, ConnId),
    /// The message whose receiving side this is.
    Loopback(MessageId),
}

impl Message {
    pub(super) fn sent(header: Header, source: Option<Nid>) -> Self {
        Self {
            header,
            payload: Payload::Empty,
            operation: None,
            source,
            header_source: None,
            router: None,
            target: header.target,
            retries: 0,
            probe: false,
            of_service: false,
            transit: None,
            stage: Stage::Launched,
        }
    }

    pub(super) fn received(header: Header, stage: Stage) -> Self {
        Self { stage, ..Self::sent(header, None) }
    }

    /// Returns the descriptor whose operation it carries.
    pub(super) fn md(&self) -> Option<MdId> {
        self.operation.as_ref().map(|operation| operation.md)
    }

    /// Returns the path of a message that has one.
    pub(super) fn sending(&self) -> Option<Transmission> {
        match self.stage {
            Stage::Sending(sending) => Some(sending),
            _ => None,
        }
    }

    /// Returns how the message came, if it was received.
    pub(super) fn arrival(&self) -> Option<Arrival> {
        match self.stage {
            Stage::Transit => self.transit.as_ref().map(|transit| transit.arrival),
            Stage::Delayed(arrival) | Stage::Receiving(arrival) | Stage::InHandler(arrival) => {
                Some(arrival)
            }
            _ => None,
        }
    }

    /// Returns whether the message is committed, and so counted in `msgs_alloc`.
    pub(super) fn is_committed(&self) -> bool {
        self.transit.is_some() || !matches!(self.stage, Stage::Launched | Stage::Parked)
    }

    /// Removes the message from its path. The header keeps the latest target, for the event.
    pub(super) fn leave_path(&mut self) {
        self.stage = Stage::Launched;
        if self.transit.is_none() {
            self.header.source = Nid::ANY;
        }
    }

    pub(super) fn hold(&mut self, hold: Hold) {
        match &mut self.stage {
            Stage::Sending(sending) => sending.hold = hold,
            stage => unreachable!("{stage:?} holds no credit"),
        }
    }
}

/// All messages that live. Names grow and are never used twice.
#[derive(Debug, Default)]
pub(super) struct Messages {
    table: Table<Box<Message>>,
    /// Memory of messages that have ended, for the next ones.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    spare: Vec<Box<Message>>,
}

/// How many messages keep their memory when they have ended.
const SPARE_MAX: usize = 256;

impl Messages {
    pub(super) fn add(&mut self, message: Message) -> MessageId {
        let place = match self.spare.pop() {
            Some(mut spare) => {
                *spare = message;
                spare
            }
            None => Box::new(message),
        };
        MessageId(self.table.insert(place))
    }

    /// Reuses the memory of a message that has ended.
    pub(super) fn recycle(&mut self, mut message: Box<Message>) {
        if self.spare.len() < SPARE_MAX {
            message.payload = Payload::Empty;
            (message.operation, message.transit) = (None, None);
            self.spare.push(message);
        }
    }

    pub(super) fn get(&self, id: MessageId) -> Option<&Message> {
        self.table.get(id.0).map(|message| &**message)
    }

    pub(super) fn get_mut(&mut self, id: MessageId) -> Option<&mut Message> {
        self.table.get_mut(id.0).map(|message| &mut **message)
    }

    /// Returns a message that the machine itself refers to.
    pub(super) fn live(&mut self, id: MessageId) -> &mut Message {
        self.get_mut(id).unwrap_or_else(|| panic!("{id:?} is referred to and does not exist"))
    }

    pub(super) fn remove(&mut self, id: MessageId) -> Box<Message> {
        self.table.remove(id.0).unwrap_or_else(|| panic!("{id:?} is finalized twice"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageId, &Message)> {
        self.table.iter().map(|(id, message)| (MessageId(id), &**message))
    }

    /// Returns the messages that wait for a router credit or a router buffer.
    pub(super) fn waiting_in_transit(&self) -> Vec<MessageId> {
        let waits = |message: &Message| {
            message.transit.as_ref().is_some_and(|transit| transit.hold != RouterHold::Buffer)
        };
        self.iter().filter(|(_, message)| waits(message)).map(|(id, _)| id).collect()
    }

    /// Returns the messages that are committed to a path and not yet handed to its LND.
    pub(super) fn queued_on(&self, path: impl Fn(&Transmission) -> bool) -> Vec<MessageId> {
        let queued = |message: &Message| {
            message.sending().is_some_and(|sending| sending.hold != Hold::Both && path(&sending))
        };
        self.iter().filter(|(_, message)| queued(message)).map(|(id, _)| id).collect()
    }

    /// Returns those of them that wait for a credit: a delay is to be sat out.
    pub(super) fn waiting_on(&self, path: impl Fn(&Transmission) -> bool) -> Vec<MessageId> {
        self.queued_on(|sending| sending.hold != Hold::Delayed && path(sending))
    }
}
