#![no_main]
use fulmar_control::config::{self, Module, NodeConfig};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let set = |name| NodeConfig::default().set(Module::Lnet, name, text).err();
    let errors = [
        NodeConfig::default().set_networks(text).err(),
        set("networks"),
        set("ip2nets"),
        set("routes"),
        config::nid_list(text).err(),
        config::interface_list(text).err(),
        config::cpt_list(text).err(),
    ];
    // Errors must be printable.
    assert!(errors.into_iter().flatten().all(|error| !error.to_string().is_empty()));
});
