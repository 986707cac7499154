//! Claims to be another node, so that its messages come to the attacker.

use std::io;

use fulmar_lnet_wire::Nid;

use crate::hostile::attacker::Attacker;
use crate::hostile::forge;
use crate::hostile::line::Line;
use crate::hostile::swarm::Swarm;

/// Makes a list of NIDs from that of the attacker and those of its victims.
type List = fn(Nid, &[Nid]) -> Vec<Nid>;

/// Sends pushes, answers pings and sends messages with these NIDs and sources.
fn claim(attacker: &mut Attacker, lists: &[List]) -> io::Result<()> {
    let mut swarm = Swarm::new(0..4);
    let mut sequence = 1;
    while attacker.goes_on() {
        let list = lists[attacker.rng.below(lists.len() as u64) as usize];
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            sequence += 1;
            let info = forge::info(&list(line.nid, &attacker.victims), sequence);
            line.send(&forge::push(line.nid, attacker.target), &info);
            line.send(&forge::ping(line.nid, attacker.target), &[]);
            attacker.tally.sent += 2;
        };
        let victims = attacker.victims.clone();
        let info = |nid| forge::info(&list(nid, &victims), u32::MAX);
        swarm.turn(attacker, fill, |_| 1 << 16, Some(&info));
        attacker.rest();
    }
    Ok(())
}

/// Names a victim as the primary NID.
pub(super) fn primary(attacker: &mut Attacker) -> io::Result<()> {
    claim(
        attacker,
        &[
            |own, victims| victims.iter().copied().chain([own]).collect(),
            |own, victims| vec![victims[0], own],
            |own, victims| vec![victims[victims.len() - 1], own],
        ],
    )
}

/// Lists the NIDs of a victim.
pub(super) fn listed(attacker: &mut Attacker) -> io::Result<()> {
    claim(
        attacker,
        &[
            |own, victims| std::iter::once(own).chain(victims.iter().copied()).collect(),
            |own, victims| vec![own, victims[0]],
            |own, victims| vec![own, victims[victims.len() - 1]],
        ],
    )
}

/// Sends pushes, pings and answers whose source is a victim.
pub(super) fn source(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..4);
    let mut sequence = 1;
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            sequence += 1;
            let victim =
                attacker.victims[attacker.rng.below(attacker.victims.len() as u64) as usize];
            let info = forge::info(&[victim, line.nid], sequence);
            line.send(&forge::push(victim, attacker.target), &info);
            line.send(&forge::ping(victim, attacker.target), &[]);
            attacker.tally.sent += 2;
        };
        swarm.turn(attacker, fill, |_| 1 << 16, None);
    }
    Ok(())
}
