//! The machine: answers of nodes go in, a view comes out.

use std::collections::BTreeMap;

use fulmar_text::{UNKNOWN, grouped, or_unknown, printable};
use serde::{Deserialize, Serialize};

use crate::figure::{Quantity, values};
use crate::history::Series;
use crate::rates::Pair;
use crate::sample::Sample;
use crate::tables;
use crate::troubles;
use crate::view::{Figure, Mark, NodeView, Row, State, Table, View, time_of_day};

/// The most nodes of a view.
pub const NODES_MAX: usize = 64;
/// The most characters of an error.
const ERROR_MAX: usize = 400;

/// What a node has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What it says of itself.
    Sample(Box<Sample>),
    /// Why it did not answer.
    Error(String),
}

/// Nodes, each with its last two samples and the history of its figures.
#[derive(Debug)]
pub struct Model {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// Where it is asked.
    place: String,
    before: Option<Sample>,
    now: Option<Sample>,
    error: Option<String>,
    history: BTreeMap<Quantity, Series>,
}

impl Model {
    /// Returns a model of nodes that have not answered. `places`: where each is asked; those beyond [`NODES_MAX`] are
    /// left out.
    pub fn new(places: impl IntoIterator<Item = String>) -> Self {
        let node = |place: String| Node {
            place: printable(&place),
            before: None,
            now: None,
            error: None,
            history: BTreeMap::new(),
        };
        Self { nodes: places.into_iter().take(NODES_MAX).map(node).collect() }
    }

    /// Handles what a node has answered. A number of no node is ignored.
    pub fn handle_answer(&mut self, node: usize, answer: Answer) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        match answer {
            Answer::Sample(sample) => node.add(sample.bound()),
            Answer::Error(error) => {
                node.error = Some(printable(&error).chars().take(ERROR_MAX).collect());
            }
        }
    }

    /// Returns what is shown now.
    pub fn view(&self) -> View {
        let nodes: Vec<NodeView> = self.nodes.iter().map(Node::view).collect();
        View { overview: overview(&self.nodes, &nodes), nodes }
    }
}

impl Node {
    fn add(&mut self, sample: Sample) {
        self.error = None;
        // The same sample again says nothing new.
        if self.now.as_ref().is_some_and(|now| now.at_ms == sample.at_ms) {
            return;
        }
        self.before = self.now.take();
        let sample = self.now.insert(sample);
        for (quantity, value) in values(&Pair::new(self.before.as_ref(), sample)) {
            self.history.entry(quantity).or_default().add(sample.at_ms, value);
        }
    }

    fn state(&self) -> State {
        match (&self.now, &self.error) {
            (_, Some(_)) => State::Silent,
            (None, None) => State::Waiting,
            (Some(now), None) if now.failure.is_some() => State::Failed,
            (Some(_), None) => State::Up,
        }
    }

    fn name(&self) -> &str {
        let named = self.now.as_ref().map(|now| now.name.as_str()).filter(|name| !name.is_empty());
        named.unwrap_or(&self.place)
    }

    fn view(&self) -> NodeView {
        let pair = self.now.as_ref().map(|now| Pair::new(self.before.as_ref(), now));
        let mut troubles = Vec::new();
        if let Some(error) = &self.error {
            troubles.push((Mark::Bad, error.clone()));
        }
        let failure = self.now.as_ref().and_then(|now| now.failure.as_ref());
        troubles.extend(failure.map(|why| (Mark::Bad, format!("the node has failed: {why}"))));
        troubles.extend(pair.iter().flat_map(troubles::all));
        NodeView {
            name: self.name().to_owned(),
            state: self.state(),
            at_ms: self.at_ms(),
            at: self.now.as_ref().map_or_else(String::new, |now| time_of_day(now.at_ms)),
            troubles,
            figures: self.figures(),
            tables: pair.as_ref().map_or_else(Vec::new, tables::all),
        }
    }

    fn at_ms(&self) -> u64 {
        self.now.as_ref().map_or(0, |now| now.at_ms)
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |(quantity, series): (&Quantity, &Series)| Figure {
            name: quantity.name(),
            help: quantity.help(),
            now: self.figure(*quantity),
            most: quantity.text(series.largest()),
            points: series.points(),
        };
        self.history.iter().map(figure).collect()
    }

    /// Returns a quantity as it is now.
    fn figure(&self, quantity: Quantity) -> String {
        let value = self.history.get(&quantity).and_then(|series| series.at(self.at_ms()));
        or_unknown(value, |value| quantity.text(value))
    }
}

fn overview(nodes: &[Node], views: &[NodeView]) -> Table {
    let shown = [
        Quantity::Sent,
        Quantity::Received,
        Quantity::Messages,
        Quantity::RoundTrip,
        Quantity::Waiting,
        Quantity::Failures,
        Quantity::Operations,
    ];
    let columns = [
        "node",
        "state",
        ">sent",
        ">received",
        ">messages",
        ">GET to REPLY",
        ">wait",
        ">failures",
        ">operations",
        ">targets",
        ">troubles",
    ];
    let mut table = Table::new("Nodes", &columns);
    for (node, view) in nodes.iter().zip(views) {
        let state = match view.state {
            State::Waiting => "-",
            State::Up => "up",
            State::Failed => "failed",
            State::Silent => "no answer",
        };
        let worst = view.troubles.iter().map(|(mark, _)| *mark).min();
        let is_up = view.state == State::Up;
        let figures = shown
            .iter()
            .map(|quantity| if is_up { node.figure(*quantity) } else { UNKNOWN.to_owned() });
        let targets = node.now.as_ref().filter(|_| is_up).map(|now| now.targets.len() as u64);
        let end = [or_unknown(targets, grouped), grouped(view.troubles.len() as u64)];
        let start = [view.name.clone(), state.to_owned()];
        let cells = start.into_iter().chain(figures).chain(end).collect();
        table.rows.push(Row { mark: worst.unwrap_or(Mark::Plain), cells });
    }
    table
}
