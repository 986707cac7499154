//! The output of `fulmar sim path`.

use fulmar_study::path::{LinkUse, LoadOutcome, Outcome};
use fulmar_text::{
    Table, bit_rate, bytes, duration, grouped, left, or_unknown, percent, significant,
};
use serde_json::{Value, json};

use super::PlanResult;

/// Returns the result as JSON.
pub(super) fn json(result: &PlanResult) -> String {
    format!("{:#}\n", value(result))
}

pub(super) fn value(result: &PlanResult) -> Value {
    json!({ "simulated": result.outcome, "formula": result.formula })
}

/// Returns the result as text.
pub(super) fn text(result: &PlanResult) -> String {
    let PlanResult { plan, outcome, formula } = result;
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    for load in &outcome.loads {
        row(&load.name, of_load(load));
    }
    if outcome.loads.len() > 1 {
        row("together", bit_rate(outcome.bytes_per_second * 8.0));
    }
    for link in &outcome.links {
        row(&link.name, of_link(link));
    }
    row("bound by", outcome.bound.name().to_owned());
    row("waited for", waits(outcome));
    row("TCP", of_tcp(outcome));
    if let Some(formula) = formula {
        let bits = bit_rate(formula.bytes_per_second * 8.0);
        let convoy = if formula.convoy < 1.0 {
            format!(", RPCs in convoys: {} of it", percent(formula.convoy))
        } else {
            String::new()
        };
        let term = formula.terms.iter().find(|term| term.what == formula.bound);
        let term = or_unknown(term, |term| term.formula.clone());
        row("formula", format!("{bits}, bound by {}: {term}{convoy}", formula.bound.name()));
        if outcome.bytes_per_second > 0.0 {
            let apart = outcome.bytes_per_second / formula.bytes_per_second - 1.0;
            row("difference", format!("{:+.1} %", apart * 100.0));
        }
    }
    row(
        "simulated",
        format!(
            "{} after {}, {} events",
            duration(plan.time),
            duration(plan.warmup),
            grouped(outcome.steps)
        ),
    );
    let mut table = Table::new([left(""), left("")]);
    for (name, value) in rows {
        table.row([name, value]);
    }
    table.to_string()
}

fn of_load(load: &LoadOutcome) -> String {
    if load.rpcs == 0 {
        return "no RPC was answered: measure for longer with --time and --warmup".to_owned();
    }
    let rate = if load.bytes_per_second > 0.0 {
        format!("{}, ", bit_rate(load.bytes_per_second * 8.0))
    } else {
        String::new()
    };
    let takes = or_unknown(load.mean_latency, duration);
    format!("{rate}{} RPCs/s, each takes {takes}", significant(load.rpcs_per_second, 3))
}

fn of_link(link: &LinkUse) -> String {
    let mut text =
        format!("{} with headers, {}", bit_rate(link.bits_per_second), percent(link.share));
    for (count, what) in [(link.lost, "lost"), (link.overflowed, "dropped by a full queue")] {
        if count > 0 {
            text += &format!(", {} packets {what}", grouped(count));
        }
    }
    if link.queued_max > 0 {
        text += &format!(", queue up to {}", bytes(link.queued_max));
    }
    text
}

/// Returns what waited in at least one of a hundred samples.
fn waits(outcome: &Outcome) -> String {
    let waits = &outcome.waits;
    let all = [
        (waits.congestion_window, "congestion window"),
        (waits.receive_window, "receive window"),
        (waits.send_buffer, "send buffer"),
        (waits.routers, "routers"),
        (waits.peer_credits, "peer_credits"),
        (waits.credits, "credits"),
    ];
    let share = |count: u32| percent(f64::from(count) / f64::from(waits.samples.max(1)));
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> =
        some.map(|(count, what)| format!("{what} in {} of the samples", share(count))).collect();
    if some.is_empty() { "nothing".to_owned() } else { some.join(", ") }
}

fn of_tcp(outcome: &Outcome) -> String {
    let last = outcome.course.last().cloned().unwrap_or_default();
    format!(
        "{} connections, {} retransmitted; at the end a congestion window of {}, {} in flight",
        outcome.connections,
        bytes(outcome.resent_bytes),
        bytes(last.congestion_window as u64),
        bytes(last.in_flight as u64)
    )
}
