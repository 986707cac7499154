#![no_main]
use fulmar_lustre_wire::format::Format;
use fulmar_wire::Order;

// A format, a place in its request and reply, and the content of the buffer.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [format, place, content @ ..] = bytes else { return };
    let Some(format) = Format::ALL.get(usize::from(*format)) else { return };
    let fields = [format.request, format.reply].map(|fields| fields.get(usize::from(*place)));
    let fields = fields.into_iter().flatten().copied().chain(format.bulk(content));
    for field in fields {
        for order in [Order::Little, Order::Big] {
            let value = field.value(content, order);
            if let Ok(again) = field.recode(content, order) {
                assert_eq!(field.value(&again, order), value, "{field:?}");
            }
        }
    }
});
