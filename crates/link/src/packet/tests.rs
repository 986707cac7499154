use super::*;

const FIN_PSH_ACK: u8 = 0x19;
const SEQUENCE: u32 = 0xffff_f000;
const ID: u16 = 0xfffe;
/// An odd length that is not a round number.
const PAYLOAD: usize = 8_957 * 3 + 101;
const SEGMENT: u16 = 8_957;

/// Returns a packet of a network stack: an incomplete checksum, and segments of `SEGMENT` bytes.
fn super_packet(v6: bool, tcp: bool) -> Vec<u8> {
    let (ip, own): (usize, usize) = (if v6 { 40 } else { 20 }, if tcp { 32 } else { 8 });
    let len = ip + own + PAYLOAD;
    let mut packet = vec![0; VNET + len];
    packet[0] = NEEDS_CHECKSUM;
    packet[1] = match (tcp, v6) {
        (true, false) => TCP_V4,
        (true, true) => TCP_V6,
        (false, _) => UDP,
    };
    let checksum: u16 = if tcp { 16 } else { 6 };
    for (at, value) in [(4, SEGMENT), (6, ip as u16), (8, checksum)] {
        packet[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
    let body = &mut packet[VNET..];
    let protocol = if tcp { 6 } else { 17 };
    if v6 {
        body[0] = 0x60;
        put_u16(body, 4, len - ip);
        body[6] = protocol;
        body[8..40].iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
    } else {
        body[0] = 0x45;
        put_u16(body, 2, len);
        put_u16(body, 4, usize::from(ID));
        body[9] = protocol;
        body[12..20].copy_from_slice(&[10, 99, 0, 1, 10, 99, 0, 2]);
        let header = !sum(&body[..20]);
        put_u16(body, 10, usize::from(header));
    }
    if tcp {
        body[ip + 4..ip + 8].copy_from_slice(&SEQUENCE.to_be_bytes());
        body[ip + 12] = 0x80;
        body[ip + 13] = FIN_PSH_ACK | CWR;
    } else {
        put_u16(body, ip + 4, own + PAYLOAD);
    }
    let pseudo = usize::from(pseudo_sum(body));
    put_u16(body, ip + usize::from(checksum), pseudo);
    for (n, byte) in body[ip + own..].iter_mut().enumerate() {
        *byte = (n * 7 / 3) as u8;
    }
    packet
}

/// Returns the sum of the pseudo-header, from addresses, protocol and length.
fn pseudo_sum(ip: &[u8]) -> u16 {
    let (addresses, header, protocol) = match ip[0] >> 4 {
        4 => (&ip[12..20], 20, ip[9]),
        _ => (&ip[8..40], 40, ip[6]),
    };
    fold([sum(addresses), u16::from(protocol), (ip.len() - header) as u16])
}

/// Checks a segment as a device would send it, and returns its sequence number, flags and payload.
fn check(packet: &[u8], v6: bool, tcp: bool) -> (u32, u8, Vec<u8>) {
    let ip = &packet[VNET..];
    let header = if v6 { 40 } else { 20 };
    let declared = u16_at(ip, if v6 { 4 } else { 2 });
    assert_eq!(usize::from(declared), ip.len() - if v6 { header } else { 0 });
    if !v6 {
        assert_eq!(sum(&ip[..20]), 0xffff, "the checksum of the header is correct");
    }
    let (own, checksum) = if tcp { (32, 16) } else { (8, 6) };
    let unfinished = u16_at(ip, header + checksum);
    assert_eq!(unfinished, pseudo_sum(ip), "the checksum is that of the pseudo-header");
    // When the device completes it, the sum over everything is correct.
    let mut finished = ip.to_vec();
    let value = !sum(&finished[header..]);
    put_u16(&mut finished, header + checksum, usize::from(value));
    let all = fold([pseudo_sum(&finished), sum(&finished[header..])]);
    assert_eq!(all, 0xffff);
    let transport = &ip[header..];
    if !tcp {
        assert_eq!(usize::from(u16_at(transport, 4)), transport.len());
    }
    let sequence = u32::from_be_bytes(transport[4..8].try_into().unwrap());
    (sequence, transport[13], transport[own..].to_vec())
}

const BOTH: [bool; 2] = [false, true];

#[test]
fn segments_are_charged_with_their_headers_and_framing() {
    let packet = super_packet(false, true);
    let train = Layout::of(&packet).train();
    assert_eq!(train, Train { count: 4, each: 8_957 + 52 + 38, last: 101 + 52 + 38 });
    let mut ack = vec![0; VNET + 40];
    ack[VNET] = 0x45;
    // The shortest frame takes 84 bytes of a line.
    assert_eq!(Layout::of(&ack).train(), Train { count: 1, each: 84, last: 84 });
}

#[test]
fn pieces_of_a_packet_have_the_content_of_the_whole() {
    for (v6, tcp) in BOTH.into_iter().flat_map(|v6| BOTH.map(|tcp| (v6, tcp))) {
        let packet = super_packet(v6, tcp);
        let layout = Layout::of(&packet);
        let whole = &packet[layout.payload..];
        let mut payload = vec![];
        for range in [0..1, 1..3, 3..4] {
            let mut out = vec![0xaa; LONGEST];
            let len = layout.cut(&packet, range.clone(), &mut out);
            let (sequence, flags, data) = check(&out[..len], v6, tcp);
            if tcp {
                assert_eq!(sequence, SEQUENCE.wrapping_add(payload.len() as u32));
                let last = if range.end == 4 { FIN_PSH_ACK } else { 0x10 };
                assert_eq!(flags, last | if range.start == 0 { CWR } else { 0 });
            }
            if !v6 {
                assert_eq!(u16_at(&out[VNET..], 4), ID.wrapping_add(range.start as u16));
            }
            // A piece of one segment is not segmented further, others are.
            assert_eq!(out[1] != 0, range.len() > 1);
            assert_eq!(Layout::of(&out[..len]).train().count, range.len() as u32);
            payload.extend(data);
        }
        assert!(payload == whole, "v6 {v6} tcp {tcp}");
    }
}

#[test]
fn all_segments_are_the_packet_itself() {
    let packet = super_packet(true, true);
    let mut out = vec![0; LONGEST];
    let len = Layout::of(&packet).cut(&packet, 0..4, &mut out);
    assert_eq!(out[..len], packet);
}

#[test]
fn truncated_or_unknown_packets_are_not_split() {
    let packet = super_packet(false, true);
    for len in 0..VNET + 60 {
        assert_eq!(Layout::of(&packet[..len]).train().count, 1);
    }
    for (at, value) in [(1, 9), (0, 0), (VNET, 0x55), (VNET + 20 + 12, 0x10)] {
        let mut odd = packet.clone();
        odd[at] = value;
        assert_eq!(Layout::of(&odd).train().count, 1, "byte {at}");
    }
}
