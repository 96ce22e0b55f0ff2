//! Samples in the plane as a picture: the data's density, the samples, and the ways some of them took.

use super::{Axis, Cloud, Field, Figure, Marker, Paths, Plane, Point, category};
use dyweight_core::denoiser::Model;

/// Half the width of the drawn square.
const REACH: f64 = 1.1;

/// More points are not drawn.
const MOST_POINTS: usize = 10_000;

/// Points over the contours of the model's density, where that is known, and the ways of a few of them.
pub fn samples_in_plane(title: &str, model: &dyn Model, points: Vec<Point>, ways: Vec<Vec<Point>>) -> Figure {
    let mut plane = Plane::new(title);
    plane.x = Axis::linear("x").range(-REACH, REACH);
    plane.y = Axis::linear("y").range(-REACH, REACH);
    if let Some(density) = model.density() {
        let field = Field::sample((-REACH, REACH), (-REACH, REACH), 160, |x, y| density(&[x, y]));
        let levels = [0.03, 0.12, 0.3, 0.6].map(|f| f * field.max()).to_vec();
        plane.field = Some((field, levels));
    }
    // More would make a drawing of hundreds of megabytes, and a cloud of one colour.
    let (all, mut points) = (points.len(), points);
    points.truncate(MOST_POINTS);
    let radius = if points.len() > 2000 { 0.9 } else { 1.6 };
    let name =
        if all > MOST_POINTS { format!("first {MOST_POINTS} of {all} samples") } else { format!("{all} samples") };
    plane.clouds.push(Cloud { name, points, colour: category(0).fade(0.55), radius });
    plane.paths.push(Paths { marker: Marker::None, ..Paths::new("ways of the first", 1, ways) });
    Figure::single(plane, 420.0, 420.0)
}
