//! Text for people: numbers and quantities with units, tables, wrapped lines. And for programs:
//! comma-separated values, patterns for names, and ranges of values.
//!
//! Every command formats its numbers and tables with this crate, so that one quantity has one form.
//! The formats of Lustre's own tools, such as the output of `lnetctl`, are elsewhere.
//!
//! ```text
//! count, grouped, significant    numbers
//! bytes, bit_rate, duration      quantities in three significant digits, with units
//! Table                          columns aligned in plain text, or Markdown
//! wrap, hanging, printable       lines; without characters that control a terminal
//! csv, Range, pattern            for programs; ranges on the command line; names as a shell matches them
//! ```
//!
//! Text that came from another node is printed by [`printable`], since it may hold escape
//! sequences. What people write is read by `fulmar_base::quantity`, so that input and output have
//! one notation.
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
