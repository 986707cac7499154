//! Shapes of a picture, common to both formats: in order, in pixels from the upper left corner.

use super::colour::{Colour, INK};
use super::font;

/// A position.
pub(crate) type Point = (f64, f64);

/// A shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A line through points; `dash` is the length of dashes, and gaps are half as long.
    Line { points: Vec<Point>, width: f64, colour: Colour, dash: Option<f64> },
    /// A filled area.
    Area { points: Vec<Point>, colour: Colour },
    /// A line of text.
    Text(Text),
}

/// A line of text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// The position of its baseline, at the side given by `align`.
    pub(crate) at: Point,
    /// The height of an em.
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) colour: Colour,
    pub(crate) align: Align,
    /// Whether it runs from the bottom up.
    pub(crate) upright: bool,
}

/// The part of a text at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Middle,
    Right,
}

impl Text {
    /// Returns dark text of 12 pixels that starts at a position.
    pub(crate) fn new(text: impl Into<String>, at: Point) -> Self {
        let (colour, align) = (INK, Align::Left);
        Self { text: text.into(), at, size: 12.0, bold: false, colour, align, upright: false }
    }

    /// Returns the distance from its start to its position.
    pub(crate) fn shift(&self) -> f64 {
        let width = font::width(&self.text, self.size, self.bold);
        match self.align {
            Align::Left => 0.0,
            Align::Middle => width / 2.0,
            Align::Right => width,
        }
    }
}

/// Shapes, the last one on top.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Canvas {
    pub(crate) shapes: Vec<Shape>,
}

impl Canvas {
    pub(crate) fn text(&mut self, text: Text) {
        if !text.text.is_empty() {
            self.shapes.push(Shape::Text(text));
        }
    }

    pub(crate) fn line(&mut self, points: &[Point], width: f64, colour: Colour, dash: Option<f64>) {
        self.shapes.push(Shape::Line { points: points.to_vec(), width, colour, dash });
    }

    pub(crate) fn area(&mut self, points: &[Point], colour: Colour) {
        self.shapes.push(Shape::Area { points: points.to_vec(), colour });
    }

    pub(crate) fn rectangle(&mut self, (left, top): Point, (right, bottom): Point, fill: Colour) {
        self.area(&[(left, top), (right, top), (right, bottom), (left, bottom)], fill);
    }

    /// Draws the mark of a series; each series has its own form, in addition to its colour.
    pub(crate) fn mark(&mut self, series: usize, at: Point, colour: Colour) {
        let radius = 3.6;
        let corners: &[Point] = match series % 5 {
            0 => return self.area(&circle(at, radius), colour),
            1 => &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
            2 => &[(0.0, -1.25), (1.1, 0.75), (-1.1, 0.75)],
            3 => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
            _ => &[(0.0, 1.25), (-1.1, -0.75), (1.1, -0.75)],
        };
        let corner = |(x, y): &Point| (at.0 + radius * x, at.1 + radius * y);
        self.area(&corners.iter().map(corner).collect::<Vec<_>>(), colour);
    }
}

fn circle((x, y): Point, radius: f64) -> Vec<Point> {
    let corner = |n: u32| {
        let (sin, cos) = (f64::from(n) * std::f64::consts::TAU / 24.0).sin_cos();
        (x + radius * cos, y + radius * sin)
    };
    (0..24).map(corner).collect()
}

/// Returns the dashes of a line through points, each with its start, bends and end.
pub(crate) fn dashes(points: &[Point], dash: f64) -> Vec<Vec<Point>> {
    let gap = dash / 2.0;
    let (mut all, mut current, mut left, mut draws) = (vec![], vec![], dash, true);
    for pair in points.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        let length = (x1 - x0).hypot(y1 - y0);
        let at = |d: f64| (x0 + (x1 - x0) * d / length, y0 + (y1 - y0) * d / length);
        let mut done = 0.0;
        if draws && current.is_empty() {
            current.push((x0, y0));
        }
        while length - done > left {
            done += left;
            if draws {
                current.push(at(done));
                all.push(std::mem::take(&mut current));
            } else {
                current.push(at(done));
            }
            draws = !draws;
            left = if draws { dash } else { gap };
        }
        left -= length - done;
        if draws {
            current.push((x1, y1));
        }
    }
    all.extend((current.len() > 1).then_some(current));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_follow_corners_and_cover_two_thirds() {
        let line = [(0.0, 0.0), (50.0, 0.0), (50.0, 70.0)];
        let all = dashes(&line, 8.0);
        let length = |dash: &Vec<Point>| -> f64 {
            dash.windows(2).map(|p| (p[1].0 - p[0].0).hypot(p[1].1 - p[0].1)).sum()
        };
        assert!((all.iter().map(length).sum::<f64>() - 80.0).abs() < 1e-9);
        assert!(all.iter().any(|dash| dash.len() == 3), "one has the corner");
        assert!(dashes(&[(1.0, 1.0), (1.0, 1.0)], 8.0).len() <= 1, "a line of no length");
    }
}
