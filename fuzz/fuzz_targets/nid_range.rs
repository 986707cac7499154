#![no_main]
use fulmar_lnet_wire::{NetRange, NidList, NidRange, NumberList};

libfuzzer_sys::fuzz_target!(|text: &str| {
    fulmar_fuzz::print_and_parse::<NidRange>(text);
    fulmar_fuzz::print_and_parse::<NetRange>(text);
    fulmar_fuzz::print_and_parse::<NidList>(text);
    let _ = NumberList::parse(text, u32::MAX);
});
