#![no_main]
use fulmar_lnet_wire::acceptor::ConnRequest;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(Some((request, used))) = ConnRequest::decode(bytes) else { return };
    assert!(used <= bytes.len().min(ConnRequest::LEN_MAX));
    let mut again = vec![];
    request.encode(&mut again);
    assert_eq!(ConnRequest::decode(&again), Ok(Some((request, again.len()))));
});
