//! What a path of a rate and a round trip needs: the closed model of throughput, and advice.
//!
//! [`model`] says what a load carries over a path with given settings, and which of them binds.
//! [`advice`] turns it round: the settings by which the line is the only bound, each with its
//! arithmetic. [`present`] says what settings that somebody has would carry, and [`texts`] writes
//! advice in the languages of the tools that take it. [`quantity`] reads what people write,
//! within what the model is for.
#![forbid(unsafe_code)]

pub mod advice;
pub mod model;
pub mod present;
pub mod quantity;
pub mod text;
pub mod texts;
