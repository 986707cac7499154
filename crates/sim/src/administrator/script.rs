//! Draws the commands of a selftest session.

use std::collections::VecDeque;

use fulmar_base::Rng;
use fulmar_lnet_wire::{MTU, Nid};
use fulmar_selftest::console::{Command, DataCheck, NodeState, Target, TestSpec};

use crate::options::pick;
use crate::world::World;

const CLIENTS: &str = "clients";
const SERVERS: &str = "servers";
const BATCH: &str = "load";

/// Draws one session.
pub(super) fn draw(rng: &mut Rng, world: &World, endless: bool) -> VecDeque<Command> {
    let all: Vec<Nid> = world.host_ids().map(|host| world.nid(host)).collect();
    let servers = some_of(rng, if endless { &all[1..] } else { &all });
    // A test of a node with itself has no delay, so an endless one would never let time pass.
    let others = all.iter().filter(|nid| !endless || !servers.contains(nid)).copied();
    let clients = some_of(rng, &others.collect::<Vec<_>>());
    let name = format!("s{}", rng.below(1000));
    let (timeout, force) = (*pick(rng, &[0, 20, 300]), rng.one_in(2));
    let mut script = vec![Command::NewSession { name, timeout, force, features: 1 }];
    add_group(rng, &mut script, CLIENTS, &clients);
    add_group(rng, &mut script, SERVERS, &servers);
    script.push(Command::AddBatch { batch: BATCH.into() });
    let servers = servers.len() as u32;
    for _ in 0..rng.between(1, if endless { 2 } else { 3 }) {
        script.push(add_test(rng, servers, endless));
    }
    for _ in 0..rng.between(1, 2) {
        script.push(Command::Run { batch: BATCH.into(), timeout: 0 });
        // Faults should occur while tests run.
        let queries = if endless { rng.between(2, 8) } else { rng.between(0, 5) };
        script.extend((0..queries).map(|_| read_only(rng, &all)));
        if endless || rng.one_in(2) {
            script.push(Command::Stop { batch: BATCH.into(), force: rng.one_in(2) });
            script.push(query(rng));
        }
    }
    script.push(Command::EndSession {});
    script.into()
}

fn add_group(rng: &mut Rng, script: &mut Vec<Command>, group: &str, nodes: &[Nid]) {
    let named = || group.to_owned();
    script.push(Command::AddGroup { group: named() });
    script.push(Command::AddNodes { group: named(), nodes: nodes.to_vec() });
    match rng.below(6) {
        0 => script.push(Command::RefreshGroup { group: named() }),
        1 => {
            let states = vec![NodeState::Down, NodeState::Busy, NodeState::Unknown];
            script.push(Command::CleanGroup { group: named(), states });
        }
        2 => {
            // Some nodes are removed and added again.
            let nodes = some_of(rng, nodes);
            script.push(Command::RemoveNodes { group: named(), nodes: nodes.clone() });
            script.push(Command::AddNodes { group: named(), nodes });
        }
        _ => {}
    }
}

fn add_test(rng: &mut Rng, servers: u32, endless: bool) -> Command {
    let test = match rng.below(3) {
        0 => TestSpec::Ping,
        _ => TestSpec::Brw {
            write: rng.one_in(2),
            check: *pick(rng, &[DataCheck::None, DataCheck::Simple, DataCheck::Full]),
            size: *pick(rng, &[8, 4096, 65_536, MTU]),
            offset: *pick(rng, &[0, 0, 8, 4088]),
        },
    };
    Command::AddTest {
        batch: BATCH.into(),
        test,
        loops: if endless && !rng.one_in(4) { -1 } else { rng.between(1, 12) as i32 },
        concurrency: rng.between(1, if endless { 2 } else { 4 }) as u32,
        distribute: (rng.between(1, 3) as u32, rng.between(1, servers.min(3).into()) as u32),
        from: CLIENTS.into(),
        to: SERVERS.into(),
    }
}

/// Draws a command that changes nothing.
fn read_only(rng: &mut Rng, all: &[Nid]) -> Command {
    let target = match rng.below(4) {
        0 => Target::Session,
        1 => Target::Group(CLIENTS.into()),
        2 => Target::Batch { name: BATCH.into(), servers: rng.one_in(2) },
        _ => Target::Nodes(all.to_vec()),
    };
    let timeout = rng.between(0, 10) as u32;
    match rng.below(7) {
        0 => query(rng),
        1 => Command::Ping { target, timeout },
        2 | 3 => Command::Stat { target, timeout },
        4 => Command::Measure { target, timeout },
        5 => Command::ShowBatch { batch: BATCH.into() },
        _ => Command::ShowSession {},
    }
}

fn query(rng: &mut Rng) -> Command {
    let timeout = rng.between(0, 10) as u32;
    Command::Query { batch: BATCH.into(), test: 0, servers: rng.one_in(4), timeout }
}

/// Draws at least one of the nodes, in random order.
fn some_of(rng: &mut Rng, nodes: &[Nid]) -> Vec<Nid> {
    let mut left = nodes.to_vec();
    let count = rng.between(1, nodes.len() as u64);
    (0..count).map(|_| left.swap_remove(rng.below(left.len() as u64) as usize)).collect()
}
