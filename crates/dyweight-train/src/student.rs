//! The student on a batch: its endpoint, its loss, and the gradient of the loss in every parameter.

use super::objective::Loss;
use crate::comm::{Parcel, Reader};
use crate::learnable::{Learnable, coeffs};
use dyweight_core::denoiser::Differentiable;
use dyweight_core::error::Result;
use dyweight_core::learned::Frame;
use dyweight_core::sample::{Plan, integrate};
use dyweight_core::tensor::Tensor;
use dyweight_core::trail::{Cotangent, Memory, Sample, Trail};
use std::ops::ControlFlow;

/// Everything about the student but its numbers.
#[derive(Clone)]
pub struct Student {
    /// What stays the same.
    pub frame: Frame,
    /// The endpoint's distance.
    pub loss: Loss,
    /// What a recording keeps.
    pub memory: Memory,
}

/// Losses and gradients, per sample.
#[derive(Clone, Debug, Default)]
pub struct Gradient {
    /// Loss of each sample.
    pub losses: Vec<f64>,
    /// `[parameter][sample]`.
    pub gradients: Vec<Vec<f64>>,
}

impl Gradient {
    /// Appends the samples of another part of the batch.
    pub fn append(&mut self, other: Gradient) {
        self.losses.extend(other.losses);
        if self.gradients.is_empty() {
            self.gradients = other.gradients;
        } else {
            self.gradients.iter_mut().zip(other.gradients).for_each(|(all, more)| all.extend(more));
        }
    }

    /// Mean loss, summed in sample order.
    pub fn loss(&self) -> f64 {
        self.losses.iter().sum::<f64>() / self.losses.len() as f64
    }

    /// Gradient of the mean loss, summed in sample order.
    pub fn gradient(&self) -> Vec<f64> {
        let n = self.losses.len() as f64;
        self.gradients.iter().map(|per_sample| per_sample.iter().sum::<f64>() / n).collect()
    }
}

impl Parcel for Gradient {
    fn put(&self, out: &mut Vec<u8>) {
        self.losses.put(out);
        self.gradients.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { losses: Parcel::take(from)?, gradients: Parcel::take(from)? })
    }
}

impl Student {
    /// Losses of a batch under a solver of some numbers. `targets` holds one batch per supervised state: the endpoint last, before it, with path supervision,
    /// the states after steps 1 … S−1.
    pub fn losses(
        &self,
        model: &dyn Differentiable,
        solver: (&dyn Learnable, &[f64]),
        noise: &Tensor,
        targets: &[Tensor],
    ) -> Result<Vec<f64>> {
        let mut trail = Trail::sampling(model).analytic_first(self.frame.afs);
        let states = self.states(&mut trail, solver, noise, false)?;
        let mut total = vec![0.0; noise.samples()];
        for (loss, state, target) in self.supervised(&states, targets) {
            add(&mut total, &loss.values(state.tensor(), target)?);
        }
        Ok(total)
    }

    /// Losses of a batch and their derivatives.
    pub fn gradient(
        &self,
        model: &dyn Differentiable,
        solver: (&dyn Learnable, &[f64]),
        noise: &Tensor,
        targets: &[Tensor],
    ) -> Result<Gradient> {
        let mut trail = Trail::recording(model, self.memory).analytic_first(self.frame.afs);
        let states = self.states(&mut trail, solver, noise, true)?;
        let mut losses = vec![0.0; noise.samples()];
        let mut cotangents = Vec::new();
        for (loss, state, target) in self.supervised(&states, targets) {
            let (values, cotangent) = loss.with_gradient(state.tensor(), target)?;
            add(&mut losses, &values);
            cotangents.push(Cotangent { sample: state.clone(), cotangent });
        }
        Ok(Gradient { losses, gradients: trail.gradients(cotangents, solver.1.len())?.parameters })
    }

    /// The states after each step.
    fn states(
        &self,
        trail: &mut Trail<'_>,
        (learnable, numbers): (&dyn Learnable, &[f64]),
        noise: &Tensor,
        record: bool,
    ) -> Result<Vec<Sample>> {
        let built = learnable.build(&coeffs(numbers, record), &self.frame)?;
        let plan = Plan { solver: &*built.solver, times: built.times, afs: self.frame.afs, denoise_to_zero: false };
        let mut states = Vec::new();
        let noise = trail.start(noise.clone());
        integrate(trail, &plan, &noise, &mut |state| {
            if state.index > 0 {
                states.push(state.x.clone());
            }
            ControlFlow::Continue(())
        })?;
        Ok(states)
    }

    /// Each supervised state with its loss and target: intermediate states by l2, the endpoint by the loss proper.
    fn supervised<'a>(
        &'a self,
        states: &'a [Sample],
        targets: &'a [Tensor],
    ) -> impl Iterator<Item = (&'a Loss, &'a Sample, &'a Tensor)> {
        let first = states.len() - targets.len();
        let last = states.len() - 1;
        let loss = move |i: usize| if i == last { &self.loss } else { &Loss::L2 };
        (first..states.len()).zip(targets).map(move |(i, target)| (loss(i), &states[i], target))
    }
}

fn add(total: &mut [f64], values: &[f64]) {
    total.iter_mut().zip(values).for_each(|(t, v)| *t += v);
}
