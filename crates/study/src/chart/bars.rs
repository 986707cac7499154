//! Draws [`Bars`].

use super::canvas::{Align, Canvas, Text};
use super::colour::{self, INK};
use super::font;
use super::frame::{self, Area, DASH, Entry, Key, TEXT};
use super::model::{Axis, Bars};
use super::number::format_value;
use super::ticks::Span;

/// Draws bars.
pub(crate) fn draw(canvas: &mut Canvas, area: Area, bars: &Bars) {
    let titles = [bars.title.as_str(), bars.subtitle.as_str()];
    let area = frame::titles(canvas, area, titles, &bars.notes);
    let names = bars.names.iter().enumerate();
    let boxes = names.map(|(n, name)| Entry { name, key: Key::Box(colour::of_series(n)) });
    let mut entries: Vec<Entry<'_>> = boxes.collect();
    let baseline = bars.baseline.iter().map(|(name, _)| Entry { name, key: Key::Dashes });
    entries.extend(baseline);
    let area = frame::legend(canvas, area, &entries);

    let axis = Axis { unit: bars.unit, ..Axis::default() };
    let values = bars.groups.iter().flat_map(|group| group.values.iter().flatten().copied());
    let y = Span::new(&axis, values.chain(bars.baseline.iter().map(|(_, value)| *value)));
    let ticks = y.ticks((area.height() / 36.0) as usize);
    let plot = frame::inside(area, &bars.label, &ticks);
    frame::upright(canvas, plot, area.left, &bars.label, &ticks);
    groups(canvas, plot, bars, &y);
    frame::corner(canvas, plot);
    if let Some(part) = bars.baseline.as_ref().and_then(|(_, value)| y.part(*value)) {
        canvas.line(&[plot.at(0.0, part), plot.at(1.0, part)], 1.6, INK, Some(DASH));
    }
}

fn groups(canvas: &mut Canvas, plot: Area, bars: &Bars, y: &Span) {
    let group_width = plot.width() / bars.groups.len().max(1) as f64;
    let most = bars.groups.iter().map(|group| group.values.len()).max().unwrap_or(1).max(1) as f64;
    let width = (group_width * 0.8 / most).min(64.0);
    for (n, group) in bars.groups.iter().enumerate() {
        let middle = plot.left + (n as f64 + 0.5) * group_width;
        let left = middle - width * group.values.len() as f64 / 2.0;
        for (n, value) in group.values.iter().enumerate() {
            let Some((value, part)) = value.and_then(|value| Some((value, y.part(value)?))) else {
                continue;
            };
            let (x, top) = (left + n as f64 * width, plot.at(0.0, part).1);
            let fill = colour::of_series(n);
            canvas.rectangle((x + 1.0, top), (x + width - 1.0, plot.bottom), fill);
            let text = format_value(value, bars.unit);
            let size = (TEXT - 1.0).min((width + 6.0) / font::width(&text, 1.0, false));
            // The value goes into the bar if there is room, so that the baseline does not cross it.
            let (y, colour) = if plot.bottom - top > size + 10.0 {
                (top + size + 4.0, fill.readable())
            } else {
                (top - 4.0, INK)
            };
            if size >= 7.0 {
                let text = Text::new(text, (x + width / 2.0, y));
                canvas.text(Text { size, colour, align: Align::Middle, ..text });
            }
        }
        let size = TEXT.min((group_width - 6.0) / font::width(&group.name, 1.0, false)).max(7.0);
        let name = Text::new(&group.name, (middle, plot.bottom + 18.0));
        canvas.text(Text { size, align: Align::Middle, ..name });
    }
}
