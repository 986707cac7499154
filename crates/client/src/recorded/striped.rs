//! A real client in directories with two stripes, one for each function from names to stripes.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lustre_wire::format::{DEFAULT_LAYOUT, LAYOUT, MDT_BODY, NAME, REINT};
use fulmar_lustre_wire::mdt::{MdtBody, ReintOp, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Name, Opcode};

use super::with_rpcs;
use crate::files::merge::{Part, merged};
use crate::files::shape::{Places, Shape, Shapes};

const STRIPED: &[u8] = include_bytes!("../../../../testdata/traces/striped.pcapng.gz");

/// Returns the directory and the name that a request is about, and the version of the layout that it is for.
fn name_in(request: &Message<'_>) -> Option<(Fid, Name, Option<u32>)> {
    let name: Name = request.get(&NAME).ok()??;
    if name.as_bytes().is_empty() {
        return None;
    }
    if let Ok(Some(reint)) = request.get(&REINT) {
        let creates = matches!(reint.head.op, ReintOp::CREATE | ReintOp::OPEN);
        // A link names its directory at another place.
        let is_other = matches!(reint.head.op, ReintOp::LINK | ReintOp::SETXATTR);
        let version = creates.then_some(reint.head.layout_version);
        return (!is_other).then_some((reint.head.fid, name, version));
    }
    let body: MdtBody = request.get(&MDT_BODY).ok()??;
    (request.body.opcode == Opcode::LDLM_ENQUEUE).then_some((body.fid, name, None))
}

/// Returns the shape of a directory that a reply tells.
fn shape_in(reply: &Message<'_>) -> Option<(Fid, Shape)> {
    let body: MdtBody = reply.get(&MDT_BODY).ok()??;
    let layout = reply.bytes(&LAYOUT).filter(|_| body.valid.has(Valid::MEA))?;
    let default = reply.bytes(&DEFAULT_LAYOUT).unwrap_or_default();
    Some((body.fid, Shape::decode(layout, default).unwrap()))
}

#[test]
fn names_are_in_the_stripes_where_a_real_client_has_them() {
    with_rpcs(STRIPED, |rpcs| {
        let (mut shapes, mut names) = (Shapes::default(), BTreeMap::<Fid, BTreeSet<Fid>>::new());
        let mut creations = 0;
        for rpc in rpcs {
            if let Some((place, name, version)) = name_in(&rpc.request.message)
                && let Some(directory) = shapes.master(place)
            {
                let shape = shapes.get(directory).unwrap();
                let expected = Places::One(place);
                assert_eq!(shape.places(directory, name.as_bytes()), expected, "{name:?}");
                if let Some(version) = version.filter(|version| *version != 0) {
                    assert_eq!(version, shape.version());
                    creations += 1;
                }
                names.entry(directory).or_default().insert(place);
            }
            if let Some((directory, shape)) = rpc.reply().and_then(|reply| shape_in(&reply.message))
            {
                shapes.note(directory, shape);
            }
        }
        // Each of four directories has names in both stripes.
        assert_eq!(names.values().map(BTreeSet::len).collect::<Vec<_>>(), [2; 4]);
        assert!(creations > 4 * 20, "{creations}");
    });
}

#[test]
fn what_a_real_client_lists_is_in_both_stripes() {
    with_rpcs(STRIPED, |rpcs| {
        let mut shapes = Shapes::default();
        let replies = rpcs.iter().filter_map(|rpc| rpc.reply());
        replies.filter_map(|reply| shape_in(&reply.message)).for_each(|(directory, shape)| {
            shapes.note(directory, shape);
        });
        let mut parts = BTreeMap::<Fid, BTreeMap<Fid, Part>>::new();
        for rpc in rpcs.iter().filter(|rpc| rpc.request.message.body.opcode == Opcode::MDS_READPAGE)
        {
            let stripe = rpc.request.message.require(&MDT_BODY).unwrap().fid;
            let Some(directory) = shapes.master(stripe) else { continue };
            let part = Part::decode(rpc.bulk[0].bytes).unwrap().without_own_names();
            parts.entry(directory).or_default().insert(stripe, part);
        }
        assert_eq!(parts.len(), 4);
        for stripes in parts.into_values() {
            assert_eq!(stripes.len(), 2);
            let (items, next) = merged(stripes.into_values().collect()).unwrap();
            let mut names: Vec<_> =
                items.iter().map(|item| String::from_utf8_lossy(&item.name).into_owned()).collect();
            names.sort();
            let expected = [
                ".t.a1B2c3",
                "2",
                "4",
                "5",
                "6",
                "7",
                "8",
                "f.t.a1B2c3.t",
                "f1.t",
                "f2.t",
                "f3.t",
                "f4.t",
                "f5.t",
                "f6.t",
                "f7.t",
                "f8.t",
                "fx.A1234567.t",
                "l",
                "one",
                "p",
                "two",
                "x.A1234567",
            ];
            assert_eq!((names, next), (expected.map(str::to_owned).to_vec(), None));
            assert!(items.windows(2).all(|two| two[0].next <= two[1].next));
        }
    });
}
