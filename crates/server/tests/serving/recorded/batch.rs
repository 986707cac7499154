//! The parts of batches: each is compared as the request that it is.

use fulmar_lustre_wire::format::{BATCH, BATCH_REPLY, BatchRequests, ENQUEUE_GETATTR};
use fulmar_lustre_wire::mdt::BatchRequest;
use fulmar_lustre_wire::message::{Body, Container, Message};
use fulmar_lustre_wire::{Content, Opcode};
use fulmar_trace::rpc::Rpc;
use serde_json::{Value, json};

/// Returns a reply, and the parts of a batch in it, each with the name of its operation.
pub(crate) fn shown(reply: &Message<'_>) -> Vec<(String, Value)> {
    let name = |message: &Message<'_>| message.format().to_string();
    let mut whole = json!(reply);
    if let Some(batch) = whole.get_mut("batch_reply").and_then(Value::as_object_mut) {
        batch.remove("messages");
    }
    let parts = replies(reply);
    let parts = parts.iter().map(|part| (name(part), json!(part)));
    std::iter::once((name(reply), whole)).chain(parts).collect()
}

/// Returns the replies to the parts of a batch; none of another request.
pub(crate) fn replies(reply: &Message<'_>) -> Vec<Message<'static>> {
    let batch = reply.get(&BATCH_REPLY).unwrap().unwrap_or_default();
    let replies = Message::replies_in(&batch, &ENQUEUE_GETATTR).unwrap();
    replies.into_iter().map(Message::into_owned).collect()
}

/// Returns the parts of a batch as requests; none of another request.
pub(crate) fn requests(rpc: &Rpc<'_>) -> Vec<Message<'static>> {
    let message = &rpc.request.message;
    let Some(header) = message.get(&BATCH).unwrap() else { return Vec::new() };
    let buffers = match header.inline_len {
        0 => {
            let bulk: Vec<u8> = rpc.bulk.iter().flat_map(|part| part.bytes.to_vec()).collect();
            BatchRequests::decode(&bulk, message.order).unwrap().0
        }
        _ => vec![BatchRequest::decode(&header.data.0, message.order).unwrap()],
    };
    let mut requests = Vec::new();
    for BatchRequest { count, messages, .. } in buffers {
        let parts = Container::decode_batch(&messages.0, count).unwrap();
        requests.extend(parts.into_iter().map(|part| {
            let body = Body::request(Opcode::LDLM_ENQUEUE);
            Message::of_part(part, body, &ENQUEUE_GETATTR).into_owned()
        }));
    }
    requests
}
