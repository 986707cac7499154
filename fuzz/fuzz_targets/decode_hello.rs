#![no_main]
use fulmar_lnet_wire::socklnd::Hello;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(Some((hello, order, used))) = Hello::decode(bytes) else { return };
    assert!(used <= bytes.len().min(Hello::LEN_MAX));
    let mut again = vec![];
    hello.encode(order, &mut again);
    assert_eq!(Hello::decode(&again), Ok(Some((hello, order, again.len()))));
});
