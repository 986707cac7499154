//! A client and the events of LNet.

mod bulk;

use crate::XidSource;
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::{self, CONNECT_DATA};
use fulmar_lustre_wire::message::Flavor;
use fulmar_lustre_wire::{Handle, Status, Uuid, portal};

use super::*;
use crate::import::TargetKind;

const NOW: Time = Time::from_secs(50);
const FLAGS: ConnectFlags =
    ConnectFlags::FULL20.with(ConnectFlags::AT).with(ConnectFlags::BULK_MBITS);

fn server() -> ProcessId {
    ProcessId::lustre("10.0.0.1@tcp".parse::<Nid>().unwrap())
}

/// A client that connects, and the two posts for it.
fn connecting() -> (Client, ImportId, Posts) {
    let data = ConnectData { flags: FLAGS, ..ConnectData::default() };
    let mgs = Uuid::new("MGS").unwrap();
    let target = Target::new(TargetKind::Mgs, mgs, vec![server().nid], data);
    let mut client = Client::new(XidSource::new(1_700_000_000));
    let import = client.connect(NOW, target);
    let posts = Posts::take(&mut client);
    (client, import, posts)
}

/// The memory for a reply, and the request.
struct Posts {
    me: Me,
    reply: Md,
    request: Md,
    put: Put,
    bytes: Vec<u8>,
}

impl Posts {
    /// Drains the posts of the next transmission, and reports that they are done.
    fn take(client: &mut Client) -> Self {
        let posts = Self::next(client);
        client.handle_posted(NOW, posts.reply.user, Ok(MdId(posts.reply.user)));
        client.handle_posted(NOW, posts.request.user, Ok(MdId(posts.request.user)));
        posts
    }

    fn next(client: &mut Client) -> Self {
        let mut post = || loop {
            match client.poll_output().expect("there is a post") {
                ServiceOutput::Post(Op::Unlink(_)) | ServiceOutput::Host(_) => {}
                ServiceOutput::Post(op) => return op,
            }
        };
        let Op::Attach { portal, me, md: reply, memory: Memory::Inline } = post() else {
            panic!("the memory for the reply comes first")
        };
        let Op::Put { from: Bound::New(request, Memory::Bytes(bytes)), put } = post() else {
            panic!("the request follows")
        };
        assert_eq!(Some(portal), portal::reply_to(put.portal));
        Self { me, reply, request, put, bytes: bytes.to_vec() }
    }

    /// Stores a reply.
    fn reply(&self, client: &mut Client, offset: u64, bytes: &[u8]) {
        let len = bytes.len() as u32;
        let md = MdId(self.reply.user);
        let unlinked = Event::unlinked(md, self.reply.user);
        let (kind, rlength, mlength) = (EventKind::Put, len, len);
        let event = Event { kind, rlength, mlength, offset, unlinked: false, ..unlinked };
        client.handle_event(NOW, &event, bytes.to_vec());
    }

    fn unlinked(&self, client: &mut Client) {
        let event = Event::unlinked(MdId(self.reply.user), self.reply.user);
        client.handle_event(NOW, &event, Vec::new());
    }

    fn sent(&self, client: &mut Client, status: Result<(), Errno>) {
        let unlinked = Event::unlinked(MdId(self.request.user), self.request.user);
        let event = Event { kind: EventKind::Send, status, ..unlinked };
        client.handle_event(NOW, &event, Vec::new());
    }
}

fn granted() -> Vec<u8> {
    let data = ConnectData { flags: FLAGS, ..ConnectData::default() };
    let mut reply = Message::reply(&format::MGS_CONNECT, Status::OK).with(&CONNECT_DATA, &data);
    reply.body.handle = Handle(9);
    reply.to_bytes()
}

#[test]
fn a_transmission_is_a_match_entry_and_a_put() {
    let (client, _, posts) = connecting();
    assert_eq!((posts.me.match_id, posts.me.match_bits), (server(), posts.put.match_bits));
    assert_eq!((posts.put.target, posts.put.portal, posts.put.ack), (server(), 26, false));
    let options = posts.reply.options;
    assert!(options.has(MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE)));
    assert!(options.has(MdOptions::TRUNCATE));
    assert_eq!((posts.reply.threshold, posts.reply.len), (None, 544));
    assert_eq!((posts.request.threshold, posts.bytes.len()), (Some(1), 520));
    assert_eq!(client.poll_timeout(), Some(Time::from_secs(60)));
}

#[test]
fn a_reply_ends_a_request_and_frees_its_memory() {
    let (mut client, import, posts) = connecting();
    posts.sent(&mut client, Ok(()));
    posts.reply(&mut client, 0, &granted());
    let full = Notice::State { import, state: State::Full };
    let unlink = Op::Unlink(MdId(posts.reply.user));
    let outputs: Vec<_> = std::iter::from_fn(|| client.poll_output()).collect();
    assert_eq!(outputs, [ServiceOutput::Host(full), ServiceOutput::Post(unlink)]);
    posts.unlinked(&mut client);

    let ping = Request::new(Message::request(&format::PING), 224);
    let request = client.request(NOW, import, ping).unwrap();
    let posts = Posts::take(&mut client);
    // An early reply leaves as much as a reply may need; a reply leaves less, and ends it.
    assert!(posts.reply.options.has(MdOptions::MAX_SIZE));
    assert_eq!((posts.reply.len, posts.reply.max_size), (224 + 224, 224));
    posts.reply(
        &mut client,
        0,
        &Message::early_reply(Flavor::NULL, format::PING.opcode, 30, 6).to_bytes(),
    );
    assert_eq!(client.poll_output(), None);
    let reply = Message::reply(&format::PING, Status::OK);
    posts.reply(&mut client, 224, &reply.to_bytes());
    let unlink = ServiceOutput::Post(Op::Unlink(MdId(posts.reply.user)));
    let done = ServiceOutput::Host(Notice::Done {
        import,
        request,
        result: Ok(reply.into()),
        moved: 0,
        keeps_data: false,
    });
    assert_eq!(client.poll_output(), Some(done));
    assert_eq!(client.poll_output(), Some(unlink));
    posts.unlinked(&mut client);
    posts.sent(&mut client, Ok(()));
    assert!(client.posted.iter().next().is_none() && client.replies.is_empty());
}

#[test]
fn a_request_that_cannot_be_sent_fails_the_connection() {
    let (mut client, import, posts) = connecting();
    posts.sent(&mut client, Err(Errno::EHOSTUNREACH));
    let outputs: Vec<_> = std::iter::from_fn(|| client.poll_output()).collect();
    let state = State::Disconnected(Errno::EHOSTUNREACH);
    assert!(outputs.contains(&ServiceOutput::Host(Notice::State { import, state })));
    posts.unlinked(&mut client);
    assert!(client.posted.iter().next().is_none());
    assert!(!client.remove(import));
    client.disconnect(NOW, import);
    assert!(client.remove(import) && client.import(import).is_none());
}

#[test]
fn a_post_that_fails_is_a_failure_of_its_transmission() {
    let (mut client, import, _) = connecting();
    client.handle_timeout(client.poll_timeout().unwrap());
    let posts = Posts::next(&mut client);
    client.handle_posted(NOW, posts.reply.user, Ok(MdId(5)));
    client.handle_posted(NOW, posts.request.user, Err(Errno::ENETUNREACH));
    let outputs: Vec<_> = std::iter::from_fn(|| client.poll_output()).collect();
    let state = State::Disconnected(Errno::ENETUNREACH);
    let lost = ServiceOutput::Host(Notice::State { import, state });
    assert!(outputs.contains(&lost) && outputs.contains(&ServiceOutput::Post(Op::Unlink(MdId(5)))));
}
