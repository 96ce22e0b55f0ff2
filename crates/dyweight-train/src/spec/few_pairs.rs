//! A run of Gauss–Newton without gradients from its options: few pairs, all of them in every iteration.

use super::{Defaults, TrainSpec, positive};
use crate::gauss_newton::Options;
use crate::learnable::Learnable;
use crate::methods::{Method, Teaching};
use crate::rate::{Rate, RateRule};
use crate::recipe::{Group, Phase, Recipe};
use crate::{Loss, Optimiser};
use dyweight_core::error::{Error, Result};
use dyweight_solvers::learned::Block;
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use serde::{Deserialize, Serialize};

/// More parameters than this are learned faster with gradients: an iteration makes a solve of every pair for each.
pub const MOST_PARAMETERS: usize = 256;

/// How much of what, where nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainRecipe {
    /// Few pairs, no gradients, the best of many starts.
    Few,
    /// The paper's: many pairs, Adam, one start.
    Paper,
}

impl TrainSpec {
    /// True if no gradient is taken.
    pub fn is_gauss_newton(&self) -> bool {
        self.optimiser == Some(Optimiser::GaussNewton)
    }

    /// True if few pairs are used well: no gradients, and a start that is chosen.
    pub fn is_few(&self) -> bool {
        self.recipe.map_or(self.is_gauss_newton() || self.leaves_it_open(), |recipe| recipe == TrainRecipe::Few)
    }

    /// True if nothing is said that only descent by gradients has, of a method whose authors recommend nothing else.
    fn leaves_it_open(&self) -> bool {
        let of_descent = self.batch.is_some()
            || self.accumulate.is_some()
            || self.lr.is_some()
            || self.rate.is_some()
            || self.warm_up.is_some()
            || self.weight_decay.is_some()
            || self.clip.is_some()
            || self.validate_every.is_some()
            || self.optimiser.is_some();
        let squares = self.loss.as_deref().is_none_or(|loss| !["l1", "frechet"].contains(&loss));
        let wider = self.dyweight.span.is_some() || self.init.is_some();
        let whole = self.supervision.as_deref().is_none_or(|s| s == "endpoint") && self.noise.is_none();
        self.method_name() == "dyweight" && !self.is_plain() && !of_descent && squares && !wider && whole
    }

    /// True if something of the start is left to choose: never of a solver that is given, nor where it would change what is compared.
    pub(crate) fn is_open(&self, budget: Budget, schedule: &ScheduleSpec) -> bool {
        let at_the_end = self.supervision.as_deref().is_none_or(|s| s == "endpoint");
        let chosen_for = self.method_name() == "dyweight" && self.init.is_none() && at_the_end && !self.is_plain();
        let left = self.afs.is_none() && matches!(budget, Budget::Nfe(_)) || self.order.is_none();
        self.choose_start.unwrap_or(self.is_few()) && chosen_for && (left || !schedule.names_a_rule())
    }

    /// The options with the rule of descent that a recipe of few pairs has.
    pub(super) fn with_recipe(&self, method: &dyn Method) -> Self {
        let chosen = self.is_few() && method.learns_by_gradients();
        Self { optimiser: self.optimiser.or(chosen.then_some(Optimiser::GaussNewton)), ..self.clone() }
    }

    /// The options with those of the method's recipe. Of a recipe for gradients only what is compared is left.
    pub(super) fn with_usual(&self, method: &dyn Method) -> Result<Self> {
        if !self.is_gauss_newton() {
            return Ok(method.usual(self.clone()));
        }
        self.refuse_descent()?;
        let mut still = self.clone();
        still.relax.relax = Some(false);
        let usual = method.usual(still);
        let (batch, lr, rate, relax) = (None, None, None, self.relax.clone());
        Ok(Self { batch, lr, rate, relax, iters: self.iters, validation: self.validation, ..usual })
    }

    /// An error if an option is given that whole solves do not have.
    fn refuse_descent(&self) -> Result<()> {
        let given = [
            ("batch", self.batch.is_some(), "every iteration takes all pairs: give --pairs, or --micro-batch"),
            ("accumulate", self.accumulate.is_some(), "every iteration takes all pairs: give --pairs"),
            ("lr", self.lr.is_some(), "its steps are damped, and the damping is found by validation"),
            ("rate", self.rate.is_some(), "its steps are damped, and the damping is found by validation"),
            ("warm-up", self.warm_up.is_some(), "its steps are damped, and the damping is found by validation"),
            ("weight-decay", self.weight_decay.is_some(), "its steps are damped instead"),
            ("clip", self.clip.is_some(), "its steps are damped instead"),
            ("validate-every", self.validate_every.is_some(), "every iteration is validated"),
            ("relax", self.relax.relax == Some(true), "moving noise needs gradients"),
        ];
        let Some((option, _, why)) = given.iter().find(|(_, given, _)| *given) else { return Ok(()) };
        let problem = format!("--optimiser gauss-newton has no --{option}: {why}");
        Err(Error::Conflict { problem, hint: format!("leave --{option} out") })
    }

    /// A method's comparison, on whole solves.
    pub(super) fn taught_whole(&self, taught: Teaching) -> Result<Teaching> {
        let step_by_step = taught.stepwise.is_some() || taught.near.is_some();
        if !(self.is_gauss_newton() && step_by_step) {
            return Ok(taught);
        }
        Ok(Teaching { supervision: self.supervised()?, stepwise: None, near: None, halved: false })
    }

    /// How much of what.
    pub(super) fn recipe_of_few(&self, learnable: &dyn Learnable, defaults: &Defaults) -> Result<Recipe> {
        let blocks = learnable.blocks();
        let parameters: usize = blocks.iter().map(Block::len).sum();
        if parameters > MOST_PARAMETERS {
            let problem = format!(
                "--optimiser gauss-newton is for at most {MOST_PARAMETERS} parameters, and these are {parameters}"
            );
            return Err(Error::Conflict { problem, hint: "learn fewer, or use another --optimiser".into() });
        }
        let usual = Options::default();
        let iterations = positive("iters", self.iters.unwrap_or(usual.iterations))?;
        let patience = self.patience.map_or(Ok(usual.patience), |patience| positive("patience", patience))?;
        let pairs = positive("pairs", self.pairs.unwrap_or(defaults.few.0))?;
        let group = Group {
            blocks: blocks.iter().map(|block| block.name).collect(),
            optimiser: Optimiser::GaussNewton,
            rate: Rate::of(RateRule::Constant, 1.0, iterations, 0.0),
            decay: 0.0,
            clip: f64::INFINITY,
        };
        Ok(Recipe {
            pairs,
            micro_batch: positive("micro-batch", self.micro_batch.unwrap_or(defaults.batch))?,
            phases: vec![Phase { iterations, groups: vec![group] }],
            distinct: Some(pairs),
            relax: None,
            seed: self.seed.unwrap_or(0),
            validate_every: (!self.is_plain()).then_some(1),
            validation_pairs: positive("validation", self.validation.unwrap_or(defaults.few.1))?,
            patience: None,
            moments: None,
            gauss_newton: Some(Options { iterations, patience, ..usual }),
        })
    }

    /// An error where a loss is no sum of squares.
    pub(super) fn require_squares(&self, loss: &Loss) -> Result<()> {
        if !self.is_gauss_newton() || loss.is_curved() && loss.joint().is_none() {
            return Ok(());
        }
        let name = self.loss.as_deref().unwrap_or("l2");
        Err(Error::Conflict {
            problem: format!("--optimiser gauss-newton is for losses that are sums of squares, and {name} is none"),
            hint: "use another --loss, or another --optimiser".into(),
        })
    }
}
