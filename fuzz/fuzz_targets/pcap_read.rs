#![no_main]
use fulmar_trace::{Capture, Conversation, decompress, lnet};

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let Ok(file) = decompress(file) else { return };
    let Ok(capture) = Capture::read(&file) else { return };
    for connection in Conversation::of(&capture).connections {
        let _ = lnet::parse(&connection);
    }
});
