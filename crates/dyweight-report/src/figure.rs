//! Figures: panels in a grid, with a common title and legend.

use super::canvas::{Align, Canvas, Rect, TextStyle};
use super::frame::{Key, LABEL, legend_height, legend_rows, text};
use dyweight_core::error::{Error, Result};

/// Something that can be drawn as a panel.
pub trait Plot {
    /// Draws itself into an area.
    fn draw(&self, canvas: &mut Canvas, area: Rect);

    /// Its lines of a common legend.
    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }
}

/// Panels in a grid.
pub struct Figure {
    title: String,
    columns: usize,
    panel: (f64, f64),
    legend: bool,
    panels: Vec<Box<dyn Plot>>,
}

impl Figure {
    /// `columns` panels side by side, each of this width and height.
    pub fn new(columns: usize, panel: (f64, f64)) -> Self {
        Self { title: String::new(), columns: columns.max(1), panel, legend: false, panels: Vec::new() }
    }

    /// One panel.
    pub fn single(panel: impl Plot + 'static, width: f64, height: f64) -> Self {
        Self::new(1, (width, height)).with(panel)
    }

    /// With a title over all panels.
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// With one legend below all panels, each name once.
    pub fn legend_below(self) -> Self {
        Self { legend: true, ..self }
    }

    /// Adds a panel, in reading order.
    pub fn with(mut self, panel: impl Plot + 'static) -> Self {
        self.panels.push(Box::new(panel));
        self
    }

    /// Draws it.
    pub fn draw(&self) -> Result<Canvas> {
        self.lay_out(self.columns, self.panel)
    }

    /// Draws it for a narrow screen: one panel below the other, none wider than `width`.
    pub fn draw_narrow(&self, width: f64) -> Result<Canvas> {
        self.lay_out(1, (self.panel.0.min(width), self.panel.1))
    }

    fn lay_out(&self, columns: usize, (w, h): (f64, f64)) -> Result<Canvas> {
        let columns = columns.min(self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let keys = if self.legend { self.keys() } else { Vec::new() };
        let width = columns as f64 * w;
        let head = if self.title.is_empty() { 0.0 } else { 24.0 };
        let foot = if keys.is_empty() { 0.0 } else { legend_height(&keys, width - 12.0) + 10.0 };
        let height = head + rows as f64 * h + foot;
        if !(w > 0.0 && h > 0.0 && width <= Canvas::MAX_SIDE && height <= Canvas::MAX_SIDE) {
            let value = format!("{width} x {height}");
            return Err(Error::bad_value("figure", value, "sides of 1 to 4096"));
        }
        let mut canvas = Canvas::new(width, height);
        let bold = TextStyle { bold: true, ..text(LABEL + 1.0, Align::Middle) };
        canvas.text(&self.title, (width / 2.0, 13.0), bold);
        for (index, panel) in self.panels.iter().enumerate() {
            let (row, column) = ((index / columns) as f64, (index % columns) as f64);
            panel.draw(&mut canvas, Rect::new(column * w, head + row * h, w, h));
        }
        legend_rows(&mut canvas, &keys, Rect::new(6.0, height - foot + 3.0, width - 12.0, foot));
        Ok(canvas)
    }

    fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for key in self.panels.iter().flat_map(|p| p.keys()) {
            if !keys.iter().any(|k| k.name == key.name) {
                keys.push(key);
            }
        }
        keys
    }
}
