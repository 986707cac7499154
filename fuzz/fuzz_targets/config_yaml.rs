#![no_main]
use fulmar_control::config::{LnetConf, NodeConfig, Source};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let source = Source::new("fuzz.yaml", text);
    let errors = [LnetConf::parse(&source).err(), NodeConfig::parse(&source).err()];
    // Errors must be printable.
    assert!(errors.into_iter().flatten().all(|error| !error.to_string().is_empty()));
});
