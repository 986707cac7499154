//! Writes shapes as SVG.

use std::fmt::Write;

use super::canvas::{Align, Canvas, Point, Shape, Text};
use super::colour::Colour;
use super::font;

/// Returns the document of a picture of this size in pixels, with its title for screen readers.
pub(crate) fn document(canvas: &Canvas, (width, height): (u32, u32), title: &str) -> String {
    let mut svg = String::new();
    let family = font::FAMILY;
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{family}\">"
    );
    let _ = writeln!(svg, "<title>{}</title>", escaped(title));
    let _ = writeln!(svg, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>");
    for shape in &canvas.shapes {
        match shape {
            Shape::Line { points, width, colour, dash } => {
                let dash = dash.map_or(String::new(), |dash| {
                    format!(" stroke-dasharray=\"{} {}\"", number(dash), number(dash / 2.0))
                });
                let _ = writeln!(
                    svg,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" \
                     stroke-linejoin=\"round\"{dash}/>",
                    places(points),
                    code(*colour),
                    number(*width)
                );
            }
            Shape::Area { points, colour } => {
                let (points, fill) = (places(points), code(*colour));
                let _ = writeln!(svg, "<polygon points=\"{points}\" fill=\"{fill}\"/>");
            }
            Shape::Text(text) => write_text(&mut svg, text),
        }
    }
    svg + "</svg>\n"
}

fn write_text(svg: &mut String, text: &Text) {
    let anchor = match text.align {
        Align::Left => "start",
        Align::Middle => "middle",
        Align::Right => "end",
    };
    let (x, y) = (number(text.at.0), number(text.at.1));
    let turn =
        if text.upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let bold = if text.bold { " font-weight=\"bold\"" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" text-anchor=\"{anchor}\" \
         fill=\"{}\"{bold}{turn}>{}</text>",
        number(text.size),
        code(text.colour),
        escaped(&text.text)
    );
}

fn places(points: &[Point]) -> String {
    let place = |(x, y): &Point| format!("{},{}", number(*x), number(*y));
    points.iter().map(place).collect::<Vec<_>>().join(" ")
}

/// Formats a coordinate; a hundredth of a pixel is precise enough.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn code(Colour(red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
