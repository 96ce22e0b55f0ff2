//! Words of a user: a training configuration in TOML with the grid's options and the budget, lists of seeds, names.
//!
//! The first line is a list of seeds, the rest is TOML.
#![no_main]

use dyweight::denoiser::Model;
use dyweight::mixture::Mixture;
use dyweight::spec::{Budget, ScheduleSpec, Seeds, SolverSpec};
use dyweight::study::training_loss;
use dyweight::train::{TrainSpec, plan};
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

/// A few lists of seeds are long; iterating over millions only costs time.
const SHORT: usize = 1 << 16;
/// Grids of more steps, up to the 100 000 that are allowed, are asked for by no one and cost seconds by right.
const MOST_STEPS: usize = 4096;
/// What is refused anyway.
const REFUSED: usize = 100_000;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (seeds, rest) = text.split_once('\n').unwrap_or((text, ""));
    if let Some(seeds) = shown(Seeds::parse(seeds))
        && seeds.len() < SHORT
    {
        assert_eq!(seeds.iter().count(), seeds.len());
    }
    let Ok(mut table) = rest.parse::<toml::Table>() else { return };
    let mut part = |names: &[&str]| {
        let part: toml::Table = names.iter().filter_map(|name| table.remove_entry(*name)).collect();
        toml::Value::Table(part)
    };
    let grid = part(&["schedule", "rho", "sigma-min", "sigma-max", "sigmas", "beta-table", "shift", "image-size"]);
    let solver = part(&["solver", "predict", "lower-order-final", "variant", "r", "threshold"]);
    let budget = part(&["steps", "nfe"]);
    let model = part(&["flow"]);
    let Some(grid) = shown(grid.try_into::<ScheduleSpec>()) else { return };
    if let Some(solver) = shown(solver.try_into::<SolverSpec>()) {
        for bounded in [true, false] {
            let _ = shown(solver.build(bounded));
        }
    }
    let bounded = |n: usize| if n > REFUSED { n } else { n.min(MOST_STEPS) };
    let count = |name: &str| budget.get(name).and_then(toml::Value::as_integer).map(|n| bounded(n as usize));
    let Some(mut train) = shown(toml::Value::Table(table).try_into::<TrainSpec>()) else { return };
    train.teacher_nfe = train.teacher_nfe.map(bounded);
    train.teacher_steps = train.teacher_steps.map(bounded);
    train.substeps = train.substeps.filter(|n| *n > REFUSED || *n < 16);
    let budget = match (count("steps"), count("nfe")) {
        (Some(steps), _) => Budget::Steps(steps),
        (None, nfe) => Budget::Nfe(nfe.unwrap_or(3)),
    };
    // Files are fuzzed by other targets.
    train.inception = train.inception.filter(|path| !path.exists());
    if train.init.as_deref().is_some_and(|init| init.contains(['.', '/', ':'])) {
        return;
    }
    let mixture = if model.get("flow").is_some() { Mixture::spiral().as_flow() } else { Mixture::spiral() };
    let mixture: Arc<dyn Model> = Arc::new(mixture);
    let Some(loss) = shown(training_loss(&train, &mixture)) else { return };
    let Some(plan) = shown(plan::plan(&train, &*mixture, &grid, budget, loss)) else { return };
    let _ = shown(plan::teacher(&train, &*mixture, &plan));
    let _ = shown(plan::inputs(&train, &*mixture, None));
}));
