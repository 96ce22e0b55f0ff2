//! Samples in the plane as a picture.

use super::setup::Sampling;
use dyweight::Result;
use dyweight::models::LoadedModel;
use dyweight::report::samples_in_plane;
use std::path::{Path, PathBuf};

/// Ways drawn.
const WAYS: usize = 12;

/// Draws `samples.svg` and `samples.png`; returns both.
pub fn plane(
    dir: &Path,
    model: &LoadedModel,
    setup: &Sampling,
    states: &[f64],
    samples: usize,
) -> Result<Vec<PathBuf>> {
    let at = |state: usize, i: usize| {
        let start = (state * samples + i) * 2;
        (states[start], states[start + 1])
    };
    let last = setup.states() - 1;
    let points = (0..samples).map(|i| at(last, i)).collect();
    let way = |i: usize| (0..=last).map(|state| at(state, i)).collect();
    let ways = (0..samples.min(WAYS)).map(way).collect();
    let title = format!("{} with {} calls", setup.solver.label(), setup.nfe);
    let stem = dir.join("samples");
    samples_in_plane(&title, &*model.model, points, ways).draw()?.write(&stem)?;
    Ok(vec![stem.with_extension("svg"), stem.with_extension("png")])
}
