//! Conversion of views of the node into values of the administration API.

use fulmar_base::Time;
use fulmar_control::config::NiSpec;
use fulmar_control::show::{Connection, LndTunables, Net, Ni, SocklndPeer};
use fulmar_lnet::views;
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_net::ConnDetails;
use fulmar_socklnd::PeerInfo;

/// Groups NIs by network, in the order of the node.
///
/// `cpts` is the number of CPTs.
pub(crate) fn nets(
    nis: Vec<views::Ni>,
    specs: &[NiSpec],
    lnd_timeout: u32,
    cpts: u32,
    now: Time,
) -> Vec<Net> {
    let mut nets: Vec<Net> = Vec::new();
    for ni in nis {
        let spec = specs.iter().find(|spec| spec.nid == ni.nid);
        let id = ni.net;
        let bound = spec.and_then(|spec| spec.cpts.clone());
        let cpts = bound.unwrap_or_else(|| (0..cpts).collect());
        let shown = Ni { cpts, ..self::ni(ni, spec, lnd_timeout, now) };
        match nets.iter_mut().find(|net| net.net == id) {
            Some(net) => net.nis.push(shown),
            None => nets.push(Net { net: id, nis: vec![shown] }),
        }
    }
    nets
}

fn ni(ni: views::Ni, spec: Option<&NiSpec>, lnd_timeout: u32, now: Time) -> Ni {
    Ni {
        alive: ni.pinged.map(|at| now.since(at).as_secs()),
        interface: spec.map(|spec| spec.interface.clone()),
        is_secondary: spec.is_some_and(|spec| spec.is_secondary),
        lnd: spec.map(|spec| LndTunables {
            conns_per_peer: spec.conns_per_peer,
            timeout: spec.timeout.map_or(lnd_timeout, |own| seconds(own.as_secs())),
            own_timeout: spec.timeout.is_some(),
            tos: spec.tos,
        }),
        dev_cpt: -1,
        cpts: Vec::new(),
        refs: 1,
        view: ni,
    }
}

fn seconds(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Converts an open connection.
pub(crate) fn connection(conn: &ConnDetails) -> Connection {
    let kind = match conn.info.kind {
        ConnKind::CONTROL => 'C',
        ConnKind::BULK_IN => 'I',
        ConnKind::BULK_OUT => 'O',
        ConnKind::ANY => 'A',
        _ => '?',
    };
    let size = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
    Connection {
        peer: conn.info.peer,
        kind,
        cpt: u32::try_from(conn.cpt).unwrap_or(u32::MAX),
        local: conn.info.local,
        remote: conn.info.remote,
        send_buffer: size(conn.send_buffer),
        receive_buffer: size(conn.receive_buffer),
        nagle: false,
    }
}

/// Converts a peer of the socket LND.
pub(crate) fn socklnd_peer(peer: &PeerInfo) -> SocklndPeer {
    let dialled = if peer.dials { peer.ni.ip().zip(peer.remote) } else { None };
    SocklndPeer {
        peer: peer.peer,
        dials: dialled,
        connections: u32::try_from(peer.conns).unwrap_or(u32::MAX),
    }
}
