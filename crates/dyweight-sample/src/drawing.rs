//! Samples of a model, batch by batch, in one process or many.

use crate::comm::Comm;
use crate::inputs::Inputs;
use crate::parts::{in_parts, stacked};
use crate::sampler::Sampler;
use dyweight_core::denoiser::Model;
use dyweight_core::error::Result;
use dyweight_core::sample::State;
use dyweight_core::tensor::Tensor;
use std::ops::Range;

/// What is drawn.
pub struct Drawing<'d> {
    /// The model.
    pub model: &'d dyn Model,
    /// What samples begin with and show.
    pub inputs: &'d Inputs,
    /// The solver.
    pub sampler: &'d Sampler,
    /// Samples per network call.
    pub batch: usize,
    /// The processes that share the work.
    pub comm: &'d dyn Comm,
}

/// Sees every state of some samples; an error ends the work, and is its error.
pub type Watch<'w> = dyn Fn(&[usize], &State<'_>) -> Result<()> + Sync + 'w;

/// Takes samples by their indices: behind their states, if those are kept.
pub type Take<'t> = dyn FnMut(&[usize], &[Tensor]) -> Result<()> + 't;

impl Drawing<'_> {
    /// Draws the samples `wanted`. In every round each process makes a batch, and rank 0 takes them all: the indices,
    /// and their samples behind their states, if those are kept.
    pub fn draw(&self, wanted: &[usize], keeps_states: bool, watch: &Watch<'_>, take: &mut Take<'_>) -> Result<()> {
        for round in wanted.chunks(self.batch.saturating_mul(self.comm.size())) {
            let mine = &round[self.comm.share(&(0..round.len()), 1)];
            let part = |range: Range<usize>| self.run(&mine[range], keeps_states, watch);
            let own = || stacked(&in_parts(self.model, 0..mine.len(), mine.len().max(1), part)?);
            let mut rest = round;
            for states in self.comm.gather(own)? {
                let Some(last) = states.last() else { continue };
                let (indices, behind) = rest.split_at(last.samples());
                rest = behind;
                take(indices, &states)?;
            }
        }
        Ok(())
    }

    /// The states of some samples that are kept, the samples themselves last.
    fn run(&self, indices: &[usize], keeps_states: bool, watch: &Watch<'_>) -> Result<Vec<Tensor>> {
        let latents = self.inputs.latents(indices.iter().copied())?;
        let denoiser = self.model.denoiser(&self.inputs.condition(indices.iter().copied()))?;
        let mut states = Vec::new();
        let outcome = self.sampler.sample(&*denoiser, &latents, &mut |state| {
            if keeps_states {
                states.push(state.x.tensor().clone());
            }
            watch(indices, state)
        })?;
        debug_assert_eq!(outcome.nfe, self.sampler.nfe, "the budget was found by counting the same calls");
        states.push(outcome.samples);
        Ok(states)
    }
}
