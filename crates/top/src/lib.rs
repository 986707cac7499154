//! What `fulmar top`, its recordings and the web page of a node show.
//!
//! ```text
//! parameters  texts of statistics        -> parts of a sample
//! Sample      what a node says at a moment, as JSON
//! Model       handle_answer(node, sample or error); rates and a bounded history of each node
//! View        view(): figures, troubles and tables as text, for a terminal, a file and a browser
//! record      rounds of answers as lines of a file
//! ```
//!
//! The machine knows no clocks and no sockets: a sample has the time of its node. What a remote node answers is
//! cut to named bounds ([`Sample::bound`]) before it is kept.
//!
//! `fulmar top`, a recording and the web page show the same `View`:
//!
//! ```text
//!  Admin (net, peer, stats, route, target, parameter) ──► Sample ──┬─ GET /v1/sample ──► fulmar top ──► Model ──► View ──► terminal, text
//!    control::api::live                                            │                        └──► rounds of answers as lines of a file ──► Model
//!                                                                  └─ Model ──► View ── GET /v1/view ──► the page
//!  mounts of this machine (attributes of their files) ──► Sample ── fulmar top only
//! ```
//!
//! A **sample** is flat: counters, gauges and names. Statistics of targets and mounts are read from
//! the texts that `lctl get_param` prints, so that there is one place where they are made. What
//! arrives from another machine is at most 8 MiB, is decoded leniently (a field that a node of
//! another release leaves out is empty), and is cut to named bounds before it is kept: numbers so
//! that sums cannot overflow, texts so that they cannot control a terminal. Of many peers, those
//! with trouble stay, then those with most messages.
//!
//! The **model** keeps two samples and 300 values of each figure for a node. A rate is a difference
//! by the clock of the node; it is unknown, not zero, for the first sample, after a restart, and
//! after counters were reset. The view is text and marks already, with `text`'s units, so that a
//! terminal and a browser only place it. `fulmar top` asks each node in a thread of its own, and
//! mounts in another one: a node that does not answer delays no other.
//!
//! The **page** is one file without anything from elsewhere; its policy forbids to load more, and
//! what nodes say is only ever set as text. Its model gets samples only while a browser shows it,
//! at most two in a second for any number of browsers. A recording has the answers, not the
//! pictures: each line is a round, and a last line without an end is left out. The dashboard
//! `docs/grafana/fulmar.json` asks for `/metrics`; a test compares its queries with a scrape.
#![forbid(unsafe_code)]

mod figure;
mod history;
mod model;
pub mod parameters;
mod rates;
pub mod record;
mod sample;
mod tables;
mod troubles;
mod view;

pub use figure::Quantity;
pub use history::POINTS_MAX;
pub use model::{Answer, Model, NODES_MAX};
pub use sample::{
    Connection, Counter, Interface, Latency, Peer, Pool, Route, Router, Sample, Target, Totals,
    Transit,
};
pub use view::{Figure, Heading, Mark, NodeView, Row, State, Table, View, time_of_day};

#[cfg(test)]
mod tests;
