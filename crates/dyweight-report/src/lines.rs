//! Line charts: series over linear or logarithmic axes, with markers, error bars or bands, and a legend.

use super::axis::{Axis, brief, named};
use super::canvas::{Canvas, Dash, Point, Rect, Spot, Stroke};
use super::figure::Plot;
use super::frame::{Frame, Key, Marker, legend_box};
use super::palette::{Colour, category};

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend; an empty one is left out.
    pub name: String,
    /// Data; a value that is not finite breaks the line.
    pub points: Vec<Point>,
    /// Half-length of the error bar at each point (a standard error, say); empty for none.
    pub errors: Vec<f64>,
    /// Draw errors as a band instead of bars.
    pub band: bool,
    /// Colour.
    pub colour: Colour,
    /// Pattern; points of broken lines are hollow.
    pub dash: Dash,
    /// Points.
    pub marker: Marker,
    /// Width of the line; 0 for points alone.
    pub width: f64,
}

impl Series {
    /// A solid line with the colour and marker of the category.
    pub fn new(name: impl Into<String>, category_index: usize, points: Vec<Point>) -> Self {
        Self {
            name: name.into(),
            points,
            errors: Vec::new(),
            band: false,
            colour: category(category_index),
            dash: Dash::Solid,
            marker: Marker::category(category_index),
            width: 1.6,
        }
    }

    /// With error bars.
    pub fn errors(self, errors: Vec<f64>) -> Self {
        Self { errors, ..self }
    }

    /// With this pattern.
    pub fn dash(self, dash: Dash) -> Self {
        Self { dash, ..self }
    }

    /// With this marker.
    pub fn marker(self, marker: Marker) -> Self {
        Self { marker, ..self }
    }

    /// Data points and the ends of their error bars.
    fn extent(&self) -> impl Iterator<Item = Point> + '_ {
        let ends = self.points.iter().zip(&self.errors).flat_map(|((x, y), e)| [(*x, y - e), (*x, y + e)]);
        self.points.iter().copied().chain(ends)
    }

    fn draw(&self, canvas: &mut Canvas, frame: &Frame) {
        let places: Vec<Point> = self.points.iter().map(|p| frame.at(*p)).collect();
        if self.band {
            self.draw_band(canvas, frame);
        } else {
            self.draw_bars(canvas, frame);
        }
        if self.width > 0.0 {
            canvas.polyline(&places, Stroke { colour: self.colour, width: self.width, dash: self.dash });
        }
        for place in places {
            self.marker.draw(canvas, place, self.colour, self.dash != Dash::Solid);
        }
    }

    fn draw_bars(&self, canvas: &mut Canvas, frame: &Frame) {
        let mut bars = Vec::new();
        for ((x, y), error) in self.points.iter().zip(&self.errors) {
            let (x, above) = frame.at((*x, y + error));
            // On a logarithmic axis the lower end may have no place: the bar then runs to the edge.
            let below = frame.at((0.0, y - error)).1;
            let below = if below.is_finite() { below } else { frame.plot.bottom() };
            bars.push([(x, above), (x, below)]);
            bars.extend([above, below].map(|end| [(x - 2.0, end), (x + 2.0, end)]));
        }
        canvas.segments(&bars, Stroke::solid(self.colour, 0.9));
    }

    fn draw_band(&self, canvas: &mut Canvas, frame: &Frame) {
        let ends = |sign: f64| self.points.iter().zip(&self.errors).map(move |((x, y), e)| (*x, y + sign * e));
        let floor = frame.y.low;
        let upper = ends(1.0).map(|p| frame.at(p));
        let lower = ends(-1.0).map(|(x, y)| frame.at((x, y.max(floor))));
        let outline: Vec<Point> = upper.chain(lower.collect::<Vec<_>>().into_iter().rev()).collect();
        canvas.polygon(&outline, Some(self.colour.fade(0.18)), None);
    }

    fn key(&self) -> Key {
        let line = (self.width > 0.0).then_some((self.width, self.dash));
        Key { name: self.name.clone(), colour: self.colour, line, marker: self.marker }
    }
}

/// A chart of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Above the plot; may be empty.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines, later ones on top.
    pub series: Vec<Series>,
    /// Draw the legend inside the plot (a [`super::Figure`] can draw a common one below instead).
    pub legend: bool,
}

impl LineChart {
    /// An empty chart with a legend.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), legend: true }
    }

    fn spots(&self, canvas: &mut Canvas, frame: &Frame) {
        for series in &self.series {
            for (index, (x, y)) in series.points.iter().enumerate() {
                let at = frame.at((*x, *y));
                if frame.plot.contains(at) {
                    let value = brief(*y, series.errors.get(index).copied());
                    canvas.spot(Spot {
                        at,
                        panel: self.title.clone(),
                        series: series.name.clone(),
                        place: named(&self.x.label, &brief(*x, None)),
                        value: named(&self.y.label, &value),
                    });
                }
            }
        }
    }

    /// Adds a line.
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }
}

impl Plot for LineChart {
    fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let points: Vec<Point> = self.series.iter().flat_map(Series::extent).collect();
        let axes = (&self.x, &self.y);
        let frame = Frame::place(area, &self.title, axes, &points);
        frame.grid(canvas, true);
        canvas.clipped(frame.plot, |canvas| self.series.iter().for_each(|s| s.draw(canvas, &frame)));
        frame.finish(canvas, &self.title, axes);
        self.spots(canvas, &frame);
        if self.legend {
            let ink: Vec<Point> = self.series.iter().flat_map(|s| densely(&s.points, &frame)).collect();
            legend_box(canvas, &self.keys(), frame.plot, &ink);
        }
    }

    fn keys(&self) -> Vec<Key> {
        self.series.iter().filter(|s| !s.name.is_empty()).map(Series::key).collect()
    }
}

/// Points along the drawn line, close enough to notice what a legend would hide.
fn densely(points: &[Point], frame: &Frame) -> Vec<Point> {
    let places: Vec<Point> = points.iter().map(|p| frame.at(*p)).collect();
    let between = |pair: &[Point]| {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        (0..8).map(move |k| f64::from(k) / 8.0).map(move |f| (x0 + f * (x1 - x0), y0 + f * (y1 - y0)))
    };
    places.windows(2).flat_map(between).chain(places.last().copied()).collect()
}
