//! A picture of one or several panels.

use super::canvas::{Canvas, Text};
use super::frame::Area;
use super::model::{Bars, Chart, HeatMap};
use super::{bars, curves, heat, raster, svg};

/// A panel of a picture.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Panel {
    Chart(Chart),
    HeatMap(HeatMap),
    Bars(Bars),
}

impl From<Chart> for Panel {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

impl From<HeatMap> for Panel {
    fn from(map: HeatMap) -> Self {
        Self::HeatMap(map)
    }
}

impl From<Bars> for Panel {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

/// Panels in a grid, under a common title.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The title above all panels; may be empty.
    pub title: String,
    /// Number of panels in a row.
    pub columns: usize,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// The size of each panel in pixels; a PNG has twice as many in each direction.
    pub panel_size: (u32, u32),
}

impl Picture {
    /// Returns a picture of one panel of the default size.
    pub fn of(panel: impl Into<Panel>) -> Self {
        Self::grid("", 1, vec![panel.into()])
    }

    /// Returns a picture of several panels with so many columns.
    pub fn grid(title: impl Into<String>, columns: usize, panels: Vec<Panel>) -> Self {
        Self { title: title.into(), columns: columns.max(1), panels, panel_size: (640, 430) }
    }

    /// Returns it as an SVG document.
    pub fn svg(&self) -> String {
        let title = match (&self.title, self.panels.first()) {
            (title, _) if !title.is_empty() => title,
            (_, Some(Panel::Chart(chart))) => &chart.title,
            (_, Some(Panel::HeatMap(map))) => &map.title,
            (_, Some(Panel::Bars(bars))) => &bars.title,
            (title, None) => title,
        };
        svg::document(&self.canvas(), self.size(), title)
    }

    /// Returns it as a PNG file, with twice as many pixels in each direction.
    pub fn png(&self) -> Vec<u8> {
        raster::png(&self.canvas(), self.size())
    }

    /// Returns its width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        let columns = self.columns.min(self.panels.len()).max(1) as u32;
        let rows = self.panels.len().div_ceil(self.columns.max(1)).max(1) as u32;
        let (width, height) = self.panel_size;
        let title = if self.title.is_empty() { 0 } else { TITLE_ROOM };
        (columns * width, rows * height + title)
    }

    fn canvas(&self) -> Canvas {
        let mut canvas = Canvas::default();
        let (width, height) = (f64::from(self.panel_size.0), f64::from(self.panel_size.1));
        let mut top = 0.0;
        if !self.title.is_empty() {
            let text = Text::new(&self.title, (MARGIN, 34.0));
            canvas.text(Text { size: 19.0, bold: true, ..text });
            top = f64::from(TITLE_ROOM);
        }
        for (n, panel) in self.panels.iter().enumerate() {
            let (column, row) = (n % self.columns.max(1), n / self.columns.max(1));
            let (left, top) = (column as f64 * width, top + row as f64 * height);
            let area = Area {
                left: left + MARGIN,
                top: top + MARGIN / 2.0,
                right: left + width - MARGIN / 2.0,
                bottom: top + height - MARGIN / 2.0,
            };
            match panel {
                Panel::Chart(chart) => curves::draw(&mut canvas, area, chart),
                Panel::HeatMap(map) => heat::draw(&mut canvas, area, map),
                Panel::Bars(bars) => bars::draw(&mut canvas, area, bars),
            }
        }
        canvas
    }
}

const MARGIN: f64 = 24.0;
const TITLE_ROOM: u32 = 46;
