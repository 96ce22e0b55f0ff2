//! The one reverse sweep.

use super::{Op, Tape, Var, add_scaled, linear, require_shape, threshold};
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
    pub fn gradients(mut self, seeds: Vec<Cotangent>, parameters: usize) -> Result<Gradients> {
        let Some(mut recording) = self.recording.take() else { return Ok(Gradients::none(&seeds, parameters)) };
        let (model, len) = (recording.model, recording.ops.len());
        let last = || {
            let mut op = recording.ops.pop()?;
            let kept = if let Op::Evaluate { pullback, .. } = &mut op { pullback.take() } else { None };
            Some((op, kept))
        };
        swept(model, (len, std::iter::from_fn(last)), seeds, parameters)
    }

    /// The same with the tape kept, to be gone on with. Every network call is made anew, whatever was kept of it.
    pub fn gradients_so_far(&self, seeds: Vec<Cotangent>, parameters: usize) -> Result<Gradients> {
        let Some(recording) = &self.recording else { return Ok(Gradients::none(&seeds, parameters)) };
        let ops = recording.ops.iter().rev().map(|op| (op, None));
        swept(recording.model, (recording.ops.len(), ops), seeds, parameters)
    }
}

impl Gradients {
    /// Of a tape that did not record.
    fn none(seeds: &[Cotangent], parameters: usize) -> Self {
        let samples = seeds.first().map_or(0, |s| s.cotangent.samples());
        Self { parameters: vec![vec![0.0; samples]; parameters], leaves: Vec::new() }
    }
}

/// Runs through `len` ops, the newest first, each with what was kept of its network call.
fn swept<'m, O: Borrow<Op<'m>>>(
    model: &dyn Differentiable,
    (len, ops): (usize, impl Iterator<Item = (O, Option<Pullback<'m>>)>),
    seeds: Vec<Cotangent>,
    parameters: usize,
) -> Result<Gradients> {
    let samples = seeds.first().map_or(0, |s| s.cotangent.samples());
    let states = (0..len).map(|_| None).collect();
    let mut sweep = Sweep { states, coeffs: Adjoints::default(), leaves: Vec::new() };
    for seed in seeds {
        sweep.add_state(&seed.sample, seed.cotangent);
    }
    for (op, kept) in ops {
        let adjoint = sweep.states.pop().flatten();
        sweep.visit(model, op.borrow(), kept, adjoint)?;
    }
    sweep.leaves.reverse();
    Ok(Gradients { parameters: sweep.coeffs.pull_back(parameters, samples), leaves: sweep.leaves })
}

struct Sweep {
    /// Adjoint of each recorded batch, made when first needed.
    states: Vec<Option<Tensor>>,
    coeffs: Adjoints,
    /// Newest first.
    leaves: Vec<Tensor>,
}

impl Sweep {
    /// Passes on what an op has received; what has received nothing has nothing to pass on.
    fn visit(
        &mut self,
        model: &dyn Differentiable,
        op: &Op<'_>,
        kept: Option<Pullback<'_>>,
        adjoint: Option<Tensor>,
    ) -> Result<()> {
        match (adjoint, op) {
            (adjoint, Op::Leaf(start)) => {
                let nothing = || Tensor::zeros(start.tensor().shape());
                self.leaves.push(adjoint.unwrap_or_else(nothing));
                Ok(())
            }
            (Some(adjoint), op) => self.step(model, op, kept, &adjoint),
            (None, _) => Ok(()),
        }
    }

    fn step(
        &mut self,
        model: &dyn Differentiable,
        op: &Op<'_>,
        kept: Option<Pullback<'_>>,
        adjoint: &Tensor,
    ) -> Result<()> {
        match op {
            Op::Combine(terms) => {
                for (coeff, sample) in terms {
                    self.add_coeff(coeff, sample, adjoint);
                    self.add_scaled_state(sample, coeff, adjoint);
                }
            }
            Op::Evaluate { x, query, step, .. } => {
                let levels = query.levels();
                let again = || model.with_pullback(x.tensor(), &levels).map(|(_, back)| back);
                let gradient = kept.map_or_else(again, Ok).and_then(|back| back(adjoint));
                let (to_x, to_told) = gradient.map_err(|e| e.in_step(*step))?;
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
