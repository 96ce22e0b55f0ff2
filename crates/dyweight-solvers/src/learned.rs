//! Learned solvers: parameters in named blocks, and the solver they stand for.
//!
//! A method that is learned is a [`LearnedSolver`]: options that stay, parameters that training moves, and how both
//! become a solver with its times. The same `build` serves sampling, where the parameters are constants, and training,
//! where they are parameters; the solver file writes the type down as it is.

use crate::Base;
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::Solver;

/// Some of the parameters, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The name, as in traces and recipes.
    pub name: &'static str,
    /// Its shape, as in traces.
    pub shape: Vec<usize>,
}

impl Block {
    /// A block of a shape.
    pub fn new(name: &'static str, shape: &[usize]) -> Self {
        Self { name, shape: shape.to_vec() }
    }

    /// How many parameters.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What of a run is not learned.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The nominal grid.
    pub grid: Grid,
    /// The rule it follows.
    pub schedule: Schedule,
    /// Its smallest and largest level.
    pub range: (f64, f64),
    /// Analytical first step.
    pub afs: bool,
    /// What the model predicts.
    pub prediction: Prediction,
    /// True if data lie in [−1, 1]: data predictions are thresholded where the method's base does so.
    pub bounded: bool,
    /// Shape of a sample, where the model is known.
    pub shape: Option<[usize; 3]>,
    /// Numbers of the model's bottleneck feature, where it has one.
    pub feature: Option<usize>,
    /// Numbers of the network's embedding of the noise level, where it can be shifted.
    pub embedding: Option<usize>,
    /// Network calls of one sample.
    pub nfe: usize,
}

impl Frame {
    /// `steps` steps of a rule with one call each and no analytical one, for a model of which nothing more is known.
    pub fn new(schedule: Schedule, steps: usize, range: (f64, f64), prediction: Prediction) -> Result<Self> {
        let (afs, bounded, shape, feature, embedding) = (false, false, None, None, None);
        let grid = schedule.grid(steps, range)?;
        Ok(Self { grid, schedule, range, afs, prediction, bounded, shape, feature, embedding, nfe: steps })
    }

    /// The frame of a solver with one evaluation per step and as many network calls, of which an evaluation costs
    /// `calls`; none where the rule has no grid of that length.
    pub fn of_single_calls(&self, calls: usize) -> Result<Option<Self>> {
        let steps = self.nfe / calls.max(1) + usize::from(self.afs);
        if self.schedule.fixed_steps().is_some_and(|fixed| fixed != steps) || steps == 0 {
            return Ok(None);
        }
        Ok(Some(Self { grid: self.schedule.grid(steps, self.range)?, ..self.clone() }))
    }
}

/// A solver with the times it runs on.
pub struct Built {
    /// The method.
    pub solver: Box<dyn Solver>,
    /// The grid; recorded where it is learned.
    pub times: Vec<Coeff>,
}

/// A learned solver: its options and its parameters.
pub trait LearnedSolver {
    /// Intervals of the grid it is for; none if any number will do.
    fn steps(&self) -> Option<usize>;

    /// The blocks, in the order of the parameters; none if no gradient moves the method.
    fn blocks(&self) -> Vec<Block> {
        Vec::new()
    }

    /// The numbers of all blocks.
    fn params(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Puts other parameters in their place.
    fn replace(&mut self, _params: &[f64]) {}

    /// An error unless options and shapes fit together.
    fn check(&self) -> Result<()>;

    /// The solver that `params` stand for under these options.
    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built>;

    /// How far from noise to data the states after each step are, 0 to 1, where the method says so and its targets
    /// follow.
    fn progress(&self, _: &[f64]) -> Option<Vec<f64>> {
        None
    }

    /// Where the states of a run on these times really are.
    fn realised_times(&self, nominal: &[f64], _guidance: Option<f64>) -> Result<Vec<f64>> {
        Ok(nominal.to_vec())
    }

    /// The handcrafted solver it is built around.
    fn base(&self) -> Option<Base> {
        None
    }

    /// What a report of training says besides.
    fn facts(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }

    /// What is unlike solvers known to be good.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// What there is to say of the options, in a few words.
    fn summary(&self) -> String {
        String::new()
    }
}

impl dyn LearnedSolver + '_ {
    /// The solver of the method's own parameters.
    pub fn fixed(&self, frame: &Frame) -> Result<Built> {
        if let Some(steps) = self.steps().filter(|steps| *steps != frame.grid.steps()) {
            let what = "weights of the learned solver: one row for every step of the grid".into();
            return Err(Error::Shape { what, expected: vec![frame.grid.steps()], found: vec![steps] });
        }
        let params: Vec<Coeff> = self.params().into_iter().map(Coeff::from).collect();
        self.build(&params, frame)
    }
}

/// Cuts parameters into the given lengths.
pub fn split<T>(mut params: &[T], lengths: impl IntoIterator<Item = usize>) -> Vec<&[T]> {
    let mut parts = Vec::new();
    for length in lengths {
        let (part, rest) = params.split_at(length.min(params.len()));
        parts.push(part);
        params = rest;
    }
    parts
}

/// An error unless all parameters are finite.
pub fn require_finite(what: &str, params: &[f64]) -> Result<()> {
    match params.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(Error::NotFinite { what: what.into(), index, value: params[index] }),
        None => Ok(()),
    }
}

/// An error unless a list has this many entries.
pub(crate) fn require_len(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Shape { what: what.into(), expected: vec![expected], found: vec![found] })
}
