#![no_main]
use fulmar_lnet_wire::{Net, Nid, ProcessId};

libfuzzer_sys::fuzz_target!(|text: &str| {
    fulmar_fuzz::print_and_parse::<Nid>(text);
    fulmar_fuzz::print_and_parse::<Net>(text);
    fulmar_fuzz::print_and_parse::<ProcessId>(text);
});
