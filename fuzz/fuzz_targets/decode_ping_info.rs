#![no_main]
use fulmar_lnet_wire::ping::PingInfo;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(decoded) = PingInfo::decode(bytes) else { return };
    assert!(decoded.size <= PingInfo::SIZE_MAX);
    let mut again = vec![];
    decoded.info.encode(decoded.order, &mut again);
    assert_eq!(PingInfo::decode(&again).map(|decoded| decoded.info), Ok(decoded.info));
});
