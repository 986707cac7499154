//! Text for people: numbers and quantities with units, tables, wrapped lines. And for programs:
//! comma-separated values, patterns for names, and ranges of values.
//!
//! Every command formats its numbers and tables with this crate, so that one quantity has one form.
//! The formats of Lustre's own tools, such as the output of `lnetctl`, are elsewhere.
#![forbid(unsafe_code)]

mod csv;
mod lines;
mod number;
pub mod pattern;
mod quantity;
mod range;
mod table;

pub use csv::{csv, field, number_field};
pub use lines::{hanging, printable, printable_lines, wrap};
pub use number::{count, fixed, grouped, integer, significant};
pub use quantity::{bit_rate, byte_rate, bytes, duration, micros, percent};
pub use range::{Range, Step};
pub use table::{Column, Table, UNKNOWN, left, or_unknown, right};
