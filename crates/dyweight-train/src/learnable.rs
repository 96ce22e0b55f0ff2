//! What is learned: a list of numbers in named blocks, and the solver they stand for.
//!
//! A method that is learned implements [`Learnable`] and nothing else: the trainer moves the numbers, the trail differentiates the
//! solver made of them, and the solver file keeps what [`Learnable::export`] says.

use crate::methods::gits::Ground;
use dyweight_core::coeff::Coeff;
use dyweight_core::error::Result;
use dyweight_methods::Base;
use dyweight_methods::learned::{Block, Built, Frame};
use dyweight_methods::solver_file::{Body, SolverFile};
use std::sync::Arc;

/// Numbers under a name and in a shape, to be looked at.
pub struct Shown {
    /// The name.
    pub name: &'static str,
    /// Their shape.
    pub shape: Vec<usize>,
    /// The numbers.
    pub values: Vec<f64>,
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

    /// How far from noise to data its states are, where it says so.
    fn progress(&self, _: &[f64]) -> Option<Vec<f64>> {
        None
    }

    /// The handcrafted solver it is built around.
    fn base(&self) -> Option<Base> {
        None
    }

    /// What takes its place before training, if that is searched for.
    fn search(&self, _: &Ground<'_>) -> Result<Option<Arc<dyn Learnable>>> {
        Ok(None)
    }

    /// How many samples of the teacher a search looks at, with the analytical first step or without.
    fn searched(&self, _afs: bool) -> usize {
        0
    }

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
        self.blocks().iter().map(Block::len).sum()
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

pub(crate) fn in_blocks(blocks: &[Block], numbers: &[f64]) -> Vec<Shown> {
    let mut rest = numbers;
    let mut shown = Vec::new();
    for block in blocks {
        let (values, others) = rest.split_at(block.len());
        shown.push(Shown { name: block.name, shape: block.shape.clone(), values: values.to_vec() });
        rest = others;
    }
    shown
}

/// A method whose numbers are learned as its solver file keeps them.
pub struct ByBody(pub Body);

impl Learnable for ByBody {
    fn method(&self) -> &'static str {
        self.0.method()
    }

    fn blocks(&self) -> Vec<Block> {
        self.0.learned().blocks()
    }

    fn build(&self, numbers: &[Coeff], frame: &Frame) -> Result<Built> {
        self.0.learned().build(numbers, frame)
    }

    fn export(&self, numbers: &[f64], frame: &Frame) -> Result<SolverFile> {
        let mut body = self.0.clone();
        body.learned_mut().replace(numbers);
        SolverFile::new(body, frame)
    }

    fn progress(&self, numbers: &[f64]) -> Option<Vec<f64>> {
        self.0.learned().progress(numbers)
    }

    fn base(&self) -> Option<Base> {
        self.0.learned().base()
    }
}
