//! Heat maps: a matrix as coloured cells with their numbers, for coefficient tables above all.

use super::axis::{brief, named, plain, signed};
use super::canvas::{Align, Canvas, Rect, Spot, Stroke, TextStyle, text_width};
use super::figure::Plot;
use super::frame::{LABEL, TICK, text};
use super::palette::{Colour, FAINT, GREY, diverging};

/// A matrix of cells: red below 0, white at 0, blue above, symmetric up to the largest size in the matrix. Rows may be
/// ragged; missing cells and cells that are not finite stay blank.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Above the matrix; may be empty.
    pub title: String,
    /// What the columns are, below.
    pub x_label: String,
    /// What the rows are, on the left.
    pub y_label: String,
    /// Names of the columns; their numbers from 0 if empty.
    pub columns: Vec<String>,
    /// Names of the rows; their numbers from 0 if empty.
    pub rows: Vec<String>,
    /// The numbers, row by row.
    pub cells: Vec<Vec<f64>>,
    /// Decimals of the numbers in the cells; `None` to write none.
    pub decimals: Option<usize>,
}

impl HeatMap {
    /// With two decimals.
    pub fn new(title: impl Into<String>, cells: Vec<Vec<f64>>) -> Self {
        let none = String::new();
        Self {
            title: title.into(),
            x_label: none.clone(),
            y_label: none,
            columns: Vec::new(),
            rows: Vec::new(),
            cells,
            decimals: Some(2),
        }
    }

    /// With names for its axes.
    pub fn labels(self, x: impl Into<String>, y: impl Into<String>) -> Self {
        Self { x_label: x.into(), y_label: y.into(), ..self }
    }

    /// With names for rows and columns.
    pub fn names(self, rows: Vec<String>, columns: Vec<String>) -> Self {
        Self { rows, columns, ..self }
    }

    fn width(&self) -> usize {
        self.cells.iter().map(Vec::len).chain([self.columns.len()]).max().unwrap_or(0)
    }

    /// Numbers at the ends of the colour map.
    fn ends(&self) -> (f64, f64) {
        let size = self.cells.iter().flatten().filter(|v| v.is_finite()).fold(0.0, |most: f64, v| most.max(v.abs()));
        let size = if size > 0.0 { size } else { 1.0 };
        (-size, size)
    }

    fn draw_cells(&self, canvas: &mut Canvas, grid: Rect, ends: (f64, f64)) {
        let (w, h) = (grid.w / self.width() as f64, grid.h / self.cells.len() as f64);
        let written = |v: f64| match self.decimals {
            Some(_) if v.abs() >= 1e5 => plain(v),
            Some(decimals) => signed(&format!("{v:.decimals$}")),
            None => String::new(),
        };
        let shown = self.cells.iter().flatten().filter(|v| v.is_finite());
        let widest = shown.map(|v| text_width(&written(*v), 1.0, false)).fold(1e-9, f64::max);
        let size = ((w - 3.0) / widest).min(h * 0.7).min(TICK);
        for (row, cells) in self.cells.iter().enumerate() {
            for (column, value) in cells.iter().enumerate().filter(|(_, v)| v.is_finite()) {
                let cell = Rect::new(grid.x + column as f64 * w, grid.y + row as f64 * h, w, h);
                let colour = diverging(value / ends.1);
                canvas.rect(cell, Some(colour), Some(Stroke::solid(Colour::rgb(255, 255, 255), 0.8)));
                canvas.spot(Spot {
                    at: cell.centre(),
                    panel: self.title.clone(),
                    series: named(&self.y_label, &name(&self.rows, row)),
                    place: named(&self.x_label, &name(&self.columns, column)),
                    value: brief(*value, None),
                });
                // Below 4 px nobody can read a number; the colour must do.
                if size >= 4.0 {
                    let style = TextStyle { colour: colour.ink(), ..text(size, Align::Middle) };
                    canvas.text(&written(*value), cell.centre(), style);
                }
            }
        }
        canvas.rect(grid, None, Some(Stroke::solid(GREY, 0.9)));
    }

    fn draw_names(&self, canvas: &mut Canvas, grid: Rect) {
        let (w, h) = (grid.w / self.width() as f64, grid.h / self.cells.len() as f64);
        for row in 0..self.cells.len() {
            let at = (grid.x - 5.0, grid.y + (row as f64 + 0.5) * h);
            canvas.text(&name(&self.rows, row), at, text(TICK.min(h * 0.9), Align::End));
        }
        let mut free_from = f64::NEG_INFINITY;
        for column in 0..self.width() {
            let label = name(&self.columns, column);
            let (x, half) = (grid.x + (column as f64 + 0.5) * w, text_width(&label, TICK, false) / 2.0);
            if x - half >= free_from {
                canvas.text(&label, (x, grid.bottom() + 9.0), text(TICK, Align::Middle));
                free_from = x + half + 3.0;
            }
        }
    }

    fn row_name_width(&self) -> f64 {
        let named = self.rows.iter().map(|r| text_width(r, TICK, false));
        named.fold(text_width(&self.cells.len().to_string(), TICK, false), f64::max)
    }

    fn draw_bar(&self, canvas: &mut Canvas, bar: Rect, ends: (f64, f64)) {
        const SHADES: usize = 48;
        for shade in 0..SHADES {
            let value = ends.0 + (ends.1 - ends.0) * (shade as f64 + 0.5) / SHADES as f64;
            let h = bar.h / SHADES as f64;
            // Half a pixel of overlap hides seams between shades.
            let strip = Rect::new(bar.x, bar.bottom() - (shade + 1) as f64 * h, bar.w, h + 0.5);
            canvas.rect(strip, Some(diverging(value / ends.1)), None);
        }
        canvas.rect(bar, None, Some(Stroke::solid(GREY, 0.9)));
        for (fraction, value) in [(0.0, ends.0), (0.5, (ends.0 + ends.1) / 2.0), (1.0, ends.1)] {
            let y = bar.bottom() - fraction * bar.h;
            canvas.text(&rounded(value), (bar.right() + 4.0, y), text(TICK - 1.0, Align::Start));
        }
    }
}

impl Plot for HeatMap {
    fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let left = self.row_name_width() + 9.0 + if self.y_label.is_empty() { 0.0 } else { LABEL + 5.0 };
        let top = if self.title.is_empty() { 8.0 } else { 22.0 };
        let bottom = 18.0 + if self.x_label.is_empty() { 0.0 } else { LABEL + 4.0 };
        let grid = Rect::new(area.x + left, area.y + top, area.w - left - 52.0, area.h - top - bottom);
        if self.cells.is_empty() || self.width() == 0 || grid.w <= 0.0 || grid.h <= 0.0 {
            return;
        }
        let ends = self.ends();
        canvas.rect(grid, Some(FAINT.fade(0.35)), None);
        self.draw_cells(canvas, grid, ends);
        self.draw_names(canvas, grid);
        self.draw_bar(canvas, Rect::new(grid.right() + 8.0, grid.y, 9.0, grid.h), ends);
        let (x, y) = grid.centre();
        canvas.text(&self.title, (x, grid.y - 11.0), TextStyle { bold: true, ..text(LABEL, Align::Middle) });
        canvas.text(&self.x_label, (x, grid.bottom() + 18.0 + LABEL / 2.0), text(LABEL, Align::Middle));
        let beside = (grid.x - self.row_name_width() - 9.0 - LABEL / 2.0, y);
        canvas.text(&self.y_label, beside, TextStyle { upward: true, ..text(LABEL, Align::Middle) });
    }
}

/// A row's or column's name, or its number if it has none.
fn name(names: &[String], index: usize) -> String {
    names.get(index).cloned().unwrap_or_else(|| index.to_string())
}

/// Two significant digits, for the ends of the colour bar.
fn rounded(value: f64) -> String {
    let digits: f64 = format!("{value:.1e}").parse().unwrap_or(value);
    plain(if digits.is_finite() { digits } else { value })
}
