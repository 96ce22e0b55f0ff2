//! The student on a batch: its endpoint, its loss, and the gradient of the loss in every parameter.

use super::objective::Loss;
use crate::Stepwise;
use dyweight_core::denoiser::Differentiable;
use dyweight_core::error::Result;
use dyweight_core::features::FeatureMap;
use dyweight_core::sample::{Plan, integrate};
use dyweight_core::tape::{Cotangent, Memory, Tape, Var};
use dyweight_core::tensor::Tensor;
use dyweight_sample::comm::{Reader, Wire};
use dyweight_solvers::learnable::{Learnable, coeffs};
use dyweight_solvers::learned::Frame;

/// Everything about the student but its parameters.
#[derive(Clone)]
pub struct Student {
    /// What stays the same.
    pub frame: Frame,
    /// The endpoint's distance.
    pub loss: Loss,
    /// What a recording keeps.
    pub memory: Memory,
    /// How it is trained step by step, if it is. Validation then looks at the end alone.
    pub stepwise: Option<Stepwise>,
    /// The weight of the end beside the teacher's nearest states, where those are compared.
    pub near: Option<f64>,
}

/// Random signs in a shape for each sample of a batch, others for every supervised state.
pub type Signs<'s> = &'s dyn Fn(usize, [usize; 3]) -> Result<Tensor>;

/// Losses and gradients, per sample.
#[derive(Clone, Debug, Default)]
pub struct Gradient {
    /// Loss of each sample.
    pub losses: Vec<f64>,
    /// `[parameter][sample]`.
    pub gradients: Vec<Vec<f64>>,
    /// Derivative of each sample's loss in its noise, one behind the other; empty unless it was asked for.
    pub noise: Vec<f64>,
    /// What random signs at the end come to in each parameter, `[parameter][sample]`: whose second moments are the
    /// loss's curvature. Empty unless it was asked for.
    pub probes: Vec<Vec<f64>>,
}

impl Gradient {
    /// Appends the samples of another part of the batch.
    pub fn append(&mut self, other: Gradient) {
        self.losses.extend(other.losses);
        self.noise.extend(other.noise);
        join(&mut self.gradients, other.gradients);
        join(&mut self.probes, other.probes);
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

/// Appends the samples of other lists to each list.
fn join(all: &mut Vec<Vec<f64>>, more: Vec<Vec<f64>>) {
    if all.is_empty() {
        *all = more;
    } else {
        all.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
    }
}

impl Wire for Gradient {
    fn put(&self, out: &mut Vec<u8>) {
        self.losses.put(out);
        self.gradients.put(out);
        self.noise.put(out);
        self.probes.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let (losses, gradients) = (Wire::take(from)?, Wire::take(from)?);
        Some(Self { losses, gradients, noise: Wire::take(from)?, probes: Wire::take(from)? })
    }
}

impl Student {
    /// Losses of a batch under a solver of some parameters. `targets` holds one batch per supervised state: the
    /// endpoint last, before it, with path supervision, the states after steps 1 … S−1, or all states of the teacher
    /// but the first.
    pub fn losses(
        &self,
        model: &dyn Differentiable,
        solver: (&dyn Learnable, &[f64]),
        noise: &Tensor,
        targets: &[Tensor],
    ) -> Result<Vec<f64>> {
        let mut tape = Tape::sampling(model).analytic_first(self.frame.afs);
        let noise = tape.start(noise.clone());
        let states = self.states(&mut tape, solver, &noise, false)?;
        let mut total = vec![0.0; noise.tensor().samples()];
        for Term { weight, loss, state, target } in self.supervised(solver, &states, targets) {
            add(&mut total, weight, &loss.values(state.tensor(), target)?);
        }
        Ok(total)
    }

    /// What the loss of each sample is the mean square of: differences to the targets, one after the other.
    pub(crate) fn residuals(
        &self,
        model: &dyn Differentiable,
        solver: (&dyn Learnable, &[f64]),
        noise: &Tensor,
        targets: &[Tensor],
    ) -> Result<Vec<Vec<f64>>> {
        let mut tape = Tape::sampling(model).analytic_first(self.frame.afs);
        let noise = tape.start(noise.clone());
        let states = self.states(&mut tape, solver, &noise, false)?;
        let supervised = self.supervised(solver, &states, targets);
        let terms = supervised.iter().map(|term| term.loss.residuals(term.state.tensor(), term.target));
        let terms = terms.collect::<Result<Vec<Vec<Vec<f64>>>>>()?;
        let lengths: Vec<f64> = terms.iter().map(|term| term.first().map_or(0, Vec::len) as f64).collect();
        let all: f64 = lengths.iter().sum();
        // The mean square over all terms is the sum of the terms' own, weighted.
        let scales: Vec<f64> = supervised.iter().zip(&lengths).map(|(t, len)| (t.weight * all / len).sqrt()).collect();
        let of_sample = |i: usize| {
            let scaled = terms.iter().zip(&scales).flat_map(|(term, scale)| term[i].iter().map(move |r| scale * r));
            scaled.collect()
        };
        Ok((0..noise.tensor().samples()).map(of_sample).collect())
    }

    /// The features of a batch's ends, row by row.
    pub(crate) fn features(
        &self,
        model: &dyn Differentiable,
        solver: (&dyn Learnable, &[f64]),
        noise: &Tensor,
        map: &dyn FeatureMap,
    ) -> Result<Vec<Vec<f64>>> {
        let mut tape = Tape::sampling(model).analytic_first(self.frame.afs);
        let noise = tape.start(noise.clone());
        let states = self.states(&mut tape, solver, &noise, false)?;
        let features = map.features(states[states.len() - 1].tensor())?;
        Ok((0..features.samples()).map(|i| features.sample(i).to_vec()).collect())
    }

    /// Losses of a batch and their derivatives, in the noise too if it is to move, and with `signs` what their
    /// curvature is made of.
    pub fn gradient(
        &self,
        model: &dyn Differentiable,
        solver: (&dyn Learnable, &[f64]),
        (noise, moves): (&Tensor, bool),
        targets: &[Tensor],
        signs: Option<Signs<'_>>,
    ) -> Result<Gradient> {
        let mut tape = Tape::recording(model, self.memory).analytic_first(self.frame.afs);
        let noise = if moves { tape.leaf(noise.clone()) } else { tape.start(noise.clone()) };
        let states = self.states(&mut tape, solver, &noise, true)?;
        let mut losses = vec![0.0; noise.tensor().samples()];
        let (mut cotangents, mut probing) = (Vec::new(), Vec::new());
        for (k, Term { weight, loss, state, target }) in
            self.supervised(solver, &states, targets).into_iter().enumerate()
        {
            let (values, cotangent) = loss.with_gradient(state.tensor(), target)?;
            add(&mut losses, weight, &values);
            let begins = |weight: f64, at: Tensor| {
                let cotangent = if weight == 1.0 { at } else { at.map(|v| weight * v) };
                Cotangent { sample: state.clone(), cotangent }
            };
            cotangents.push(begins(weight, cotangent));
            if let Some(signs) = signs {
                let probe = loss.probe(state.tensor(), target, &|shape| signs(k, shape))?;
                probing.push(begins(weight.sqrt(), probe));
            }
        }
        let mut sweeps = vec![cotangents];
        sweeps.extend(signs.map(|_| probing));
        let mut found = tape.gradients_of_each(sweeps, solver.1.len())?.into_iter();
        let (found, probes) = (found.next().expect("one for each loss"), found.next());
        let probes = probes.map_or_else(Vec::new, |probes| probes.parameters);
        let noise = found.leaves.first().map_or_else(Vec::new, |g| g.data().to_vec());
        Ok(Gradient { losses, gradients: found.parameters, noise, probes })
    }

    /// The start, and the states after each step.
    fn states(
        &self,
        tape: &mut Tape<'_>,
        (learnable, params): (&dyn Learnable, &[f64]),
        noise: &Var,
        record: bool,
    ) -> Result<Vec<Var>> {
        let built = learnable.build(&coeffs(params, record), &self.frame)?;
        let plan = Plan { solver: &*built.solver, times: built.times, afs: self.frame.afs, denoise_to_zero: false };
        let mut states = Vec::new();
        integrate(tape, &plan, noise, &mut |state| {
            states.push(state.x.clone());
            Ok(())
        })?;
        Ok(states)
    }

    /// Each supervised state with its loss and target: intermediate states by l2, the endpoint by the loss proper.
    fn supervised<'a>(
        &'a self,
        (learnable, params): (&dyn Learnable, &[f64]),
        states: &'a [Var],
        targets: &'a [Tensor],
    ) -> Vec<Term<'a>> {
        let steps = states.len() - 1;
        // A distance of all samples at once has no target.
        let target = targets.last().unwrap_or_else(|| states[steps].tensor());
        let end = Term { weight: 1.0, loss: &self.loss, state: &states[steps], target };
        let by_l2 = |state: &'a Var, target: &'a Tensor| Term { weight: 1.0, loss: &Loss::L2, state, target };
        if let (Some(weight), Some(progress)) = (self.near, learnable.progress(params)) {
            let nearest =
                |share: &f64| (targets.len() as f64 * share).round_ties_even().clamp(0.0, targets.len() as f64);
            let target = |share: &f64| match nearest(share) as usize {
                0 => states[0].tensor(),
                k => &targets[k - 1],
            };
            let path = states[1..].iter().zip(&progress).map(|(state, share)| by_l2(state, target(share)));
            return path.chain((weight > 0.0).then_some(Term { weight, ..end })).collect();
        }
        if self.stepwise.is_some() || targets.len() > steps || targets.is_empty() {
            return vec![end];
        }
        let first = states.len() - targets.len();
        let path = (first..steps).zip(targets).map(|(i, target)| by_l2(&states[i], target));
        path.chain([end]).collect()
    }
}

/// A state with what it is compared with, and how.
struct Term<'a> {
    weight: f64,
    loss: &'a Loss,
    state: &'a Var,
    target: &'a Tensor,
}

fn add(total: &mut [f64], weight: f64, values: &[f64]) {
    total.iter_mut().zip(values).for_each(|(t, v)| *t += weight * v);
}
