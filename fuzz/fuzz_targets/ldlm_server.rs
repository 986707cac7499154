#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulmar_fuzz::ldlm_server::run(bytes));
