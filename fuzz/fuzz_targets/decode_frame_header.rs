#![no_main]
use fulmar_lnet_wire::socklnd::FrameHeader;
use fulmar_wire::Order;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for order in [Order::Little, Order::Big] {
        let Ok(header) = FrameHeader::decode(bytes, order) else { continue };
        let mut again = vec![];
        header.encode(order, &mut again);
        assert_eq!(again, bytes);
    }
});
