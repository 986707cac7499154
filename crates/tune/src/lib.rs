//! The settings that a path needs: the closed-form model of throughput, and advice.
//!
//! [`model`] predicts the throughput of a load over a path with given settings, and which of them
//! binds. [`advice`] inverts the model: the settings with which the line is the only bound, each
//! with its arithmetic. [`present`] predicts the throughput with present settings, and [`texts`]
//! writes advice in the languages of the tools. [`quantity`] parses rates, sizes and times within
//! the range of the model.
#![forbid(unsafe_code)]

pub mod advice;
pub mod model;
pub mod present;
pub mod quantity;
pub mod texts;
