//! `--sweep OPTION=VALUES`: one plan for each value of an option.

use std::str::FromStr;

use fulmar_study::on_all_cores;
use fulmar_text::{Range, Step, Table, bit_rate, left, percent, right};
use serde_json::json;

use super::args::Args;
use super::{PlanResult, Refusal, show, simulate};

/// The values of one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    option: String,
    values: Vec<String>,
}

/// The most values.
const VALUES_MAX: usize = 256;

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write an option and its values, as concurrency=1..64x2");
        let (option, list) = text.split_once('=').ok_or_else(wrong)?;
        if option.is_empty() {
            return Err(wrong());
        }
        if ["sweep", "svg", "json", "tcp"].contains(&option) {
            return Err(format!(
                "--{option} cannot vary: sweep another option, as concurrency=1..64x2"
            ));
        }
        let mut values = Vec::new();
        for item in list.split(',') {
            match Range::split(item) {
                None => values.push(item.to_owned()),
                Some(range) => values.extend(numbers(range).ok_or_else(wrong)?),
            }
        }
        match values.len() {
            1..=VALUES_MAX => Ok(Self { option: option.to_owned(), values }),
            0 => Err(format!("{text:?} has no value: write the smaller number first")),
            _ => Err(format!("{text:?} has more than {VALUES_MAX} values")),
        }
    }
}

/// Returns the numbers of a range, one more than can be swept at most.
fn numbers(range: Range<'_>) -> Option<Vec<String>> {
    let number = |text: &str| text.parse::<u64>().ok();
    let step = match range.step? {
        Step::Times(factor) => Step::Times(number(factor)?),
        Step::Plus(more) => Step::Plus(number(more)?),
    };
    let all = step.values(number(range.low)?, number(range.high)?).take(VALUES_MAX + 1);
    Some(all.map(|value| value.to_string()).collect())
}

/// Simulates each value, on all cores.
pub(super) fn run(args: &Args, sweep: &Sweep) -> Result<Vec<(String, PlanResult)>, Refusal> {
    let plan = |value: &String| {
        let mut args = args.clone();
        args.set(&sweep.option, value)
            .map_err(|error| format!("--sweep {}={value}: {error}", sweep.option))?;
        args.plan()
    };
    let plans = sweep.values.iter().map(plan);
    let plans = plans.collect::<Result<Vec<_>, String>>().map_err(Refusal::Wrong)?;
    let results = on_all_cores(&plans, |plan| simulate(plan.clone()), |_| ());
    let named = sweep.values.iter().zip(results);
    named
        .map(|(value, result)| {
            let failed = |error| Refusal::Failed(format!("{} {value}: {error}", sweep.option));
            Ok((value.clone(), result.map_err(failed)?))
        })
        .collect()
}

/// Returns a table with a row for each value.
pub(super) fn text(sweep: &Sweep, points: &[(String, PlanResult)]) -> String {
    let mut table = Table::new([
        right(&sweep.option),
        right("throughput"),
        right("of the link"),
        right("RPCs/s"),
        left("bound by"),
        right("formula"),
    ]);
    for (value, point) in points {
        let outcome = &point.outcome;
        let rpcs: f64 = outcome.loads.iter().map(|load| load.rpcs_per_second).sum();
        let formula = point.formula.as_ref();
        table.row([
            value.clone(),
            bit_rate(outcome.bytes_per_second * 8.0),
            percent(outcome.fullest()),
            fulmar_text::significant(rpcs, 3),
            outcome.bound.name().to_owned(),
            fulmar_text::or_unknown(formula, |one| bit_rate(one.bytes_per_second * 8.0)),
        ]);
    }
    table.to_string()
}

/// Returns a list with an object for each value.
pub(super) fn json(points: &[(String, PlanResult)]) -> String {
    let object = |(value, point): &(String, PlanResult)| json!({ "value": value, "result": show::value(point) });
    let all: Vec<_> = points.iter().map(object).collect();
    format!("{:#}\n", json!(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_multiply_and_add() {
        let values = |text: &str| text.parse::<Sweep>().map(|sweep| sweep.values.join(" "));
        assert_eq!(values("concurrency=1..10x2,50"), Ok("1 2 4 8 50".to_owned()));
        assert_eq!(values("conns=1..7+3"), Ok("1 4 7".to_owned()));
        assert_eq!(values("rtt=1ms,0.5ms"), Ok("1ms 0.5ms".to_owned()));
        for wrong in
            ["rtt", "conns=1..4x1x", "svg=a,b", "conns=1..9999+1", "conns=4..x2", "conns=4..2+1"]
        {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }
}
