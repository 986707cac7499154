#![no_main]
use fulmar_lustre_wire::message::{Container, Message};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(container) = Container::decode(bytes) else { return };
    let mut again = vec![];
    container.encode(&mut again);
    assert_eq!(Container::decode(&again).as_ref(), Ok(&container));
    let Ok(message) = Message::decode(bytes) else { return };
    assert_eq!(Message::decode(&message.to_bytes()).as_ref(), Ok(&message));
    for (field, buffer) in message.buffers() {
        let _ = field.map(|field| field.value(buffer, message.order));
    }
});
