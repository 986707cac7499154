//! Draws a [`HeatMap`].

use super::canvas::{Align, Canvas, Text};
use super::colour::{self, GRID};
use super::font;
use super::frame::{self, Area, TEXT};
use super::model::HeatMap;
use super::number::format_value;
use super::ticks::Tick;

/// Width of the colour scale on the right, in pixels.
const LEGEND: f64 = 92.0;

/// Draws a heat map.
pub(crate) fn draw(canvas: &mut Canvas, area: Area, map: &HeatMap) {
    let titles = [map.title.as_str(), map.subtitle.as_str()];
    let area = frame::titles(canvas, area, titles, &map.notes);
    let rows = map.rows.len().max(1) as f64;
    let middle = |n: usize| (n as f64 + 0.5) / rows;
    let names = map.rows.iter().enumerate();
    let ticks: Vec<Tick> =
        names.map(|(n, text)| Tick { part: middle(n), text: text.clone() }).collect();
    let plot = frame::inside(area, &map.y_label, &ticks);
    let plot = Area { right: plot.right - LEGEND, ..plot };
    frame::upright(canvas, plot, area.left, &map.y_label, &ticks);
    cells(canvas, plot, map);
    columns(canvas, plot, map);
    frame::below(canvas, plot, &map.x_label);
    legend(canvas, plot, map);
}

fn cells(canvas: &mut Canvas, plot: Area, map: &HeatMap) {
    let (width, height) =
        (1.0 / map.columns.len().max(1) as f64, 1.0 / map.rows.len().max(1) as f64);
    let (least, greatest) = map.range;
    canvas.rectangle(plot.at(0.0, 1.0), plot.at(1.0, 0.0), colour::WHITE);
    for (row, values) in map.cells.iter().enumerate().take(map.rows.len()) {
        for (column, value) in values.iter().enumerate().take(map.columns.len()) {
            let Some(value) = value else { continue };
            let (x, y) = (column as f64 * width, row as f64 * height);
            let fill = colour::of_heat((value - least) / (greatest - least));
            let (left, bottom) = plot.at(x, y);
            let (right, top) = plot.at(x + width, y + height);
            canvas.rectangle((left, top), (right - 1.5, bottom - 1.5), fill);
            let text = format_value(*value, map.unit);
            let size = TEXT.min((right - left - 6.0) / font::width(&text, 1.0, false));
            if size >= 7.0 && bottom - top > size + 2.0 {
                let at = ((left + right) / 2.0 - 0.75, (top + bottom) / 2.0 + size * 0.36);
                let text = Text::new(text, at);
                let colour = fill.readable();
                canvas.text(Text { size, colour, align: Align::Middle, ..text });
            }
        }
    }
}

fn columns(canvas: &mut Canvas, plot: Area, map: &HeatMap) {
    let width = plot.width() / map.columns.len().max(1) as f64;
    let widest = map.columns.iter().map(|name| font::width(name, TEXT, false));
    let every = ((widest.fold(0.0, f64::max) + 8.0) / width).ceil().max(1.0) as usize;
    for (n, name) in map.columns.iter().enumerate().step_by(every) {
        let at = (plot.left + (n as f64 + 0.5) * width, plot.bottom + 18.0);
        canvas.text(Text { align: Align::Middle, ..Text::new(name, at) });
    }
}

/// Draws the colour scale.
fn legend(canvas: &mut Canvas, plot: Area, map: &HeatMap) {
    const STEPS: usize = 48;
    let bar = Area { left: plot.right + 18.0, right: plot.right + 32.0, ..plot };
    for n in 0..STEPS {
        let part = |n: usize| n as f64 / STEPS as f64;
        let fill = colour::of_heat((n as f64 + 0.5) / STEPS as f64);
        canvas.rectangle(bar.at(0.0, part(n + 1)), bar.at(1.0, part(n)), fill);
    }
    let (least, greatest) = map.range;
    for n in 0..=4 {
        let part = f64::from(n) / 4.0;
        let (x, y) = bar.at(1.0, part);
        canvas.line(&[(x, y), (x + 4.0, y)], 1.0, GRID, None);
        canvas.text(Text::new(
            format_value(least + (greatest - least) * part, map.unit),
            (x + 7.0, y + 4.2),
        ));
    }
    let at = (plot.right + LEGEND + 6.0, (plot.top + plot.bottom) / 2.0);
    let label = Text::new(&map.value_label, at);
    canvas.text(Text { align: Align::Middle, upright: true, ..label });
}
