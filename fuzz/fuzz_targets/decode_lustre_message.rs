#![no_main]
use fulmar_lustre_wire::message::{Container, Message, Plain};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(container) = Container::decode(bytes) else { return };
    let mut again = vec![];
    container.encode(&mut again);
    assert_eq!(Container::decode(&again).as_ref(), Ok(&container));
    if let Ok(plain) = Plain::of(container) {
        let mut again = vec![];
        plain.clone().wrap().encode(&mut again);
        assert_eq!(Container::decode(&again).and_then(Plain::of), Ok(plain));
    }
    let Ok(message) = Message::decode(bytes) else { return };
    assert_eq!(Message::decode(&message.to_bytes()).as_ref(), Ok(&message));
    for (field, buffer) in message.buffers() {
        let _ = field.map(|field| field.value(buffer, message.order));
    }
});
