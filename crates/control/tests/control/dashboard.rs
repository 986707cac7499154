//! The dashboard for Grafana asks for metrics that a node has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::NodeFixture;

const DASHBOARD: &str = include_str!("../../../../docs/grafana/fulmar.json");
/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];

/// The metrics of a scrape, each with its labels.
type Metrics = BTreeMap<String, BTreeSet<String>>;

fn metrics(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once([' ', '{']).unwrap();
        let labels = metrics.entry(name.to_owned()).or_default();
        if line.contains('{') {
            // A label begins after `{` or `",`, and ends with `=`.
            let named = rest.split("\",").filter_map(|part| part.split_once("=\""));
            labels.extend(named.map(|(label, _)| label.to_owned()));
        }
    }
    metrics
}

/// Returns the names of metrics in a query, each with the labels that it selects.
fn asked(query: &str) -> Vec<(String, Vec<String>)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut asked = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(is_part) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if word.starts_with("fulmar_") || word.starts_with("process_") {
            let selector = after.strip_prefix('{').and_then(|after| after.split('}').next());
            let labels = selector.unwrap_or_default().split(',').filter(|part| !part.is_empty());
            let labels =
                labels.map(|part| part[..part.find(['=', '!']).unwrap()].trim().to_owned());
            asked.push((word.to_owned(), labels.collect()));
        }
    }
    asked
}

/// Calls `f` for every object of a tree.
fn objects<'v>(value: &'v Value, f: &mut impl FnMut(&'v serde_json::Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            f(map);
            map.values().for_each(|value| objects(value, f));
        }
        Value::Array(items) => items.iter().for_each(|value| objects(value, f)),
        _ => {}
    }
}

#[test]
fn every_query_names_metrics_and_labels_that_a_node_has() {
    let served = NodeFixture::start("dashboard");
    let metrics = metrics(&served.client.get("/metrics").unwrap());
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries = Vec::new();
    objects(&dashboard, &mut |map| {
        if let Some(query) = map.get("expr").and_then(Value::as_str) {
            let legend = map.get("legendFormat").and_then(Value::as_str).unwrap_or_default();
            queries.push((query, legend));
        }
    });
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    queries.extend(variables.filter_map(|one| Some((one["definition"].as_str()?, ""))));
    assert!(queries.len() > 20, "{queries:?}");
    for (query, legend) in queries {
        let asked = asked(query);
        assert!(!asked.is_empty(), "{query} asks for nothing");
        let mut known: BTreeSet<&str> = ADDED.into();
        for (name, labels) in &asked {
            let has = metrics.get(name).unwrap_or_else(|| panic!("{name} of {query} is unknown"));
            known.extend(has.iter().map(String::as_str));
            for label in labels {
                let is_known = has.contains(label) || ADDED.contains(&label.as_str());
                assert!(is_known, "{name} has no label {label}, only {has:?}: {query}");
            }
        }
        for label in legend.split("{{").skip(1).filter_map(|part| part.split("}}").next()) {
            assert!(known.contains(label.trim()), "{label} of {legend}: {query}");
        }
    }
}

#[test]
fn panels_have_numbers_of_their_own_and_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let numbers: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + w <= 24, "{}", panel["title"]);
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{} overlaps", panel["title"]);
        }
        let is_row = panel["type"] == "row";
        let source = panel["datasource"]["uid"].as_str();
        assert!(is_row || source == Some("${datasource}"), "{}", panel["title"]);
        assert!(is_row || panel["description"].as_str().is_some_and(|text| text.ends_with('.')));
    }
}

#[test]
fn queries_are_taken_apart() {
    let query = "sum by (instance) (rate(fulmar_a_total{class=\"x\", instance=~\"$instance\"}[5m])) / fulmar_b";
    let labels = ["class", "instance"].map(str::to_owned).to_vec();
    assert_eq!(asked(query), [("fulmar_a_total".into(), labels), ("fulmar_b".into(), vec![])]);
}
