//! The frame of every panel: titles, notes, axes and legend.

use super::canvas::{Align, Canvas, Point, Text};
use super::colour::{self, Colour, GREY, GRID, INK};
use super::font;
use super::model::Style;
use super::ticks::{Span, Tick};

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Area {
    pub(crate) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(crate) fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// Returns the position at these fractions from the left and from the bottom.
    pub(crate) fn at(&self, x: f64, y: f64) -> Point {
        (self.left + x * self.width(), self.bottom - y * self.height())
    }
}

pub(crate) const TEXT: f64 = 12.0;
const TITLE: f64 = 15.0;
const LINE: f64 = 17.0;

/// Draws titles and notes, and returns the remaining area.
pub(crate) fn titles(
    canvas: &mut Canvas,
    area: Area,
    [title, subtitle]: [&str; 2],
    notes: &[String],
) -> Area {
    let mut inner = area;
    if !title.is_empty() {
        let text = Text::new(title, (area.left, inner.top + TITLE));
        canvas.text(Text { size: TITLE, bold: true, ..text });
        inner.top += TITLE + 7.0;
    }
    for line in wrapped(subtitle, area.width()) {
        canvas.text(Text { colour: GREY, ..Text::new(line, (area.left, inner.top + TEXT)) });
        inner.top += LINE;
    }
    let lines: Vec<String> = notes.iter().flat_map(|note| wrapped(note, area.width())).collect();
    inner.bottom -= LINE * lines.len() as f64;
    for (n, line) in lines.into_iter().enumerate() {
        let at = (area.left, inner.bottom + LINE * (n as f64 + 1.0) - 4.0);
        canvas.text(Text { colour: GREY, ..Text::new(line, at) });
    }
    inner.top += 8.0;
    inner
}

/// Returns text in lines of at most this width, unless a word is wider.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if font::width(&format!("{line} {word}"), TEXT, false) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// One line of a legend.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) key: Key,
}

/// The symbol before the name.
#[derive(Clone, Copy)]
pub(crate) enum Key {
    Curve(Style),
    Box(Colour),
    Dashes,
}

/// Draws the legend in columns, and returns the remaining area.
pub(crate) fn legend(canvas: &mut Canvas, area: Area, entries: &[Entry<'_>]) -> Area {
    const KEY: f64 = 34.0;
    let named = entries.iter().filter(|entry| !entry.name.is_empty());
    let named: Vec<&Entry<'_>> = named.collect();
    let widest = named.iter().map(|entry| font::width(entry.name, TEXT, false));
    let column = KEY + widest.fold(0.0, f64::max) + 18.0;
    let columns = ((area.width() / column).floor() as usize).clamp(1, named.len().max(1));
    // Columns are balanced: 8 curves as 4 and 4, not 5 and 3.
    let rows = named.len().div_ceil(columns);
    let columns = if rows == 0 { 1 } else { named.len().div_ceil(rows) };
    for (n, entry) in named.iter().enumerate() {
        let (x, y) = ((n % columns) as f64 * column, (n / columns) as f64 * LINE);
        let at = (area.left + x, area.top + y + 6.0);
        draw_key(canvas, entry.key, at);
        canvas.text(Text::new(entry.name, (at.0 + KEY, at.1 + 4.4)));
    }
    let room = if rows == 0 { 0.0 } else { rows as f64 * LINE + 6.0 };
    Area { top: area.top + room, ..area }
}

fn draw_key(canvas: &mut Canvas, key: Key, (x, y): Point) {
    match key {
        Key::Curve(style) => {
            let colour = colour::of_series(style.colour);
            canvas.line(&[(x, y), (x + 26.0, y)], 2.2, colour, style.dashed.then_some(DASH));
            if !style.bare {
                canvas.mark(style.colour, (x + 13.0, y), colour);
            }
        }
        Key::Box(colour) => canvas.rectangle((x + 8.0, y - 6.0), (x + 22.0, y + 6.0), colour),
        Key::Dashes => canvas.line(&[(x, y), (x + 26.0, y)], 1.6, INK, Some(DASH)),
    }
}

/// The length of a dash.
pub(crate) const DASH: f64 = 7.0;

/// Returns the area of the plot, with room for a vertical axis with these ticks and this label, and
/// for a horizontal axis.
pub(crate) fn inside(area: Area, label: &str, ticks: &[Tick]) -> Area {
    let widest = ticks.iter().map(|tick| font::width(&tick.text, TEXT, false)).fold(0.0, f64::max);
    let label = if label.is_empty() { 0.0 } else { 20.0 };
    Area {
        left: area.left + label + widest + 10.0,
        right: area.right - 14.0,
        bottom: area.bottom - 42.0,
        ..area
    }
}

/// Draws a vertical axis, its ticks and the grid lines.
pub(crate) fn upright(canvas: &mut Canvas, plot: Area, left: f64, label: &str, ticks: &[Tick]) {
    for tick in ticks {
        let (x, y) = plot.at(0.0, tick.part);
        canvas.line(&[(x, y), (plot.right, y)], 1.0, GRID, None);
        let text = Text::new(&tick.text, (x - 7.0, y + 4.2));
        canvas.text(Text { align: Align::Right, ..text });
    }
    let at = (left + TEXT, (plot.top + plot.bottom) / 2.0);
    canvas.text(Text { align: Align::Middle, upright: true, ..Text::new(label, at) });
}

/// Draws a horizontal axis, its ticks and the grid lines.
pub(crate) fn level(canvas: &mut Canvas, plot: Area, label: &str, span: &Span) {
    let mut ticks = span.ticks(16);
    // Use fewer ticks until their texts do not touch.
    for most in (1..16).rev() {
        let ends = ticks.windows(2).all(|pair| {
            let [a, b] = [&pair[0], &pair[1]].map(|tick| font::width(&tick.text, TEXT, false));
            (pair[1].part - pair[0].part) * plot.width() > (a + b) / 2.0 + 10.0
        });
        if ends {
            break;
        }
        ticks = span.ticks(most);
    }
    for tick in &ticks {
        let (x, y) = plot.at(tick.part, 0.0);
        canvas.line(&[(x, y), (x, plot.top)], 1.0, GRID, None);
        canvas.line(&[(x, y), (x, y + 4.0)], 1.0, GREY, None);
        let text = Text::new(&tick.text, (x, y + 18.0));
        canvas.text(Text { align: Align::Middle, ..text });
    }
    below(canvas, plot, label);
}

/// Draws the label of the horizontal axis.
pub(crate) fn below(canvas: &mut Canvas, plot: Area, label: &str) {
    let at = ((plot.left + plot.right) / 2.0, plot.bottom + 36.0);
    canvas.text(Text { align: Align::Middle, ..Text::new(label, at) });
}

/// Draws the lines of both axes.
pub(crate) fn corner(canvas: &mut Canvas, plot: Area) {
    let points = [plot.at(0.0, 1.0), plot.at(0.0, 0.0), plot.at(1.0, 0.0)];
    canvas.line(&points, 1.2, GREY, None);
}
