//! Figures as pictures: curves, bars and heat maps, in SVG and PNG.
//!
//! ```text
//! Chart, HeatMap, Bars          what is shown: titles, axes, values
//!   -> Panel -> Picture         one of them, or several in a grid
//!     -> svg(), png()           the same shapes for both
//! ```
//!
//! The font is in the crate, so that a picture is the same on every machine. The colours are those of
//! Okabe and Ito, which people with colour blindness can tell apart.

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
