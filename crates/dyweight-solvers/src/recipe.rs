//! How a learned method is taught, as data: which parameters are moved, by which rule, against which states of the
//! teacher.

use crate::learnable::Learnable;
use crate::rate::{Rate, RateRule};
use crate::spec::train::{TrainSpec, finite_above, positive};
use dyweight_core::error::Result;
use dyweight_core::noise::Stream;
use serde::{Deserialize, Serialize};

/// The rule by which a gradient moves parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// Adam without weight decay.
    #[default]
    Adam,
    /// Adam with decoupled weight decay.
    AdamW,
    /// RMSprop with momentum.
    RmsProp,
    /// Plain descent.
    Sgd,
    /// Sign descent with momentum and decoupled weight decay.
    Lion,
    /// Second-order descent: its step comes of more than a gradient (`curvature.rs`).
    Newton,
    /// Gauss–Newton on whole solves, which takes no gradient (`gauss_newton/`).
    #[serde(rename = "gauss-newton")]
    GaussNewton,
}

#[cfg(feature = "clap")]
impl Optimiser {
    /// Reads a rule from a command line.
    pub fn parser() -> impl clap::builder::TypedValueParser<Value = Self> {
        crate::spec::one_of::<Self>(&["adam", "adamw", "rmsprop", "sgd", "lion", "newton", "gauss-newton"])
    }
}

/// A stretch of iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How many.
    pub iterations: usize,
    /// What is moved in them, and how.
    pub groups: Vec<Group>,
}

/// Blocks that are moved together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Their names.
    pub blocks: Vec<&'static str>,
    /// The rule.
    pub optimiser: Optimiser,
    /// The rate over the phase.
    pub rate: Rate,
    /// Decoupled weight decay, for the rules that have it.
    pub decay: f64,
    /// Largest norm of the group's gradient.
    pub clip: f64,
}

impl Group {
    /// Where the group's parameters stand in the list.
    pub fn places(&self, learnable: &dyn Learnable) -> Vec<usize> {
        let mut first = 0;
        let mut places = Vec::new();
        for block in learnable.blocks() {
            if self.blocks.contains(&block.name) {
                places.extend(first..first + block.len());
            }
            first += block.len();
        }
        places
    }
}

/// What the options say of the optimisation, for whichever groups a method has.
pub struct Common {
    /// Iterations in all.
    pub iterations: usize,
    /// The highest rate.
    pub lr: f64,
    /// Fraction of them that warm up.
    pub warm_up: f64,
    /// How the rate goes.
    pub rule: RateRule,
    /// The rule.
    pub optimiser: Optimiser,
    /// Weight decay.
    pub decay: f64,
    /// Largest norm of a group's gradient.
    pub clip: f64,
}

impl Common {
    /// All iterations, all blocks moved together.
    pub fn phase(&self, blocks: &[&'static str]) -> Phase {
        Phase { iterations: self.iterations, groups: vec![self.group(blocks, self.iterations)] }
    }

    /// Blocks that are moved together for so many iterations.
    pub fn group(&self, blocks: &[&'static str], iterations: usize) -> Group {
        Group {
            blocks: blocks.to_vec(),
            optimiser: self.optimiser,
            rate: Rate::of(self.rule, self.lr, iterations, self.warm_up),
            decay: self.decay,
            clip: self.clip,
        }
    }
}

/// What a student is compared with, and when.
pub struct Teaching {
    /// Which states of the teacher.
    pub supervision: Supervision,
    /// Step by step, where it is.
    pub stepwise: Option<Stepwise>,
    /// The weight of the end beside the teacher's nearest states, where those are compared.
    pub near: Option<f64>,
    /// True if each of the teacher's steps is halved on the EDM grid.
    pub halved: bool,
}

/// Which states of the teacher the student is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supervision {
    /// The end alone.
    #[default]
    Endpoint,
    /// The end, and the state after every `stride` steps of the teacher, which runs on a refinement of the student's
    /// grid.
    Path {
        /// Teacher steps per student step.
        stride: usize,
    },
    /// All states, of which the student is compared with the nearest.
    Near,
}

impl Supervision {
    /// Teacher steps between two states that are kept; none if the end alone is.
    pub fn stride(self) -> Option<usize> {
        match self {
            Supervision::Endpoint => None,
            Supervision::Path { stride } => Some(stride.max(1)),
            Supervision::Near => Some(1),
        }
    }
}

/// How one step goes on from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// With all it came from.
    Attached,
    /// As a constant.
    Detached,
    /// From the teacher's state.
    Teacher,
}

/// How a student is trained step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stepwise {
    /// How one step goes on from another.
    pub link: Link,
    /// When the parameters move.
    pub updates: Updates,
}

/// When a step-by-step training moves the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Updates {
    /// After every step.
    #[default]
    Each,
    /// After the last step, by its loss alone.
    Last,
}

/// How a budget counts calls that could be made side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountParallel {
    /// All of them: what is really called.
    #[default]
    Each,
    /// Once, as EPD's authors do.
    Once,
}

/// How far noise moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relaxation {
    /// Training pairs, visited again and again.
    pub pairs: usize,
    /// η at the start.
    pub step: f64,
    /// ρ.
    pub radius: f64,
}

impl Relaxation {
    /// Visits of a round.
    pub fn visits(&self, batch: usize) -> usize {
        self.pairs.div_ceil(batch)
    }

    /// Which batch an iteration visits.
    pub fn batch(&self, iteration: usize, batch: usize, seed: u64) -> std::ops::Range<usize> {
        let visits = self.visits(batch);
        let mut order: Vec<usize> = (0..visits).collect();
        let mut stream = Stream::labelled(seed, &format!("round {}", iteration / visits));
        for i in (1..visits).rev() {
            order.swap(i, (stream.uniform() * (i + 1) as f64) as usize);
        }
        let first = order[iteration % visits] * batch;
        first..(first + batch).min(self.pairs)
    }

    /// True after the last visit of a round.
    pub fn ends_round(&self, iteration: usize, batch: usize) -> bool {
        (iteration + 1).is_multiple_of(self.visits(batch))
    }
}

/// Whether, and how far, the noise of pairs moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct RelaxOptions {
    /// The noise of each pair is a variable inside a small ball [true for ld3, false for s4s].
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "LD3 and S4S"))]
    pub relax: Option<bool>,
    /// Step of the noise [12 by the number of steps].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "LD3 and S4S"))]
    pub noise_step: Option<f64>,
    /// Radius in which the noise of a pair stays [0.001 times a sample's parameters by the steps squared].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "LD3 and S4S"))]
    pub noise_radius: Option<f64>,
}

impl RelaxOptions {
    /// The relaxation of a run, if there is one; `usual` decides where nothing was said.
    pub(crate) fn of(spec: &TrainSpec, usual: bool, steps: usize, params: usize) -> Result<Option<Relaxation>> {
        let own = &spec.relax;
        if !own.relax.unwrap_or(usual) {
            return Ok(None);
        }
        // The released code rounds both.
        let rounded = |v: f64| (v * 1e8).round() / 1e8;
        let steps = steps as f64;
        Ok(Some(Relaxation {
            pairs: positive("pairs", spec.pairs.unwrap_or(RELAXED_PAIRS))?,
            step: finite_above("noise-step", own.noise_step.unwrap_or(rounded(12.0 / steps)), 0.0)?,
            radius: finite_above(
                "noise-radius",
                own.noise_radius.unwrap_or(rounded(1e-3 * params as f64 / (steps * steps))),
                0.0,
            )?,
        }))
    }
}

/// Pairs of the published recipe.
pub(crate) const RELAXED_PAIRS: usize = 50;
