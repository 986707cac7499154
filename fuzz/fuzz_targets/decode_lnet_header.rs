#![no_main]
use fulmar_lnet_wire::header::{Header, HeaderForm};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for form in [HeaderForm::Small, HeaderForm::Large] {
        let Ok(header) = Header::decode(bytes, form) else { continue };
        let mut again = vec![];
        header.encode(form, &mut again);
        assert_eq!(again.len(), form.len());
        assert_eq!(Header::decode(&again, form), Ok(header));
    }
});
