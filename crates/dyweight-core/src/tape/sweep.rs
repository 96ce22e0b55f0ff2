//! The one reverse sweep.

use super::{Op, Recording, Tape, Var, add_scaled, linear, require_shape, threshold};
use crate::coeff::{Adjoints, Coeff};
use crate::denoiser::{Differentiable, Pullback};
use crate::error::{Error, Result};
use crate::tensor::{Tensor, dot};
use std::borrow::Borrow;

/// ∂L/∂(a batch of the tape), where the sweep begins.
pub struct Cotangent {
    /// The batch.
    pub sample: Var,
    /// ∂L/∂batch.
    pub cotangent: Tensor,
}

/// What a sweep finds.
pub struct Gradients {
    /// ∂L/∂parameter for each sample, `[parameter][sample]`. Their sum over samples, taken in sample order, is the
    /// gradient whatever the split into batches.
    pub parameters: Vec<Vec<f64>>,
    /// ∂L/∂batch for every [`Tape::leaf`], in the order they were made.
    pub leaves: Vec<Tensor>,
}

impl Tape<'_> {
    /// Derivatives of a loss in `parameters` recorded parameters, given its derivatives in some batches of the tape.
    /// Ops are let go as they are passed.
    pub fn gradients(self, seeds: Vec<Cotangent>, parameters: usize) -> Result<Gradients> {
        let mut found = self.gradients_of_each(vec![seeds], parameters)?;
        Ok(found.pop().expect("one for each loss"))
    }

    /// The same of several losses in one sweep: a network call of which nothing was kept is made again once for all.
    pub fn gradients_of_each(mut self, losses: Vec<Vec<Cotangent>>, parameters: usize) -> Result<Vec<Gradients>> {
        match self.recording.take() {
            Some(Recording { model, mut ops, .. }) => {
                swept(model, (ops.len(), std::iter::from_fn(|| ops.pop())), losses, parameters)
            }
            None => Ok(losses.iter().map(|seeds| Gradients::none(seeds, parameters)).collect()),
        }
    }

    /// The same of one loss with the tape kept, to be gone on with.
    pub fn gradients_so_far(&self, seeds: Vec<Cotangent>, parameters: usize) -> Result<Gradients> {
        let Some(Recording { model, ops, .. }) = &self.recording else {
            return Ok(Gradients::none(&seeds, parameters));
        };
        let mut found = swept(*model, (ops.len(), ops.iter().rev()), vec![seeds], parameters)?;
        Ok(found.pop().expect("one for each loss"))
    }
}

impl Gradients {
    /// Of a tape that did not record.
    fn none(seeds: &[Cotangent], parameters: usize) -> Self {
        let samples = seeds.first().map_or(0, |s| s.cotangent.samples());
        Self { parameters: vec![vec![0.0; samples]; parameters], leaves: Vec::new() }
    }
}

/// Runs through `len` ops, the newest first, for each loss.
fn swept<'m, O: Borrow<Op<'m>>>(
    model: &dyn Differentiable,
    (len, ops): (usize, impl Iterator<Item = O>),
    losses: Vec<Vec<Cotangent>>,
    parameters: usize,
) -> Result<Vec<Gradients>> {
    let samples = losses.iter().flatten().next().map_or(0, |s| s.cotangent.samples());
    let mut sweeps: Vec<Sweep> = losses.into_iter().map(|seeds| Sweep::new(len, seeds)).collect();
    for op in ops {
        let op = op.borrow();
        let adjoints: Vec<_> = sweeps.iter_mut().map(|sweep| sweep.states.pop().flatten()).collect();
        let again = match op {
            Op::Evaluate { x, query, step, pullback: None } if adjoints.iter().any(Option::is_some) => {
                let made = model.with_pullback(x.tensor(), &query.levels());
                Some(made.map_err(|e| e.in_step(*step))?.1)
            }
            _ => None,
        };
        for (sweep, adjoint) in sweeps.iter_mut().zip(adjoints) {
            sweep.visit(op, again.as_ref(), adjoint)?;
        }
    }
    Ok(sweeps.into_iter().map(|sweep| sweep.finish(parameters, samples)).collect())
}

struct Sweep {
    /// Adjoint of each recorded batch, made when first needed.
    states: Vec<Option<Tensor>>,
    coeffs: Adjoints,
    /// Newest first.
    leaves: Vec<Tensor>,
}

impl Sweep {
    fn new(ops: usize, seeds: Vec<Cotangent>) -> Self {
        let states = (0..ops).map(|_| None).collect();
        let mut sweep = Self { states, coeffs: Adjoints::default(), leaves: Vec::new() };
        for seed in seeds {
            sweep.add_state(&seed.sample, seed.cotangent);
        }
        sweep
    }

    fn finish(mut self, parameters: usize, samples: usize) -> Gradients {
        self.leaves.reverse();
        Gradients { parameters: self.coeffs.pull_back(parameters, samples), leaves: self.leaves }
    }

    /// Passes on what an op has received; what has received nothing has nothing to pass on. `again` is the way back
    /// through a network call of which nothing was kept.
    fn visit(&mut self, op: &Op<'_>, again: Option<&Pullback<'_>>, adjoint: Option<Tensor>) -> Result<()> {
        match (adjoint, op) {
            (adjoint, Op::Leaf(start)) => {
                let nothing = || Tensor::zeros(start.tensor().shape());
                self.leaves.push(adjoint.unwrap_or_else(nothing));
                Ok(())
            }
            (Some(adjoint), op) => self.step(op, again, &adjoint),
            (None, _) => Ok(()),
        }
    }

    fn step(&mut self, op: &Op<'_>, again: Option<&Pullback<'_>>, adjoint: &Tensor) -> Result<()> {
        match op {
            Op::Combine(terms) => {
                for (coeff, sample) in terms {
                    self.add_coeff(coeff, sample, adjoint);
                    self.add_scaled_state(sample, coeff, adjoint);
                }
            }
            Op::Evaluate { x, query, step, pullback } => {
                let back = pullback.as_ref().or(again).expect("kept, or made again");
                let (to_x, to_told) = back(adjoint).map_err(|e| e.in_step(*step))?;
                require_shape("the derivative in the state, from the model's pullback", x.tensor().shape(), &to_x)?;
                let expected = adjoint.samples() * (1 + query.embedding_shift.len());
                if to_told.len() != expected {
                    let what = "the derivative in the level, from the model's pullback".into();
                    return Err(Error::Shape { what, expected: vec![expected], found: vec![to_told.len()] });
                }
                let told = [&query.level].into_iter().chain(&query.embedding_shift);
                told.zip(to_told.chunks(adjoint.samples().max(1))).for_each(|(c, adjoint)| self.coeffs.add(c, adjoint));
                self.add_state(x, to_x);
            }
            Op::Apply { map, coeffs, x } => {
                let (to_x, to_coeffs) = linear::pull_back(&**map, coeffs, x.tensor(), adjoint);
                coeffs.iter().zip(&to_coeffs).for_each(|(c, adjoint)| self.coeffs.add(c, adjoint));
                self.add_state(x, to_x);
            }
            Op::Leaf(_) => {}
            Op::Threshold { x, how } => self.add_state(x, threshold::pull_back(how, x.tensor(), adjoint)),
        }
        Ok(())
    }

    fn add_coeff(&mut self, coeff: &Coeff, sample: &Var, adjoint: &Tensor) {
        if coeff.is_recorded() {
            let per_sample: Vec<f64> =
                (0..adjoint.samples()).map(|i| dot(adjoint.sample(i), sample.tensor().sample(i))).collect();
            self.coeffs.add(coeff, &per_sample);
        }
    }

    fn add_state(&mut self, sample: &Var, adjoint: Tensor) {
        if let Some(op) = sample.op {
            match &mut self.states[op] {
                Some(sum) => sum.data_mut().iter_mut().zip(adjoint.data()).for_each(|(s, a)| *s += a),
                empty => *empty = Some(adjoint),
            }
        }
    }

    fn add_scaled_state(&mut self, sample: &Var, factor: &Coeff, adjoint: &Tensor) {
        if let Some(op) = sample.op {
            match &mut self.states[op] {
                Some(sum) => add_scaled(sum, factor, adjoint),
                empty => *empty = Some(scaled(factor, adjoint)),
            }
        }
    }
}

fn scaled(factor: &Coeff, v: &Tensor) -> Tensor {
    let mut out = v.clone();
    let len = if factor.per_sample().is_some() { v.sample_len().max(1) } else { v.data().len().max(1) };
    for (i, chunk) in out.data_mut().chunks_mut(len).enumerate() {
        let c = factor.of(i);
        chunk.iter_mut().for_each(|v| *v *= c);
    }
    out
}
