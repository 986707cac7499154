//! Draws figures: curves, bars and heat maps, in SVG and PNG.
//!
//! ```text
//! Chart, HeatMap, Bars          the contents: titles, axes, values
//!   -> Panel -> Picture         one of them, or several in a grid
//!     -> svg(), png()           the same shapes for both
//! ```
//!
//! The font is part of the crate, so that a picture is the same on every machine. The colours are
//! those of Okabe and Ito, which people with colour blindness can distinguish.

mod bars;
mod canvas;
mod colour;
mod curves;
mod font;
mod frame;
mod heat;
mod model;
mod number;
mod picture;
mod raster;
mod svg;
mod ticks;

pub use model::{Axis, Bar, Bars, Chart, HeatMap, Scale, Series, Style, Unit};
pub use picture::{Panel, Picture};
