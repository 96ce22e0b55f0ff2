//! The plane: two-dimensional samples, the paths solvers take to them, and a density's contour lines behind.
//!
//! Both axes have the same unit length. Contours are found by marching squares on a sampled field, with linear
//! interpolation along cell edges; in a saddle cell the two lines are paired in a fixed way.

use super::axis::Axis;
use super::canvas::{Canvas, Dash, Point, Rect, Stroke};
use super::figure::Plot;
use super::frame::{Frame, Key, Marker, legend_box};
use super::palette::{Colour, category};

/// A function sampled on a regular grid of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    x: (f64, f64),
    y: (f64, f64),
    side: usize,
    values: Vec<f64>,
}

impl Field {
    /// Samples `f` on `side` x `side` points (at least 2 x 2) over the rectangle.
    pub fn sample(x: (f64, f64), y: (f64, f64), side: usize, f: impl Fn(f64, f64) -> f64) -> Self {
        let side = side.max(2);
        let at = |(low, high): (f64, f64), i: usize| low + (high - low) * i as f64 / (side - 1) as f64;
        let values = (0..side * side).map(|i| f(at(x, i % side), at(y, i / side))).collect();
        Self { x, y, side, values }
    }

    /// The largest finite value; 0 if there is none.
    pub fn max(&self) -> f64 {
        self.values.iter().copied().filter(|v| v.is_finite()).reduce(f64::max).unwrap_or(0.0)
    }

    /// Segments of the line on which the field has this value.
    pub fn contour(&self, level: f64) -> Vec<[Point; 2]> {
        let cells = (0..self.side - 1).flat_map(|row| (0..self.side - 1).map(move |column| (column, row)));
        cells.flat_map(|(column, row)| self.crossing(column, row, level)).collect()
    }

    /// Contour segments inside one cell.
    fn crossing(&self, column: usize, row: usize, level: f64) -> Vec<[Point; 2]> {
        let corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)];
        let values = corners.map(|(c, r)| self.values[r * self.side + c]);
        let edges: Vec<Point> = (0..4)
            .filter(|i| (values[*i] > level) != (values[(i + 1) % 4] > level))
            .map(|i| {
                let (a, b) = (corners[i], corners[(i + 1) % 4]);
                let t = (level - values[i]) / (values[(i + 1) % 4] - values[i]);
                let mix = |a: usize, b: usize| a as f64 + t * (b as f64 - a as f64);
                self.place(mix(a.0, b.0), mix(a.1, b.1))
            })
            .collect();
        edges.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()
    }

    fn place(&self, column: f64, row: f64) -> Point {
        let last = (self.side - 1) as f64;
        (self.x.0 + (self.x.1 - self.x.0) * column / last, self.y.0 + (self.y.1 - self.y.0) * row / last)
    }
}

/// A cloud of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Cloud {
    /// Name in the legend; an empty one is left out.
    pub name: String,
    /// The points.
    pub points: Vec<Point>,
    /// Colour, with its opacity.
    pub colour: Colour,
    /// Radius in pixels.
    pub radius: f64,
}

/// Paths of one kind, each a chain of states.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    /// Name in the legend; an empty one is left out.
    pub name: String,
    /// States of each path, first to last.
    pub lines: Vec<Vec<Point>>,
    /// Colour.
    pub colour: Colour,
    /// Pattern.
    pub dash: Dash,
    /// Mark of the states.
    pub marker: Marker,
}

impl Paths {
    /// Solid paths with the colour and marker of the category.
    pub fn new(name: impl Into<String>, category_index: usize, lines: Vec<Vec<Point>>) -> Self {
        let marker = Marker::category(category_index);
        Self { name: name.into(), lines, colour: category(category_index), dash: Dash::Solid, marker }
    }
}

/// Samples and paths in the plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// Above the plot; may be empty.
    pub title: String,
    /// Horizontal axis; give it a range to crop.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Background field and the levels at which to draw its lines.
    pub field: Option<(Field, Vec<f64>)>,
    /// Points.
    pub clouds: Vec<Cloud>,
    /// Paths, over the points.
    pub paths: Vec<Paths>,
    /// Draw the legend inside the plot.
    pub legend: bool,
}

impl Plane {
    /// Nothing yet, with unnamed axes.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            x: Axis::linear(""),
            y: Axis::linear(""),
            field: None,
            clouds: Vec::new(),
            paths: Vec::new(),
            legend: true,
        }
    }

    fn points(&self) -> Vec<Point> {
        let clouds = self.clouds.iter().flat_map(|c| c.points.iter().copied());
        clouds.chain(self.paths.iter().flat_map(|p| p.lines.iter().flatten().copied())).collect()
    }

    /// The frame, its longer side cut so that both axes have the same unit.
    fn frame(&self, area: Rect, points: &[Point]) -> Frame {
        let mut frame = Frame::place(area, &self.title, (&self.x, &self.y), points);
        let unit = |length: f64, low: f64, high: f64| length / (high - low);
        let (ux, uy) = (unit(frame.plot.w, frame.x.low, frame.x.high), unit(frame.plot.h, frame.y.low, frame.y.high));
        if ux > uy {
            let w = frame.plot.w * uy / ux;
            frame.plot = Rect { x: frame.plot.x + (frame.plot.w - w) / 2.0, w, ..frame.plot };
        } else {
            let h = frame.plot.h * ux / uy;
            frame.plot = Rect { y: frame.plot.y + (frame.plot.h - h) / 2.0, h, ..frame.plot };
        }
        frame
    }

    fn draw_inside(&self, canvas: &mut Canvas, frame: &Frame) {
        if let Some((field, levels)) = &self.field {
            let pen = Stroke::solid(Colour::rgb(0xb8, 0xb8, 0xb8), 0.7);
            for level in levels {
                let line: Vec<[Point; 2]> = field.contour(*level).iter().map(|s| s.map(|p| frame.at(p))).collect();
                canvas.segments(&line, pen);
            }
        }
        for cloud in &self.clouds {
            for point in &cloud.points {
                canvas.circle(frame.at(*point), cloud.radius, Some(cloud.colour), None);
            }
        }
        for paths in &self.paths {
            let pen = Stroke { colour: paths.colour, width: 1.1, dash: paths.dash };
            for line in &paths.lines {
                let places: Vec<Point> = line.iter().map(|p| frame.at(*p)).collect();
                canvas.polyline(&places, pen);
                for place in places {
                    paths.marker.draw(canvas, place, paths.colour, paths.dash != Dash::Solid);
                }
            }
        }
    }
}

impl Plot for Plane {
    fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let points = self.points();
        let corners = self.field.iter().flat_map(|(f, _)| [(f.x.0, f.y.0), (f.x.1, f.y.1)]);
        let extent: Vec<Point> = points.iter().copied().chain(corners).collect();
        let frame = self.frame(area, &extent);
        canvas.clipped(frame.plot, |canvas| self.draw_inside(canvas, &frame));
        frame.finish(canvas, &self.title, (&self.x, &self.y));
        if self.legend {
            let places: Vec<Point> = points.iter().map(|p| frame.at(*p)).collect();
            legend_box(canvas, &self.keys(), frame.plot, &places);
        }
    }

    fn keys(&self) -> Vec<Key> {
        let clouds = self.clouds.iter().map(|c| {
            let colour = Colour { a: 255, ..c.colour };
            Key { name: c.name.clone(), colour, line: None, marker: Marker::Circle }
        });
        let paths = self.paths.iter().map(|p| Key {
            name: p.name.clone(),
            colour: p.colour,
            line: Some((1.1, p.dash)),
            marker: p.marker,
        });
        clouds.chain(paths).filter(|k| !k.name.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contour_of_a_paraboloid_is_a_circle() {
        let field = Field::sample((-2.0, 2.0), (-2.0, 2.0), 81, |x, y| x * x + y * y);
        let segments = field.contour(1.0);
        let length: f64 = segments.iter().map(|[a, b]| (a.0 - b.0).hypot(a.1 - b.1)).sum();
        assert!(segments.iter().flatten().all(|p| (p.0.hypot(p.1) - 1.0).abs() < 1e-3));
        assert!((length - std::f64::consts::TAU).abs() < 0.01, "{length}");
    }
}
