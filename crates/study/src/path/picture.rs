//! The course of a plan as a picture.

use fulmar_text::{bit_rate, bytes};

use super::outcome::{Outcome, Sample};
use super::plan::Plan;
use crate::chart::{Axis, Chart, Picture, Scale, Series, Style, Unit};

const MEGA: f64 = 1e6;

/// Returns a picture of the throughput and of the windows over time; `formula` is the rate of the
/// closed-form model, in bytes per second.
pub fn picture(plan: &Plan, outcome: &Outcome, formula: Option<f64>) -> Picture {
    let panels = vec![throughput(plan, outcome, formula).into(), windows(plan, outcome).into()];
    Picture::grid("", 2, panels)
}

fn throughput(plan: &Plan, outcome: &Outcome, formula: Option<f64>) -> Chart {
    let curve = |name: &str, colour, dashed, points| Series {
        name: name.to_owned(),
        style: Style { colour, dashed, bare: true },
        points,
    };
    let simulated = points(outcome, |sample| sample.bytes_per_second / MEGA);
    let (from, to) = (plan.warmup.as_secs_f64(), (plan.warmup + plan.time).as_secs_f64());
    let mean = outcome.bytes_per_second / MEGA;
    let mut series = vec![
        curve("simulated", 0, false, simulated),
        curve("mean after the warm-up", 1, false, vec![(from, mean), (to, mean)]),
    ];
    if let Some(formula) = formula {
        let formula = vec![(0.0, formula / MEGA), (to, formula / MEGA)];
        series.push(curve("formula", 2, true, formula));
    }
    Chart {
        title: "Throughput".into(),
        subtitle: format!("{}; bound by: {}", rates(plan), outcome.bound.name()),
        x: Axis::new("seconds since the start of the load", Scale::Linear),
        y: Axis::new("MB/s", Scale::Linear),
        series,
        notes: Vec::new(),
    }
}

fn windows(plan: &Plan, outcome: &Outcome) -> Chart {
    let curve = |name: &str, colour, value: fn(&Sample) -> f64| Series {
        name: name.to_owned(),
        style: Style { colour, dashed: false, bare: true },
        points: points(outcome, value),
    };
    let tcp = &plan.tcp;
    Chart {
        title: "Windows of a connection that carries data".into(),
        subtitle: format!(
            "{}, buffers {} and {}",
            tcp.congestion.name(),
            bytes(tcp.read_buffer),
            bytes(tcp.write_buffer)
        ),
        x: Axis::new("seconds since the start of the load", Scale::Linear),
        y: Axis::new("bytes", Scale::Linear).in_unit(Unit::Bytes),
        series: vec![
            curve("in flight", 0, |sample| sample.in_flight),
            curve("congestion window", 1, |sample| sample.congestion_window),
            curve("receive window", 2, |sample| sample.receive_window),
        ],
        notes: Vec::new(),
    }
}

fn points(outcome: &Outcome, value: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    outcome.course.iter().map(|sample| (sample.seconds, value(sample))).collect()
}

/// Returns the rates of the links.
fn rates(plan: &Plan) -> String {
    let rate = |link: &super::plan::Link| bit_rate(link.line.rate_mbps as f64 * MEGA);
    match &plan.links[..] {
        [] => "one switch".to_owned(),
        [link] => rate(link),
        links => format!("{} links, the first of {}", links.len(), rate(&links[0])),
    }
}
