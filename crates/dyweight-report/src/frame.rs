//! What charts share: the frame with title, ticks and labels, markers, and the legend.

use super::axis::{Axis, PlacedAxis};
use super::canvas::{Align, Canvas, Dash, Point, Rect, Stroke, TextStyle, text_width};
use super::palette::{Colour, FAINT, GREY, INK};

/// Font size of titles and axis labels.
pub(super) const LABEL: f64 = 11.0;
/// Font size of ticks and legends.
pub(super) const TICK: f64 = 10.0;

/// Text in the ink colour.
pub(super) fn text(size: f64, align: Align) -> TextStyle {
    TextStyle { size, bold: false, colour: INK, align, upward: false }
}

/// Shape of the dot at a data point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// None.
    None,
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
    /// A square on its corner.
    Diamond,
}

impl Marker {
    /// The marker of the category with this number.
    pub fn category(index: usize) -> Self {
        [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond][index % 4]
    }

    pub(super) fn draw(self, canvas: &mut Canvas, (x, y): Point, colour: Colour, hollow: bool) {
        let fill = Some(if hollow { Colour::rgb(255, 255, 255) } else { colour });
        let edge = Some(Stroke::solid(colour, 1.0));
        match self {
            Marker::None => {}
            Marker::Circle => canvas.circle((x, y), 2.4, fill, edge),
            Marker::Square => canvas.rect(Rect::new(x - 2.1, y - 2.1, 4.2, 4.2), fill, edge),
            Marker::Triangle => {
                canvas.polygon(&[(x, y - 3.0), (x + 2.8, y + 2.0), (x - 2.8, y + 2.0)], fill, edge);
            }
            Marker::Diamond => {
                canvas.polygon(&[(x, y - 3.1), (x + 3.1, y), (x, y + 3.1), (x - 3.1, y)], fill, edge);
            }
        }
    }
}

/// A line of a legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// What stands beside the swatch.
    pub name: String,
    /// Colour of the swatch.
    pub colour: Colour,
    /// Width and pattern of a line; `None` for a filled patch or a marker alone.
    pub line: Option<(f64, Dash)>,
    /// Marker on the line.
    pub marker: Marker,
}

const SWATCH: f64 = 24.0;
const LINE_HEIGHT: f64 = 14.5;

impl Key {
    pub(super) fn width(&self) -> f64 {
        SWATCH + 5.0 + text_width(&self.name, TICK, false)
    }

    fn draw(&self, canvas: &mut Canvas, (x, y): Point) {
        match self.line {
            Some((width, dash)) => {
                canvas.line((x, y), (x + SWATCH, y), Stroke { colour: self.colour, width, dash });
                self.marker.draw(canvas, (x + SWATCH / 2.0, y), self.colour, dash != Dash::Solid);
            }
            None if self.marker != Marker::None => self.marker.draw(canvas, (x + SWATCH / 2.0, y), self.colour, false),
            None => canvas.rect(Rect::new(x + 6.0, y - 4.5, 12.0, 9.0), Some(self.colour), None),
        }
        canvas.text(&self.name, (x + SWATCH + 5.0, y), text(TICK, Align::Start));
    }
}

/// Height of [`legend_rows`] at this width.
pub(super) fn legend_height(keys: &[Key], width: f64) -> f64 {
    rows(keys, width).len() as f64 * LINE_HEIGHT
}

/// A legend in centred rows.
pub(super) fn legend_rows(canvas: &mut Canvas, keys: &[Key], area: Rect) {
    for (row, keys) in rows(keys, area.w).into_iter().enumerate() {
        let mut x = area.x + (area.w - row_width(keys)) / 2.0;
        for key in keys {
            key.draw(canvas, (x, area.y + (row as f64 + 0.5) * LINE_HEIGHT));
            x += key.width() + GAP;
        }
    }
}

const GAP: f64 = 14.0;

fn row_width(keys: &[Key]) -> f64 {
    keys.iter().map(|k| k.width() + GAP).sum::<f64>() - GAP
}

/// The fewest rows that fit, of nearly equal numbers of keys.
fn rows(keys: &[Key], width: f64) -> Vec<&[Key]> {
    let fits = |per_row: usize| keys.chunks(per_row).all(|row| row_width(row) <= width);
    let needed = (1..=keys.len()).find(|n| fits(keys.len().div_ceil(*n))).unwrap_or(keys.len());
    keys.chunks(keys.len().div_ceil(needed.max(1)).max(1)).collect()
}

/// A boxed legend in the corner of `plot` that hides the fewest of `points`.
pub(super) fn legend_box(canvas: &mut Canvas, keys: &[Key], plot: Rect, points: &[Point]) {
    if keys.is_empty() {
        return;
    }
    let w = keys.iter().map(Key::width).fold(0.0, f64::max) + 12.0;
    let h = keys.len() as f64 * LINE_HEIGHT + 5.0;
    let (left, right) = (plot.x + 4.0, plot.right() - 4.0 - w);
    let (top, bottom) = (plot.y + 4.0, plot.bottom() - 4.0 - h);
    let corners = [(right, top), (left, top), (right, bottom), (left, bottom)].map(|(x, y)| Rect::new(x, y, w, h));
    let hidden = |r: &Rect| points.iter().filter(|p| r.contains(**p)).count();
    let Some(place) = corners.into_iter().min_by_key(hidden) else { return };
    canvas.rect(place, Some(Colour::rgb(255, 255, 255).fade(0.85)), Some(Stroke::solid(FAINT, 0.8)));
    for (row, key) in keys.iter().enumerate() {
        key.draw(canvas, (place.x + 6.0, place.y + 2.5 + (row as f64 + 0.5) * LINE_HEIGHT));
    }
}

/// The plot area with its axes.
pub(super) struct Frame {
    pub(super) plot: Rect,
    pub(super) x: PlacedAxis,
    pub(super) y: PlacedAxis,
}

impl Frame {
    /// Decides the layout inside `area` for data with these coordinates.
    pub(super) fn place(area: Rect, title: &str, axes: (&Axis, &Axis), points: &[Point]) -> Self {
        let (x_axis, y_axis) = axes;
        let y = y_axis.place(points.iter().map(|p| p.1), (area.h / 36.0) as usize);
        let widest = y.ticks.iter().map(|t| text_width(&t.1, TICK, false)).fold(0.0, f64::max);
        let left = widest + 9.0 + if y_axis.label.is_empty() { 0.0 } else { LABEL + 5.0 };
        let top = if title.is_empty() { 8.0 } else { 22.0 };
        let bottom = 18.0 + if x_axis.label.is_empty() { 0.0 } else { LABEL + 4.0 };
        let plot = Rect::new(area.x + left, area.y + top, area.w - left - 10.0, area.h - top - bottom);
        let x = x_axis.place(points.iter().map(|p| p.0), (plot.w / 32.0) as usize);
        Self { plot, x, y }
    }

    /// Where a data point falls; NaN where it has no place.
    pub(super) fn at(&self, (x, y): Point) -> Point {
        let (fx, fy) = (self.x.fraction(x), self.y.fraction(y));
        (self.plot.x + fx * self.plot.w, self.plot.bottom() - fy * self.plot.h)
    }

    /// Grid lines, to be drawn before the data.
    pub(super) fn grid(&self, canvas: &mut Canvas, vertical: bool) {
        let pen = Stroke::solid(FAINT, 0.8);
        for (value, _) in &self.y.ticks {
            let y = self.at((0.0, *value)).1;
            canvas.line((self.plot.x, y), (self.plot.right(), y), pen);
        }
        for (value, _) in self.x.ticks.iter().filter(|_| vertical) {
            let x = self.at((*value, 0.0)).0;
            canvas.line((x, self.plot.y), (x, self.plot.bottom()), pen);
        }
    }

    /// Frame, ticks and labels, to be drawn after the data.
    pub(super) fn finish(&self, canvas: &mut Canvas, title: &str, (x_axis, y_axis): (&Axis, &Axis)) {
        let plot = self.plot;
        canvas.rect(plot, None, Some(Stroke::solid(GREY, 0.9)));
        self.x_ticks(canvas);
        self.y_ticks(canvas);
        canvas.text(title, (plot.centre().0, plot.y - 11.0), TextStyle { bold: true, ..text(LABEL, Align::Middle) });
        let below = (plot.centre().0, plot.bottom() + 18.0 + LABEL / 2.0);
        canvas.text(&x_axis.label, below, text(LABEL, Align::Middle));
        let widest = self.y.ticks.iter().map(|t| text_width(&t.1, TICK, false)).fold(0.0, f64::max);
        let beside = (plot.x - widest - 9.0 - LABEL / 2.0, plot.centre().1);
        canvas.text(&y_axis.label, beside, TextStyle { upward: true, ..text(LABEL, Align::Middle) });
    }

    fn x_ticks(&self, canvas: &mut Canvas) {
        let (bottom, pen) = (self.plot.bottom(), Stroke::solid(GREY, 0.9));
        let mut free_from = f64::NEG_INFINITY;
        for (value, label) in &self.x.ticks {
            let x = self.at((*value, 0.0)).0;
            canvas.line((x, bottom), (x, bottom + 3.5), pen);
            // A label that would touch its neighbour is left out; the tick stays.
            let half = text_width(label, TICK, false) / 2.0;
            if x - half >= free_from {
                canvas.text(label, (x, bottom + 10.0), text(TICK, Align::Middle));
                free_from = x + half + 4.0;
            }
        }
        for value in &self.x.minor {
            let x = self.at((*value, 0.0)).0;
            canvas.line((x, bottom), (x, bottom + 2.0), pen);
        }
    }

    fn y_ticks(&self, canvas: &mut Canvas) {
        let (left, pen) = (self.plot.x, Stroke::solid(GREY, 0.9));
        for (value, label) in &self.y.ticks {
            let y = self.at((0.0, *value)).1;
            canvas.line((left - 3.5, y), (left, y), pen);
            canvas.text(label, (left - 6.0, y), text(TICK, Align::End));
        }
        for value in &self.y.minor {
            let y = self.at((0.0, *value)).1;
            canvas.line((left - 2.0, y), (left, y), pen);
        }
    }
}
