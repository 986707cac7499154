//! Checks the number, content and order of events: invariants 7, 8, 10, 12, 13, 14, 16 and 18 of
//! lnet-behaviour §17.

use fulmar_lnet::{Event, EventKind, MdOptions};

use super::ledger::{Action, Expect, Ledger, MdKey, Observation, Operation};
use super::{Verdict, require};
use crate::HostId;
use crate::signal::Signal;

const CHECKER: &str = "operations";

/// Checks a signal. In a run with hostile hosts, requests may belong to no operation.
pub(super) fn observe(
    ledger: &mut Ledger,
    incarnation: u32,
    hostile: bool,
    signal: &Signal,
) -> Verdict {
    match signal {
        Signal::Event { host, event } => {
            let key = MdKey { host: *host, incarnation, md: event.md };
            descriptor(ledger, key, event)?;
            match event.kind {
                EventKind::Send | EventKind::Ack | EventKind::Reply | EventKind::Unlink => {
                    initiator(ledger, key, event)
                }
                EventKind::Put => put_served(ledger, *host, hostile, event),
                EventKind::Get => get_served(ledger, *host, hostile, event),
            }
        }
        Signal::Handled { host, done } => {
            let mut all = ledger.operations.iter_mut().rev();
            let of_it = |operation: &&mut Operation| {
                operation.target == *host && operation.seen.handling == Some(*done)
            };
            if let Some(operation) = all.find(of_it) {
                operation.seen.handling = None;
            }
            Ok(())
        }
        Signal::Crashed { host } => {
            ledger.crashed(*host);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks that the MD is known, may have this event, and is not unlinked.
fn descriptor(ledger: &mut Ledger, key: MdKey, event: &Event) -> Verdict {
    let record = ledger.mds.get_mut(&key);
    let known = record.is_some();
    require(known, CHECKER, || format!("{key:?} was never created: {event:?}"))?;
    let Some(record) = record else { return Ok(()) };
    require(!record.unlinked, CHECKER, || format!("{key:?} was unlinked before {event:?}"))?;
    require(record.made.user == event.user, CHECKER, || format!("{key:?}: wrong user {event:?}"))?;
    record.unlinked = event.unlinked;
    if event.kind == EventKind::Unlink {
        return require(event.unlinked, CHECKER, || format!("{key:?}: UNLINK without unlinked"));
    }
    record.events += 1;
    let threshold = record.made.threshold.unwrap_or(u32::MAX);
    let events = record.events;
    require(events <= threshold, CHECKER, || {
        format!("{key:?}: event {events} of a threshold of {threshold}: {event:?}")
    })?;
    let end = event.offset.saturating_add(event.mlength.into());
    let moved = matches!(event.kind, EventKind::Put | EventKind::Get | EventKind::Reply);
    require(!moved || end <= record.made.len, CHECKER, || {
        format!("{key:?}: {event:?} exceeds the MD of {} bytes", record.made.len)
    })?;
    let capped = moved && record.made.options.has(MdOptions::MAX_SIZE);
    require(!capped || event.mlength <= record.made.max_size, CHECKER, || {
        format!("{key:?}: {event:?} is longer than {}", record.made.max_size)
    })
}

fn initiator(ledger: &mut Ledger, key: MdKey, event: &Event) -> Verdict {
    let Some(number) = ledger.mds.get(&key).and_then(|record| record.operation) else {
        let idle = event.kind == EventKind::Unlink;
        return require(idle, CHECKER, || format!("{key:?} belongs to no operation: {event:?}"));
    };
    let operation = &mut ledger.operations[number];
    let honest = operation.honest;
    let fail = |what: &str| format!("operation {number}: {what}: {event:?}, {operation:?}");
    match event.kind {
        EventKind::Send => {
            require(operation.seen.sends == 0, CHECKER, || fail("a second SEND"))?;
            let same = event.match_bits == operation.match_bits && event.portal == operation.portal;
            require(same, CHECKER, || fail("SEND of something else"))?;
        }
        EventKind::Ack => {
            let wanted = operation.action == Action::Put { ack: true };
            require(wanted, CHECKER, || fail("an ACK that was not requested"))?;
            require(operation.seen.responses == 0, CHECKER, || fail("a second ACK"))?;
            let served = operation.seen.served == 1 || !honest;
            require(served, CHECKER, || fail("an ACK without a PUT event"))?;
            let handled = operation.seen.handling.is_none();
            require(handled, CHECKER, || fail("an ACK before the handler returned"))?;
            let same = event.mlength == operation.seen.accepted
                && event.match_bits == operation.match_bits;
            require(same || !honest, CHECKER, || fail("an ACK of something else"))?;
        }
        EventKind::Reply => {
            let wanted = operation.action == Action::Get;
            require(wanted, CHECKER, || fail("a REPLY that was not requested"))?;
            require(operation.seen.responses == 0, CHECKER, || fail("a second REPLY"))?;
            if let (Expect::Moved(len), Ok(())) = (operation.expect, event.status) {
                require(event.mlength == len, CHECKER, || fail("a REPLY of another length"))?;
            }
        }
        _ => {}
    }
    let ok = event.status.is_ok();
    match event.kind {
        EventKind::Send => (operation.seen.sends, operation.seen.send_ok) = (1, ok),
        EventKind::Ack | EventKind::Reply => {
            (operation.seen.responses, operation.seen.response_ok) = (1, ok);
        }
        _ => {}
    }
    operation.seen.over |= event.unlinked;
    let (sends, over) = (operation.seen.sends, operation.seen.over);
    require(!over || sends == 1, CHECKER, || {
        format!("operation {number} ends with {sends} SEND events: {event:?}")
    })
}

fn put_served(ledger: &mut Ledger, host: HostId, hostile: bool, event: &Event) -> Verdict {
    let Some(number) = ledger.put_of(event.header_data) else {
        return require(hostile, CHECKER, || format!("{host}: header data of no PUT: {event:?}"));
    };
    let operation = &mut ledger.operations[number];
    let fail = |what: &str| format!("operation {number}: {what}: {event:?}, {operation:?}");
    require(operation.target == host, CHECKER, || fail("a PUT for another node"))?;
    require(operation.seen.served == 0, CHECKER, || fail("delivered twice"))?;
    require(operation.expect != Expect::Dropped, CHECKER, || {
        fail("delivered, but should be dropped")
    })?;
    let same = event.match_bits == operation.match_bits && event.portal == operation.portal;
    require(same, CHECKER, || fail("a PUT changed in transit"))?;
    require(event.rlength == operation.local.len, CHECKER, || fail("another length"))?;
    if let (Expect::Moved(len), Ok(())) = (operation.expect, event.status) {
        require(event.mlength == len, CHECKER, || fail("another length was accepted"))?;
    }
    // The message may come again after its connection ended in the middle of it.
    if event.status.is_ok() {
        operation.seen.served = 1;
        operation.seen.accepted = event.mlength;
        operation.seen.handling = event.done;
    }
    Ok(())
}

fn get_served(ledger: &mut Ledger, host: HostId, hostile: bool, event: &Event) -> Verdict {
    let Some(number) = ledger.operation_of(event.match_bits) else {
        return require(hostile, CHECKER, || format!("{host}: match bits of no GET: {event:?}"));
    };
    let operation = &mut ledger.operations[number];
    let fail = |what: &str| format!("operation {number}: {what}: {event:?}, {operation:?}");
    require(operation.target == host, CHECKER, || fail("a GET for another node"))?;
    require(operation.action == Action::Get, CHECKER, || fail("not a GET"))?;
    require(operation.seen.served == 0, CHECKER, || fail("served twice"))?;
    operation.seen.served = 1;
    Ok(())
}

/// Requires that all operations and MDs are over.
pub(super) fn finished(ledger: &Ledger) -> Verdict {
    for (number, operation) in ledger.operations.iter().enumerate() {
        let Observation { lost, sends, .. } = &operation.seen;
        require(operation.seen.is_over(), CHECKER, || {
            format!("operation {number} never ends: {operation:?}")
        })?;
        require(*lost || *sends == 1, CHECKER, || {
            format!("operation {number} has {sends} SEND events")
        })?;
    }
    for (key, record) in &ledger.mds {
        require(record.unlinked, CHECKER, || format!("{key:?} is never unlinked: {record:?}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fulmar_base::Errno;
    use fulmar_lnet::MdId;

    use super::*;

    #[test]
    fn a_put_that_ended_halfway_may_come_again_and_a_whole_one_may_not() {
        let mut ledger = Ledger::with_puts(&[7]);
        let base = Event::unlinked(MdId(1), 0);
        let whole =
            Event { header_data: 7, match_bits: 7, portal: 12, rlength: 10, mlength: 10, ..base };
        let half = Event { status: Err(Errno::ECONNRESET), ..whole };
        put_served(&mut ledger, HostId(1), false, &half).unwrap();
        put_served(&mut ledger, HostId(1), false, &whole).unwrap();
        assert!(put_served(&mut ledger, HostId(1), false, &whole).is_err());
    }

    #[test]
    fn a_put_without_an_operation_is_only_from_a_hostile_host() {
        let mut ledger = Ledger::default();
        let event = Event::unlinked(MdId(1), 0);
        assert!(put_served(&mut ledger, HostId(1), false, &event).is_err());
        put_served(&mut ledger, HostId(1), true, &event).unwrap();
    }
}
