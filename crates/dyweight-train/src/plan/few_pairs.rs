//! A run of Gauss–Newton without gradients from its options: few pairs, all of them in every iteration.

use super::Defaults;
use crate::gauss_newton::Options;
use crate::recipe::Recipe;
use crate::{Group, Learnable, Loss, Optimiser, Phase, Rate, RateRule, TrainSpec};
use dyweight_core::error::{Error, Result};
use dyweight_solvers::learned::Block;
use dyweight_solvers::spec::train::positive;

/// More parameters than this are learned faster with gradients: an iteration makes a solve of every pair for each.
const MOST_PARAMETERS: usize = 256;

/// Most iterations where pairs grow: enough on a quarter of them, and two each on half and all.
const ITERATIONS: usize = 10;

/// How much of what.
pub(super) fn recipe_of_few(spec: &TrainSpec, learnable: &dyn Learnable, defaults: &Defaults) -> Result<Recipe> {
    let blocks = learnable.blocks();
    let parameters: usize = blocks.iter().map(Block::len).sum();
    if parameters > MOST_PARAMETERS {
        let problem = format!(
            "`optimiser = gauss-newton` is for at most {MOST_PARAMETERS} parameters, and these are {parameters}"
        );
        return Err(Error::conflict(problem, "learn fewer, or use another `optimiser`"));
    }
    let usual = match defaults.grows {
        true => Options { iterations: ITERATIONS, grows: true, ..Options::default() },
        false => Options::default(),
    };
    let iterations = positive("iters", spec.iters.unwrap_or(usual.iterations))?;
    let patience = spec.patience.map_or(Ok(usual.patience), |patience| positive("patience", patience))?;
    let pairs = positive("pairs", spec.pairs.unwrap_or(defaults.few.0))?;
    let group = Group {
        blocks: blocks.iter().map(|block| block.name).collect(),
        optimiser: Optimiser::GaussNewton,
        rate: Rate::of(RateRule::Constant, 1.0, iterations, 0.0),
        decay: 0.0,
        clip: f64::INFINITY,
    };
    Ok(Recipe {
        pairs,
        micro_batch: positive("micro-batch", spec.micro_batch.unwrap_or(defaults.batch))?,
        phases: vec![Phase { iterations, groups: vec![group] }],
        distinct: Some(pairs),
        relax: None,
        seed: spec.seed.unwrap_or(0),
        validate_every: (!spec.is_plain()).then_some(1),
        validation_pairs: positive("validation", spec.validation.unwrap_or(defaults.few.1))?,
        patience: None,
        moments: None,
        gauss_newton: Some(Options { iterations, patience, ..usual }),
    })
}

/// An error where a loss is no sum of squares.
pub(super) fn require_squares(spec: &TrainSpec, loss: &Loss) -> Result<()> {
    if !spec.is_gauss_newton() || loss.is_curved() && loss.joint().is_none() {
        return Ok(());
    }
    let name = spec.loss.as_deref().unwrap_or("l2");
    Err(Error::conflict(
        format!("`optimiser = gauss-newton` is for losses that are sums of squares, and {name} is none"),
        "use another `loss`, or another `optimiser`",
    ))
}
