//! Samples in the plane as a picture.

use super::Setup;
use dyweight::Result;
use dyweight::report::samples_in_plane;
use std::path::{Path, PathBuf};

/// Ways drawn.
const WAYS: usize = 12;

/// Draws `samples.svg` and `samples.png`; returns both.
pub fn plane(dir: &Path, setup: &Setup, states: &[f64]) -> Result<Vec<PathBuf>> {
    let (Setup { model, sampler, .. }, samples) = (setup, setup.samples());
    let at = |state: usize, i: usize| {
        let start = (state * samples + i) * 2;
        (states[start], states[start + 1])
    };
    let last = sampler.states() - 1;
    let points = (0..samples).map(|i| at(last, i)).collect();
    let way = |i: usize| (0..=last).map(|state| at(state, i)).collect();
    let ways = (0..samples.min(WAYS)).map(way).collect();
    let title = format!("{} with {} calls", sampler.solver.label(), sampler.nfe);
    let stem = dir.join("samples");
    samples_in_plane(&title, &*model.model, points, ways).draw()?.write(&stem)?;
    Ok(vec![stem.with_extension("svg"), stem.with_extension("png")])
}
