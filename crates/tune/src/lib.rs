//! What a path of a rate and a round trip needs: the closed model of throughput, and advice.
//!
//! [`model`] says what a load carries over a path with given settings, and which of them binds.
#![forbid(unsafe_code)]

pub mod model;
pub mod text;
