//! Bar charts: groups of bars, with error bars and values written over them.

use super::axis::{Axis, Scale, brief, named, plain};
use super::canvas::{Align, Canvas, Point, Rect, Spot, Stroke, TextStyle, text_width};
use super::figure::Plot;
use super::frame::{Frame, Key, Marker, TICK, legend_box, text};
use super::palette::{Colour, INK, category};

/// One bar of every group.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSeries {
    /// Name in the legend; an empty one is left out.
    pub name: String,
    /// One value for each group; a value that is not finite leaves a gap.
    pub values: Vec<f64>,
    /// Half-lengths of error bars; empty for none.
    pub errors: Vec<f64>,
    /// Colour.
    pub colour: Colour,
}

impl BarSeries {
    /// Bars in the colour of the category.
    pub fn new(name: impl Into<String>, category_index: usize, values: Vec<f64>) -> Self {
        Self { name: name.into(), values, errors: Vec::new(), colour: category(category_index) }
    }

    /// With error bars.
    pub fn errors(self, errors: Vec<f64>) -> Self {
        Self { errors, ..self }
    }
}

/// Groups of bars over named categories.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Above the plot; may be empty.
    pub title: String,
    /// Names of the groups, below the plot.
    pub groups: Vec<String>,
    /// Vertical axis. A linear one includes 0.
    pub y: Axis,
    /// Bars of every group, side by side.
    pub series: Vec<BarSeries>,
    /// Write values over the bars where they fit.
    pub values: bool,
    /// Draw the legend inside the plot.
    pub legend: bool,
}

impl BarChart {
    /// An empty chart with a legend and written values.
    pub fn new(title: impl Into<String>, groups: Vec<String>, y: Axis) -> Self {
        Self { title: title.into(), groups, y, series: Vec::new(), values: true, legend: true }
    }

    /// Adds a bar to every group.
    pub fn with(mut self, series: BarSeries) -> Self {
        self.series.push(series);
        self
    }

    /// Tops, ends of error bars, and the base of a linear axis.
    fn extent(&self) -> Vec<Point> {
        let tops = self.series.iter().flat_map(|s| s.values.iter().map(|v| (0.0, *v)));
        let ends = self.series.iter().flat_map(|s| s.values.iter().zip(&s.errors).map(|(v, e)| (0.0, v + e)));
        let base = (self.y.scale == Scale::Linear).then_some((0.0, 0.0));
        let mut points: Vec<Point> = tops.chain(ends).chain(base).collect();
        if self.values || self.legend {
            // Room for what stands over the highest bar.
            let high = points.iter().map(|p| p.1).filter(|v| v.is_finite()).fold(0.0, f64::max);
            points.push((0.0, high * if self.y.scale == Scale::Log { 1.6 } else { 1.08 }));
        }
        points
    }

    /// The vertical axis; bars that all rise from 0 stand on the frame.
    fn standing(&self, extent: &[Point]) -> Axis {
        let values = || extent.iter().map(|p| p.1).filter(|v| v.is_finite());
        let rising = self.y.scale == Scale::Linear && self.y.range.is_none() && values().all(|v| v >= 0.0);
        let high = values().fold(0.0, f64::max);
        if rising && high > 0.0 { self.y.clone().range(0.0, 1.02 * high) } else { self.y.clone() }
    }

    fn bar(&self, canvas: &mut Canvas, frame: &Frame, group: usize, index: usize) {
        let series = &self.series[index];
        let Some(value) = series.values.get(group).copied().filter(|v| v.is_finite()) else { return };
        let slot = 1.0 / (self.series.len() as f64 + 0.6);
        let left = group as f64 + slot * (0.3 + index as f64 + 0.06);
        let base = if self.y.scale == Scale::Log { frame.y.low } else { 0.0 };
        let ((x0, y0), (x1, y1)) = (frame.at((left, base)), frame.at((left + slot * 0.88, value)));
        canvas.rect(Rect::new(x0, y0.min(y1), x1 - x0, (y1 - y0).abs()), Some(series.colour), None);
        let middle = (x0 + x1) / 2.0;
        let mut top = y0.min(y1);
        if let Some(error) = series.errors.get(group).filter(|e| e.is_finite()) {
            let (high, low) = (frame.at((left, value + error)).1, frame.at((left, value - error)).1);
            let low = if low.is_finite() { low } else { y0 };
            canvas.segments(
                &[[(middle, high), (middle, low)], [(middle - 2.5, high), (middle + 2.5, high)]],
                Stroke::solid(INK, 0.9),
            );
            top = top.min(high);
        }
        canvas.spot(Spot {
            at: (middle, y1),
            panel: self.title.clone(),
            series: series.name.clone(),
            place: self.groups[group].clone(),
            value: named(&self.y.label, &brief(value, series.errors.get(group).copied())),
        });
        let label = shorten(value);
        if self.values && text_width(&label, TICK - 1.0, false) <= (x1 - x0) * 1.35 {
            canvas.text(&label, (middle, top - 7.0), text(TICK - 1.0, Align::Middle));
        }
    }

    fn group_labels(&self, canvas: &mut Canvas, frame: &Frame) {
        let room = frame.plot.w / self.groups.len().max(1) as f64;
        let widest = self.groups.iter().map(|g| text_width(g, TICK, false)).fold(0.0, f64::max);
        // Long names shrink, down to what is still readable.
        let size = (TICK * (room - 3.0) / widest.max(1e-9)).clamp(6.5, TICK);
        for (group, name) in self.groups.iter().enumerate() {
            let x = frame.at((group as f64 + 0.5, 0.0)).0;
            let style = TextStyle { size, ..text(TICK, Align::Middle) };
            canvas.text(name, (x, frame.plot.bottom() + 10.0), style);
        }
    }
}

impl Plot for BarChart {
    fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let x = Axis::linear("").range(0.0, self.groups.len().max(1) as f64).ticks(&[]);
        let extent = self.extent();
        let y = self.standing(&extent);
        let axes = (&x, &y);
        let frame = Frame::place(area, &self.title, axes, &extent);
        frame.grid(canvas, false);
        canvas.clipped(frame.plot, |canvas| {
            for group in 0..self.groups.len() {
                for index in 0..self.series.len() {
                    self.bar(canvas, &frame, group, index);
                }
            }
        });
        frame.finish(canvas, &self.title, axes);
        self.group_labels(canvas, &frame);
        if self.legend && self.keys().len() > 1 {
            let tops =
                |s: &BarSeries| s.values.iter().enumerate().map(|(g, v)| (g as f64 + 0.5, *v)).collect::<Vec<_>>();
            let points: Vec<Point> = self.series.iter().flat_map(tops).map(|p| frame.at(p)).collect();
            legend_box(canvas, &self.keys(), frame.plot, &points);
        }
    }

    fn keys(&self) -> Vec<Key> {
        let named = self.series.iter().filter(|s| !s.name.is_empty());
        named.map(|s| Key { name: s.name.clone(), colour: s.colour, line: None, marker: Marker::None }).collect()
    }
}

/// Three significant digits.
fn shorten(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".into(),
        _ if !(1e-3..1e5).contains(&size) => plain(value),
        _ if size >= 100.0 => super::axis::signed(&format!("{value:.0}")),
        _ if size >= 10.0 => super::axis::signed(&format!("{value:.1}")),
        _ if size >= 0.1 => super::axis::signed(&format!("{value:.2}")),
        _ => super::axis::signed(&format!("{value:.3}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_short() {
        let written: Vec<String> = [0.0, 123.4, 12.34, -1.234, 0.1234, 0.01234, 1.5e-7].map(shorten).into();
        assert_eq!(written, ["0", "123", "12.3", "−1.23", "0.12", "0.012", "1.5×10⁻⁷"]);
    }
}
