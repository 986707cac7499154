//! The settings that a path needs: the closed-form model of throughput, and advice.
//!
//! [`model`] predicts the throughput of a load over a path with given settings, and which of them
//! binds. [`advice`] inverts the model: the settings with which the line is the only bound, each
//! with its arithmetic. [`present`] predicts the throughput with present settings, and [`texts`]
//! writes advice in the languages of the tools. [`quantity`] parses rates, sizes and times within
//! the range of the model.
//!
//! # Four predictions
//!
//! What a path of a given rate and round trip carries with given settings is computed or measured
//! in four ways, and the results are compared.
//!
//! ```text
//! tune::model    closed form: min(rate, credits / hold, windows / round trip, RPCs / their time)     microseconds
//! sim + study    the real machines in virtual time, TCP modelled in bursts                           seconds
//! link           the real driver and the kernel's TCP over an emulated link                          minutes
//! doctor, lst    the user's hosts
//! ```
//!
//! **The model** takes a `Path`, a `Load` and `Settings`, and says which term binds. If more
//! messages need credits than there are, requests wait behind bulk and RPCs travel in convoys, with
//! an idle round trip between them: up to a third below the terms. The model then follows the queue
//! of one pair message by message. Advice is the inverse of the model: the smallest settings with
//! which the rate is the only bound. It prints its arithmetic, so that it can be checked.
//!
//! Routers divide a path into hops, and each has bounds of its own: `credits of the hop × message /
//! time for which the hop holds one`, the rate of its line, and for all hops together `RPCs in
//! flight × data / time of an RPC`. A router forwards a message when it is complete, so that an RPC
//! takes the message's time on every hop: at the rate of the cable beside a router, at the rate of
//! the line between the sites. Of a router's buffers the data for *n* targets have *n* of *n* + 1,
//! as Fulmar's routers share them. `study/tests/study/routed.rs` compares the formula with the
//! simulator for sixteen such paths.
#![forbid(unsafe_code)]

pub mod advice;
pub mod model;
pub mod present;
pub mod quantity;
pub mod texts;
