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
