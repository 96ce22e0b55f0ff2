//! Samples in the plane as a picture: the data's density, the samples, and the ways some of them took.

use super::setup::Setup;
use dyweight::Result;
use dyweight::report::{Axis, Cloud, Field, Figure, Marker, Paths, Plane, category};
use dyweight::spec::LoadedModel;
use std::path::{Path, PathBuf};

/// Half the width of the drawn square.
const REACH: f64 = 1.1;
/// Ways drawn.
const WAYS: usize = 12;

/// Draws `samples.svg` and `samples.png`; returns both.
pub fn plane(
    dir: &Path,
    model: &LoadedModel,
    setup: &Setup<'_>,
    states: &[f64],
    samples: usize,
) -> Result<Vec<PathBuf>> {
    let at = |state: usize, i: usize| {
        let start = (state * samples + i) * 2;
        (states[start], states[start + 1])
    };
    let last = setup.states() - 1;
    let mut plane = Plane::new(format!("{} with {} calls", setup.solver.label(), setup.nfe));
    plane.x = Axis::linear("x").range(-REACH, REACH);
    plane.y = Axis::linear("y").range(-REACH, REACH);
    if let Some(density) = model.model.density() {
        let field = Field::sample((-REACH, REACH), (-REACH, REACH), 160, |x, y| density(&[x, y]));
        let levels = [0.03, 0.12, 0.3, 0.6].map(|f| f * field.max()).to_vec();
        plane.field = Some((field, levels));
    }
    let points: Vec<_> = (0..samples).map(|i| at(last, i)).collect();
    let radius = if samples > 2000 { 0.9 } else { 1.6 };
    plane.clouds.push(Cloud { name: format!("{samples} samples"), points, colour: category(0).fade(0.55), radius });
    let way = |i: usize| (0..=last).map(|state| at(state, i)).collect();
    let ways = (0..samples.min(WAYS)).map(way).collect();
    plane.paths.push(Paths { marker: Marker::None, ..Paths::new("ways of the first", 1, ways) });
    let stem = dir.join("samples");
    Figure::single(plane, 420.0, 420.0).draw()?.write(&stem)?;
    Ok(vec![stem.with_extension("svg"), stem.with_extension("png")])
}
