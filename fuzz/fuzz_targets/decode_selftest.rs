#![no_main]
use fulmar_lnet_wire::selftest::Message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok((message, order)) = Message::decode(bytes) else { return };
    let mut again = vec![];
    message.encode(order, &mut again);
    assert_eq!(Message::decode(&again), Ok((message, order)));
});
