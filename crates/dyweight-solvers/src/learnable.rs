//! What is learned: a list of parameters in named blocks, and the solver they stand for.
//!
//! A method that is learned implements [`Learnable`] and nothing else: the trainer moves the parameters, the tape
//! differentiates the solver made of them, and the solver file keeps what [`Learnable::export`] says.

use crate::Base;
use crate::learned::{Block, Built, Frame};
use crate::method::MethodParams;
use crate::solver_file::SolverFile;
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::Denoiser;
use dyweight_core::error::Result;
use dyweight_core::tensor::Tensor;
use std::ops::Range;
use std::sync::Arc;

/// Numbers under a name and in a shape, to be looked at.
pub struct Shown {
    /// The name.
    pub name: &'static str,
    /// Their shape.
    pub shape: Vec<usize>,
    /// The parameters.
    pub values: Vec<f64>,
}

/// What a search has of a run.
pub trait Ground: Sync {
    /// What is not learned.
    fn frame(&self) -> &Frame;

    /// Network calls of an evaluation.
    fn calls(&self) -> usize;

    /// Noise of so many samples, or of those that were given, and which pairs make the last batch.
    fn noise(&self, samples: usize) -> Result<(Tensor, Range<usize>)>;

    /// What `f` makes of the samples part by part, of which the first is pair `first`.
    fn in_parts(&self, noise: &Tensor, first: usize, f: &Solve) -> Result<Tensor>;

    /// An error once the search is to stop.
    fn onward(&self) -> Result<()>;

    /// What the root finds, for all processes.
    fn agreed(&self, find: &mut dyn FnMut() -> Result<Vec<usize>>) -> Result<Vec<usize>>;
}

/// A row for each sample of a part, from the model and the noise.
pub type Solve<'s> = dyn Fn(&dyn Denoiser, &Tensor) -> Result<Tensor> + Sync + 's;

/// A family of solvers, told apart by a list of parameters.
pub trait Learnable: Send + Sync {
    /// The method's name.
    fn method(&self) -> &'static str;

    /// The blocks, in the order of the list; none if no gradient moves the method.
    fn blocks(&self) -> Vec<Block> {
        Vec::new()
    }

    /// The solver that `params` stand for.
    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built>;

    /// What a solver file keeps of them.
    fn export(&self, params: &[f64], frame: &Frame) -> Result<SolverFile>;

    /// How far from noise to data its states are, where it says so.
    fn progress(&self, _: &[f64]) -> Option<Vec<f64>> {
        None
    }

    /// The handcrafted solver it is built around.
    fn base(&self) -> Option<Base> {
        None
    }

    /// What takes its place before training, if that is searched for.
    fn search(&self, _: &dyn Ground) -> Result<Option<Arc<dyn Learnable>>> {
        Ok(None)
    }

    /// How many samples of the teacher a search looks at, with the analytical first step or without.
    fn searched(&self, _afs: bool) -> usize {
        0
    }

    /// The parameters as a trace shows them.
    fn shown(&self, params: &[f64]) -> Vec<Shown> {
        in_blocks(&self.blocks(), params)
    }

    /// A gradient as a trace shows it.
    fn shown_gradient(&self, gradient: &[f64]) -> Vec<Shown> {
        in_blocks(&self.blocks(), gradient)
    }
}

impl dyn Learnable {
    /// How many parameters there are.
    pub fn len(&self) -> usize {
        self.blocks().iter().map(Block::len).sum()
    }

    /// True if there is nothing to learn.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Numbers as parameters to differentiate in, or as constants.
pub fn coeffs(params: &[f64], record: bool) -> Vec<Coeff> {
    let coeff = |(i, v): (usize, &f64)| if record { Coeff::parameter(*v, i) } else { Coeff::from(*v) };
    params.iter().enumerate().map(coeff).collect()
}

pub(crate) fn in_blocks(blocks: &[Block], params: &[f64]) -> Vec<Shown> {
    let mut rest = params;
    let mut shown = Vec::new();
    for block in blocks {
        let (values, others) = rest.split_at(block.len());
        shown.push(Shown { name: block.name, shape: block.shape.clone(), values: values.to_vec() });
        rest = others;
    }
    shown
}

/// A method whose parameters are learned as its solver file keeps them.
pub struct ByParams(pub MethodParams);

impl Learnable for ByParams {
    fn method(&self) -> &'static str {
        self.0.method()
    }

    fn blocks(&self) -> Vec<Block> {
        self.0.learned().blocks()
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        self.0.learned().build(params, frame)
    }

    fn export(&self, params: &[f64], frame: &Frame) -> Result<SolverFile> {
        let mut body = self.0.clone();
        body.learned_mut().replace(params);
        SolverFile::new(body, frame)
    }

    fn progress(&self, params: &[f64]) -> Option<Vec<f64>> {
        self.0.learned().progress(params)
    }

    fn base(&self) -> Option<Base> {
        self.0.learned().base()
    }
}
