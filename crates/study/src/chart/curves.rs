//! Draws a [`Chart`].

use super::canvas::{Canvas, Point};
use super::colour;
use super::frame::{self, Area, DASH, Entry, Key};
use super::model::{Chart, Series};
use super::ticks::Span;

/// Draws a chart.
pub(crate) fn draw(canvas: &mut Canvas, area: Area, chart: &Chart) {
    let titles = [chart.title.as_str(), chart.subtitle.as_str()];
    let area = frame::titles(canvas, area, titles, &chart.notes);
    let entries: Vec<Entry<'_>> = chart
        .series
        .iter()
        .map(|series| Entry { name: &series.name, key: Key::Curve(series.style) })
        .collect();
    let area = frame::legend(canvas, area, &entries);

    let points = || chart.series.iter().flat_map(|series| &series.points);
    let x = Span::new(&chart.x, points().map(|(x, _)| *x));
    let y = Span::new(&chart.y, points().map(|(_, y)| *y));
    let ticks = y.ticks((area.height() / 36.0) as usize);
    let plot = frame::inside(area, &chart.y.label, &ticks);
    frame::level(canvas, plot, &chart.x.label, &x);
    frame::upright(canvas, plot, area.left, &chart.y.label, &ticks);
    frame::corner(canvas, plot);
    for series in &chart.series {
        curve(canvas, series, |(a, b)| Some(plot.at(x.part(a)?, y.part(b)?)));
    }
}

fn curve(canvas: &mut Canvas, series: &Series, place: impl Fn(Point) -> Option<Point>) {
    let colour = colour::of_series(series.style.colour);
    let points: Vec<Option<Point>> = series.points.iter().map(|point| place(*point)).collect();
    // A value that cannot be shown interrupts the curve.
    for piece in points.split(Option::is_none) {
        let piece: Vec<Point> = piece.iter().flatten().copied().collect();
        if piece.len() > 1 {
            canvas.line(&piece, 2.2, colour, series.style.dashed.then_some(DASH));
        }
    }
    if !series.style.bare {
        for point in points.into_iter().flatten() {
            canvas.mark(series.style.colour, point, colour);
        }
    }
}
