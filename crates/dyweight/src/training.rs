//! Training in one call.

use crate::Solver;
use crate::denoiser::SharedModel;
use crate::error::Result;
use crate::spec::Budget;
use crate::train::{TrainConfig, TrainSpec, Watcher};

/// Learns a solver for a frozen model: alone, and without files. [`TrainSpec::default`] trains as the program does.
///
/// ```
/// use dyweight::mixture::Mixture;
/// use dyweight::{Nfe, train::TrainSpec};
/// let solver = dyweight::train(&Mixture::spiral(), Nfe(3), &TrainSpec { iters: Some(5), ..TrainSpec::default() })?;
/// assert_eq!(solver.sample(&Mixture::spiral(), 0..4)?.samples(), 4);
/// # Ok::<(), dyweight::Error>(())
/// ```
pub fn train(model: &impl SharedModel, budget: Budget, options: &TrainSpec) -> Result<Solver> {
    train_observed(model, budget, options, &mut |_, _| Ok(()))
}

/// The same with every iteration shown; an error ends it.
pub fn train_observed(
    model: &impl SharedModel,
    budget: Budget,
    options: &TrainSpec,
    watch: &mut Watcher<'_>,
) -> Result<Solver> {
    Ok(TrainConfig::of(model, budget, options)?.train(watch)?.file.into())
}
