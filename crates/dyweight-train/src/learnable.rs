//! What is learned: a list of numbers in named blocks, and the solver they stand for.
//!
//! A method that is learned implements [`Learnable`] and nothing else: the trainer moves the numbers, the trail differentiates the
//! solver made of them, and the solver file keeps what [`Learnable::export`] says.

use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::Result;
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::Solver;
use dyweight_core::solver_file::SolverFile;

/// Some of the numbers, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The name, as in traces and recipes.
    pub name: &'static str,
    /// How many numbers.
    pub len: usize,
}

/// Numbers under a name and in a shape, to be looked at.
pub struct Shown {
    /// The name.
    pub name: &'static str,
    /// Their shape.
    pub shape: Vec<usize>,
    /// The numbers.
    pub values: Vec<f64>,
}

/// What of a run stays the same while its numbers are learned.
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
    /// Network calls of one sample.
    pub nfe: usize,
}

/// A solver with the times it runs on.
pub struct Built {
    /// The method.
    pub solver: Box<dyn Solver>,
    /// The grid; recorded where it is learned.
    pub times: Vec<Coeff>,
}

/// A family of solvers, told apart by a list of numbers.
pub trait Learnable: Send + Sync {
    /// The method's name.
    fn method(&self) -> &'static str;

    /// The blocks, in the order of the list.
    fn blocks(&self) -> Vec<Block>;

    /// The solver that `numbers` stand for.
    fn build(&self, numbers: &[Coeff], frame: &Frame) -> Result<Built>;

    /// What a solver file keeps of them.
    fn export(&self, numbers: &[f64], frame: &Frame) -> Result<SolverFile>;

    /// The numbers as a trace shows them.
    fn shown(&self, numbers: &[f64]) -> Vec<Shown> {
        in_blocks(&self.blocks(), numbers)
    }

    /// A gradient as a trace shows it.
    fn shown_gradient(&self, gradient: &[f64]) -> Vec<Shown> {
        in_blocks(&self.blocks(), gradient)
    }
}

impl dyn Learnable {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.blocks().iter().map(|b| b.len).sum()
    }

    /// True if there is nothing to learn.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Numbers as parameters to differentiate in, or as constants.
pub(crate) fn coeffs(numbers: &[f64], record: bool) -> Vec<Coeff> {
    let coeff = |(i, v): (usize, &f64)| if record { Coeff::parameter(*v, i) } else { Coeff::from(*v) };
    numbers.iter().enumerate().map(coeff).collect()
}

fn in_blocks(blocks: &[Block], numbers: &[f64]) -> Vec<Shown> {
    let mut rest = numbers;
    let mut shown = Vec::new();
    for Block { name, len } in blocks {
        let (values, others) = rest.split_at(*len);
        shown.push(Shown { name, shape: vec![*len], values: values.to_vec() });
        rest = others;
    }
    shown
}
