//! Renders shapes as PNG.

use ab_glyph::{Font, GlyphId, Outline, OutlineCurve};
use ab_glyph_rasterizer::{Rasterizer, point};

use super::canvas::{Canvas, Point, Shape, Text, dashes};
use super::colour::Colour;
use super::font;

/// Pixels of the file per pixel of the picture, for screens with a high resolution.
const DENSITY: f64 = 2.0;

/// Returns a picture of this size as PNG.
pub(crate) fn png(canvas: &Canvas, size: (u32, u32)) -> Vec<u8> {
    let mut image = Image::new(size);
    for shape in &canvas.shapes {
        match shape {
            Shape::Line { points, width, colour, dash } => {
                let pieces = dash.map_or(vec![points.clone()], |dash| dashes(points, dash));
                image.fill(
                    &pieces.iter().flat_map(|p| stroke(p, *width)).collect::<Vec<_>>(),
                    *colour,
                );
            }
            Shape::Area { points, colour } => image.fill(&[clockwise(points.clone())], *colour),
            Shape::Text(text) => image.write(text),
        }
    }
    image.encode()
}

/// An image with three bytes per pixel, row by row.
struct Image {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Image {
    fn new((width, height): (u32, u32)) -> Self {
        let (width, height) =
            (width as usize * DENSITY as usize, height as usize * DENSITY as usize);
        Self { width, height, pixels: vec![255; width * height * 3] }
    }

    /// Fills areas that may overlap; each must be clockwise.
    fn fill(&mut self, areas: &[Vec<Point>], colour: Colour) {
        let all = || areas.iter().flatten();
        let Some((left, top)) = all().copied().reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))) else {
            return;
        };
        let Some((right, bottom)) = all().copied().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
        else {
            return;
        };
        let corner = ((left * DENSITY).floor() - 1.0, (top * DENSITY).floor() - 1.0);
        let end = ((right * DENSITY).ceil() + 2.0, (bottom * DENSITY).ceil() + 2.0);
        let mut raster = raster(corner, end);
        let at =
            |p: Point| point((p.0 * DENSITY - corner.0) as f32, (p.1 * DENSITY - corner.1) as f32);
        for area in areas {
            for (from, to) in area.iter().zip(area.iter().cycle().skip(1)) {
                raster.draw_line(at(*from), at(*to));
            }
        }
        self.blend(&raster, corner, colour);
    }

    fn write(&mut self, text: &Text) {
        let face = font::face(text.bold);
        let scale = text.size / font::units(face) * DENSITY;
        let mut along = -text.shift() * DENSITY;
        for c in text.text.chars() {
            let glyph = face.glyph_id(c);
            if let Some(outline) = face.outline(glyph) {
                let place = |p: ab_glyph::Point| {
                    let (x, y) = (along + f64::from(p.x) * scale, f64::from(p.y) * scale);
                    let (dx, dy) = if text.upright { (-y, -x) } else { (x, -y) };
                    (text.at.0 * DENSITY + dx, text.at.1 * DENSITY + dy)
                };
                self.draw_outline(&outline, place, text.colour);
            }
            along += advance(face, glyph) * scale;
        }
    }

    fn draw_outline(
        &mut self,
        outline: &Outline,
        place: impl Fn(ab_glyph::Point) -> Point,
        colour: Colour,
    ) {
        let (a, b) = (place(outline.bounds.min), place(outline.bounds.max));
        let corner = (a.0.min(b.0).floor() - 1.0, a.1.min(b.1).floor() - 1.0);
        let end = (a.0.max(b.0).ceil() + 2.0, a.1.max(b.1).ceil() + 2.0);
        let mut raster = raster(corner, end);
        let at = |p: ab_glyph::Point| {
            let (x, y) = place(p);
            point((x - corner.0) as f32, (y - corner.1) as f32)
        };
        for curve in &outline.curves {
            match *curve {
                OutlineCurve::Line(a, b) => raster.draw_line(at(a), at(b)),
                OutlineCurve::Quad(a, b, c) => raster.draw_quad(at(a), at(b), at(c)),
                OutlineCurve::Cubic(a, b, c, d) => raster.draw_cubic(at(a), at(b), at(c), at(d)),
            }
        }
        self.blend(&raster, corner, colour);
    }

    /// Blends a colour into the pixels, by the coverage of each.
    fn blend(&mut self, raster: &Rasterizer, corner: Point, colour: Colour) {
        let Self { width, height, pixels } = self;
        raster.for_each_pixel_2d(|x, y, cover| {
            let (x, y) = (corner.0 + f64::from(x), corner.1 + f64::from(y));
            let inside = x >= 0.0 && y >= 0.0 && x < *width as f64 && y < *height as f64;
            if !inside || cover <= 0.0 {
                return;
            }
            let start = (y as usize * *width + x as usize) * 3;
            let under = Colour(pixels[start], pixels[start + 1], pixels[start + 2]);
            let Colour(red, green, blue) = under.toward(colour, f64::from(cover.min(1.0)));
            pixels[start..start + 3].copy_from_slice(&[red, green, blue]);
        });
    }

    fn encode(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header().expect("writing to memory cannot fail");
        writer.write_image_data(&self.pixels).expect("the size is right");
        writer.finish().expect("writing to memory cannot fail");
        file
    }
}

fn raster(corner: Point, end: Point) -> Rasterizer {
    Rasterizer::new((end.0 - corner.0) as usize + 1, (end.1 - corner.1) as usize + 1)
}

fn advance(face: &impl Font, glyph: GlyphId) -> f64 {
    f64::from(face.h_advance_unscaled(glyph))
}

/// Returns the areas of a line with a width: a box for each segment, and a circle at each bend.
fn stroke(points: &[Point], width: f64) -> Vec<Vec<Point>> {
    let half = width / 2.0;
    let boxes = points.windows(2).filter_map(|pair| {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        let length = (x1 - x0).hypot(y1 - y0);
        if length == 0.0 {
            return None;
        }
        let (dx, dy) = (-(y1 - y0) / length * half, (x1 - x0) / length * half);
        let corners =
            vec![(x0 + dx, y0 + dy), (x1 + dx, y1 + dy), (x1 - dx, y1 - dy), (x0 - dx, y0 - dy)];
        Some(clockwise(corners))
    });
    let bends = points.iter().skip(1).take(points.len().saturating_sub(2));
    let bends = bends.filter(|_| width > 1.5).map(|(x, y)| {
        let corner = |n: u32| {
            let (sin, cos) = (f64::from(n) * std::f64::consts::TAU / 12.0).sin_cos();
            (x + half * cos, y + half * sin)
        };
        clockwise((0..12).map(corner).collect())
    });
    boxes.chain(bends).collect()
}

/// Returns the points in clockwise order. Overlapping areas need the same order, or they cancel
/// out.
fn clockwise(mut points: Vec<Point>) -> Vec<Point> {
    let next = points.iter().cycle().skip(1);
    let twice: f64 = points.iter().zip(next).map(|(a, b)| a.0 * b.1 - b.0 * a.1).sum();
    if twice < 0.0 {
        points.reverse();
    }
    points
}
