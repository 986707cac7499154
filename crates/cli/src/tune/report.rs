//! Output, as text and as JSON.

use std::fmt::Write;

use fulmar_text::{Table, bit_rate, bytes, count, duration, hanging, left, percent, right};
use fulmar_tune::advice::{Advice, Place, Setting};
use fulmar_tune::model::{Bound, Direction, Kind, Prediction, Term};
use fulmar_tune::present::Present;
use fulmar_tune::texts::{self, Names};
use serde_json::json;

use super::host::Host;

/// Columns of a terminal.
const WIDTH: usize = 100;
/// Indentation of rows below their heading.
const INDENT: usize = 2;

/// Returns the complete result as JSON.
pub(super) fn json(advice: &Advice, host: Option<&Host>, names: &Names) -> String {
    let now = host.map(|host| host.present.predict(&advice.site, &advice.load));
    let value = json!({
        "advice": advice,
        "host": host,
        "now": now,
        "texts": texts::blocks(advice, names),
    });
    let mut text = serde_json::to_string_pretty(&value).expect("numbers and text become JSON");
    text.push('\n');
    text
}

/// Returns the complete result as text.
pub(super) fn text(advice: &Advice, host: Option<&Host>, names: &Names) -> String {
    let mut out = verdict(advice, host);
    if !advice.warnings.is_empty() {
        out.push('\n');
        for warning in &advice.warnings {
            out.push_str(&hanging("Warning: ", warning, WIDTH));
        }
    }
    out.push('\n');
    out.push_str(&table(advice, host));
    out.push('\n');
    out.push_str(&memory(advice));
    for block in texts::blocks(advice, names) {
        let _ = write!(out, "\n# {}\n{}", block.title, block.text);
    }
    out
}

/// Returns what the path needs, and the predictions with the advice and without.
fn verdict(advice: &Advice, host: Option<&Host>) -> String {
    let Advice { site, path, plan, prediction, load, .. } = advice;
    let line = bit_rate(site.line_bits as f64);
    let (payload, rtt) = (bit_rate(8. * path.rate as f64), duration(path.rtt));
    let mut out = format!(
        "Path        {line}, {rtt}: {payload} of payload, {} under way when it is full\n",
        bytes(path.bytes_in_flight())
    );
    let what = match (site.kind, site.direction) {
        (Kind::Selftest, Direction::Read) => "reads of lst",
        (Kind::Selftest, Direction::Write) => "writes of lst",
        (Kind::Lustre, Direction::Read) => "reads of the file system",
        (Kind::Lustre, Direction::Write) => "writes of the file system",
    };
    let load_line = format!(
        "{what}, {} to {}: {} of {} in flight{}, each takes {}",
        count(load.clients, "node"),
        count(load.servers, "node"),
        count(plan.concurrency, "RPC"),
        bytes(plan.rpc_bytes),
        if load.pairs > 1 { " for each pair" } else { "" },
        duration(prediction.rpc_time)
    );
    out.push_str(&hanging("Load        ", &load_line, WIDTH));
    out.push_str(&hanging("As advised  ", &outcome(advice, prediction), WIDTH));
    if let Some(host) = host {
        let now = host.present.predict(site, load);
        let line = format!("{} ({})", outcome(advice, &now), host.lnet);
        out.push_str(&hanging("At present  ", &line, WIDTH));
    }
    out
}

/// Returns a prediction on one line, with the formula of the bottleneck.
fn outcome(advice: &Advice, prediction: &Prediction) -> String {
    let rate = prediction.bytes_per_second;
    let rates = bit_rate(8. * rate);
    if prediction.bound == Bound::Line {
        return format!("{rates}: the line is the bottleneck");
    }
    let part = percent(rate / advice.path.rate.max(1) as f64);
    let by = |a: &&Term, b: &&Term| a.bytes_per_second.total_cmp(&b.bytes_per_second);
    let least = prediction.terms.iter().min_by(by);
    let (what, formula) = least.map_or(("", ""), |term| (term.what.name(), &term.formula[..]));
    let convoy = match prediction.convoy {
        part if part < 1. => {
            let (part, whose) = (
                percent(part),
                match prediction.bound {
                    Bound::Concurrency => "on the line",
                    credits => credits.name(),
                },
            );
            format!("; {part} of that, since small messages wait behind bulk: {whose}")
        }
        _ => String::new(),
    };
    format!("{rates}, {part} of the line. Limited by {what}: {formula}{convoy}")
}

const HEADINGS: [(Place, &str); 6] = [
    (Place::Interface, "LNet interface, on both ends"),
    (Place::Lnet, "LNet of routers"),
    (Place::Load, "Load"),
    (Place::Lustre, "File system"),
    (Place::Sysctl, "Kernel, on both ends"),
    (Place::Device, "Network device"),
];

/// Returns each setting with its value now, the advised value and the reason.
fn table(advice: &Advice, host: Option<&Host>) -> String {
    let rows: Vec<Row<'_>> =
        advice.settings.iter().map(|setting| Row::new(setting, host.map(|h| &h.present))).collect();
    let before = if host.is_some() { "NOW" } else { "USUAL" };
    let mut values = Table::new([left("SETTING"), right(before), right("ADVISED")]);
    for row in &rows {
        values.row([&format!("{:INDENT$}{}", "", row.setting.name), &row.now, &row.advised]);
    }
    let values = values.to_string();
    let mut values = values.lines();
    let mut out = format!("{}  WHY\n", values.next().unwrap_or_default());
    let rows: Vec<(Row<'_>, &str)> = rows.into_iter().zip(values).collect();
    for (place, heading) in HEADINGS {
        let here = || rows.iter().filter(|(row, _)| row.setting.place == place);
        if here().next().is_some() {
            let _ = writeln!(out, "{heading}");
        }
        let (same, other): (Vec<_>, Vec<_>) = here().partition(|(row, _)| row.is_same);
        for (row, values) in other {
            out += &hanging(&format!("{values}  "), &row.why, WIDTH);
        }
        if !same.is_empty() {
            let list = same.iter().map(|(row, _)| format!("{} {}", row.setting.name, row.advised));
            let list = list.collect::<Vec<_>>().join(", ");
            out += &hanging(&format!("{:INDENT$}unchanged: ", ""), &list, WIDTH);
        }
    }
    out
}

struct Row<'a> {
    setting: &'a Setting,
    now: String,
    advised: String,
    why: String,
    /// The advised value equals the present one.
    is_same: bool,
}

impl<'a> Row<'a> {
    fn new(setting: &'a Setting, present: Option<&Present>) -> Self {
        let now = present.and_then(|present| present.get(setting.name));
        let now = shown(setting.name, now.unwrap_or(&setting.usual));
        let advised = shown(setting.name, &setting.advised);
        let mut why = setting.why.clone();
        if let Some(without) = &setting.without {
            let usual = shown(setting.name, &setting.usual);
            let _ =
                write!(why, "; {usual} would carry {}", bit_rate(8. * without.bytes_per_second));
        }
        let is_same = now == advised;
        Self { setting, now, advised, why, is_same }
    }
}

/// Returns a value for display: limits of buffers as sizes.
fn shown(name: &str, value: &str) -> String {
    let is_size = name.ends_with("mem") || name.ends_with("mem_max");
    let last = value.split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
    match last {
        Some(pages) if name == "net.ipv4.tcp_mem" => bytes(pages.saturating_mul(4096)),
        Some(limit) if is_size => bytes(limit),
        _ => value.to_owned(),
    }
}

/// Returns the memory that the settings need on a node.
fn memory(advice: &Advice) -> String {
    let memory = &advice.memory;
    let mut out = String::new();
    for (who, shares) in [("node", &memory.node), ("router", &memory.router)] {
        if shares.is_empty() {
            continue;
        }
        let total: u64 = shares.iter().map(|share| share.bytes).sum();
        let list: Vec<String> =
            shares.iter().map(|share| format!("{} {}", bytes(share.bytes), share.what)).collect();
        let line = format!("at most {}: {}", bytes(total), list.join(", "));
        out.push_str(&hanging(&format!("{:12}", format!("Per {who}")), &line, WIDTH));
    }
    match memory.limit {
        Some(limit) => {
            let _ = writeln!(out, "{:12}of {}, half of its memory", "", bytes(limit));
        }
        None => out.push_str("            the available memory is unknown: give --memory\n"),
    }
    out
}
