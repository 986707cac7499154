//! What a path of a rate and a round trip needs: the closed model of throughput, and advice.
//!
//! [`model`] says what a load carries over a path with given settings, and which of them binds.
//! [`advice`] inverts the model: the settings with which the line is the only bound, each with its
//! arithmetic. [`present`] predicts what given settings would carry, and [`texts`] writes advice in
//! the languages of the tools that take it. [`quantity`] reads rates, sizes and times within the
//! range of the model.
#![forbid(unsafe_code)]

pub mod advice;
pub mod model;
pub mod present;
pub mod quantity;
pub mod texts;
