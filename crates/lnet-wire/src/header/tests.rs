//! The worked examples of lnet-wire §14, without their frame headers.

use fulmar_wire::testing::{hex, round_trip};

use super::*;
use crate::nid::Net;

const ONE: Nid = Nid::small(Net::TCP, 0x0a00_0001);
const TWO: Nid = Nid::small(Net::TCP, 0x0a00_0002);
const INTERFACE: u64 = 0x18cc_b6f1_d2a3_0405;

fn check(form: HeaderForm, text: &str) -> Header {
    let bytes = hex(text);
    assert_eq!(bytes.len(), form.len());
    round_trip(&bytes, |bytes| Header::decode(bytes, form), |header, out| header.encode(form, out))
}

fn header(target: Nid, source: Nid, payload_len: u32, body: Body) -> Header {
    let (target_pid, source_pid) = (Pid::LUSTRE, Pid::LUSTRE);
    Header { target, source, target_pid, source_pid, payload_len, body }
}

fn ping_get() -> Body {
    Body::Get {
        reply: Handle { interface: INTERFACE, object: 0x1ab9 },
        match_bits: crate::PING_MATCH_BITS,
        portal: crate::RESERVED_PORTAL,
        offset: 0,
        sink_len: 272,
    }
}

#[test]
fn get() {
    let got = check(
        HeaderForm::Small,
        "02 00 00 0a 00 00 02 00 01 00 00 0a 00 00 02 00 39 30 00 00 39 30 00 00
         02 00 00 00 00 00 00 00 | GET, no payload
         05 04 a3 d2 f1 b6 cc 18 b9 1a 00 00 00 00 00 00
         00 00 00 00 00 00 00 80 | match bits
         00 00 00 00 00 00 00 00 10 01 00 00 00 00 00 00 | portal, offset, sink",
    );
    assert_eq!(got, header(TWO, ONE, 0, ping_get()));
}

#[test]
fn get_with_large_nids() {
    let got = check(
        HeaderForm::Large,
        "0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00
         00 00 00 02 0c 02 00 00 20 01 0d b8 00 00 00 00
         00 00 00 00 00 00 00 01 39 30 00 00 39 30 00 00
         02 00 00 00 00 00 00 00 05 04 a3 d2 f1 b6 cc 18
         b9 1a 00 00 00 00 00 00 00 00 00 00 00 00 00 80
         00 00 00 00 00 00 00 00 10 01 00 00 00 00 00 00",
    );
    let [two, one] = ["2001:db8::2@tcp", "2001:db8::1@tcp"].map(|text| text.parse().unwrap());
    assert_eq!(got, header(two, one, 0, ping_get()));
}

#[test]
fn reply() {
    let got = check(
        HeaderForm::Small,
        "01 00 00 0a 00 00 02 00 02 00 00 0a 00 00 02 00 39 30 00 00 39 30 00 00
         03 00 00 00 30 00 00 00 05 04 a3 d2 f1 b6 cc 18 | REPLY, 48 bytes
         b9 1a 00 00 00 00 00 00 00 00 00 00 00 00 00 00
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let handle = Handle { interface: INTERFACE, object: 0x1ab9 };
    assert_eq!(got, header(ONE, TWO, 48, Body::Reply { handle }));
}

#[test]
fn put() {
    let text = "02 00 00 0a 00 00 02 00 01 00 00 0a 00 00 02 00 39 30 00 00 39 30 00 00
         01 00 00 00 08 00 00 00 05 04 a3 d2 f1 b6 cc 18 | PUT, 8 bytes
         bd 1a 00 00 00 00 00 00 ef cd ab 10 32 54 06 00
         88 77 66 55 44 33 22 11 1a 00 00 00 00 00 00 00 | header data, portal, offset";
    let body = |ack| Body::Put {
        ack,
        match_bits: 0x0006_5432_10ab_cdef,
        header_data: 0x1122_3344_5566_7788,
        portal: 26,
        offset: 0,
    };
    let ack = Handle { interface: INTERFACE, object: 0x1abd };
    assert_eq!(check(HeaderForm::Small, text), header(TWO, ONE, 8, body(ack)));

    let unacknowledged = text
        .replace("05 04 a3 d2 f1 b6 cc 18", "ff ff ff ff ff ff ff ff")
        .replace("bd 1a 00 00 00 00 00 00", "ff ff ff ff ff ff ff ff");
    let got = check(HeaderForm::Small, &unacknowledged);
    assert_eq!(got, header(TWO, ONE, 8, body(Handle::NONE)));
}

#[test]
fn ack() {
    let got = check(
        HeaderForm::Small,
        "01 00 00 0a 00 00 02 00 02 00 00 0a 00 00 02 00 39 30 00 00 39 30 00 00
         00 00 00 00 00 00 00 00 05 04 a3 d2 f1 b6 cc 18 | ACK
         bd 1a 00 00 00 00 00 00 ef cd ab 10 32 54 06 00
         08 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | 8 bytes accepted",
    );
    let handle = Handle { interface: INTERFACE, object: 0x1abd };
    let body = Body::Ack { handle, match_bits: 0x0006_5432_10ab_cdef, accepted: 8 };
    assert_eq!(got, header(ONE, TWO, 0, body));
}

/// Checks every type in both forms, with a different value in every field.
#[test]
fn every_field_has_its_place_in_both_forms() {
    let handle = Handle { interface: 0x0101, object: 0x0202 };
    let (match_bits, portal, offset) = (0x0303, 0x0404, 0x0505);
    for body in [
        Body::Ack { handle, match_bits, accepted: 0x0606 },
        Body::Put { ack: handle, match_bits, header_data: 0x0707, portal, offset },
        Body::Get { reply: handle, match_bits, portal, offset, sink_len: 0x0808 },
        Body::Reply { handle },
    ] {
        let value = Header { target_pid: Pid(7), source_pid: Pid(9), ..header(TWO, ONE, 3, body) };
        for form in [HeaderForm::Small, HeaderForm::Large] {
            let mut bytes = Vec::new();
            value.encode(form, &mut bytes);
            let again = round_trip(
                &bytes,
                |bytes| Header::decode(bytes, form),
                |header, out| header.encode(form, out),
            );
            assert_eq!(again, value);
            assert_eq!(value.body.message_type().0, u32::from(bytes[form.len() - 48]));
        }
    }
}

#[test]
fn an_unknown_type_is_refused() {
    let mut bytes = Vec::new();
    let handle = Handle::NONE;
    header(TWO, ONE, 0, Body::Reply { handle }).encode(HeaderForm::Small, &mut bytes);
    for got in [4, 5, 0xff] {
        bytes[24] = got;
        let error = DecodeError::Range { field: "lnet.type", got: got.into() };
        assert_eq!(Header::decode(&bytes, HeaderForm::Small), Err(error));
    }
}

#[test]
fn bytes_after_the_header_are_refused() {
    let mut bytes = Vec::new();
    header(TWO, ONE, 0, ping_get()).encode(HeaderForm::Small, &mut bytes);
    bytes.push(0);
    let error = DecodeError::Trailing { message: "lnet header", got: 1 };
    assert_eq!(Header::decode(&bytes, HeaderForm::Small), Err(error));
}

#[test]
fn the_type_limits_the_length_of_the_payload() {
    let handle = Handle::NONE;
    let put = Body::Put { ack: handle, match_bits: 0, header_data: 0, portal: 0, offset: 0 };
    let ack = Body::Ack { handle, match_bits: 0, accepted: 0 };
    for (body, max) in
        [(put, 1 << 20), (Body::Reply { handle }, 1 << 20), (ack, 0), (ping_get(), 0)]
    {
        assert_eq!(header(TWO, ONE, max, body).check(), Ok(()));
        let got = u64::from(max) + 1;
        let error = DecodeError::Range { field: "lnet.payload_length", got };
        assert_eq!(header(TWO, ONE, max + 1, body).check(), Err(error));
    }
}
