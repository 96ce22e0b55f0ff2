//! The one reverse sweep.

use super::{Note, Path, Recording, Sample, threshold};
use crate::coeff::{Adjoints, Coeff};
use crate::denoiser::Levels;
use crate::error::Result;
use crate::tensor::{Tensor, dot};

/// ∂L/∂(a batch of the path), where the sweep begins.
pub struct Seed {
    /// The batch.
    pub sample: Sample,
    /// ∂L/∂batch.
    pub cotangent: Tensor,
}

/// ∂L/∂parameter for each sample: `gradients[p][sample]`. Their sum over samples, taken in sample order, is the gradient whatever the split into batches.
pub type Gradients = Vec<Vec<f64>>;

impl Path<'_> {
    /// Derivatives of a loss in `parameters` recorded parameters, given its derivatives in some batches of the path.
    pub fn gradients(mut self, seeds: Vec<Seed>, parameters: usize) -> Result<Gradients> {
        let samples = seeds.first().map_or(0, |s| s.cotangent.samples());
        let Some(mut recording) = self.recording.take() else { return Ok(vec![vec![0.0; samples]; parameters]) };
        let mut sweep = Sweep { states: recording.notes.iter().map(|_| None).collect(), coeffs: Adjoints::default() };
        for seed in seeds {
            sweep.add_state(&seed.sample, seed.cotangent);
        }
        while let Some(note) = recording.notes.pop() {
            if let Some(adjoint) = sweep.states.pop().flatten() {
                sweep.step(&recording, note, &adjoint)?;
            }
        }
        Ok(sweep.coeffs.pull_back(parameters, samples))
    }
}

struct Sweep {
    /// Adjoint of each noted batch, made when first needed.
    states: Vec<Option<Tensor>>,
    coeffs: Adjoints,
}

impl Sweep {
    fn step(&mut self, recording: &Recording, note: Note, adjoint: &Tensor) -> Result<()> {
        match note {
            Note::Combine(terms) => {
                for (coeff, sample) in &terms {
                    self.add_coeff(coeff, sample, adjoint);
                    self.add_scaled_state(sample, coeff.value(), adjoint);
                }
            }
            Note::Evaluate { x, level, pullback } => {
                let pullback = match pullback {
                    Some(kept) => kept,
                    None => recording.model.with_pullback(x.tensor(), &Levels::One(level.value()))?.1,
                };
                let (to_x, to_level) = pullback(adjoint)?;
                self.coeffs.add(&level, &to_level);
                self.add_state(&x, to_x);
            }
            Note::Threshold { x, how } => self.add_state(&x, threshold::pull_back(&how, x.tensor(), adjoint)),
        }
        Ok(())
    }

    fn add_coeff(&mut self, coeff: &Coeff, sample: &Sample, adjoint: &Tensor) {
        if coeff.is_recorded() {
            let per_sample: Vec<f64> =
                (0..adjoint.samples()).map(|i| dot(adjoint.sample(i), sample.tensor().sample(i))).collect();
            self.coeffs.add(coeff, &per_sample);
        }
    }

    fn add_state(&mut self, sample: &Sample, adjoint: Tensor) {
        if let Some(note) = sample.note {
            match &mut self.states[note] {
                Some(sum) => sum.data_mut().iter_mut().zip(adjoint.data()).for_each(|(s, a)| *s += a),
                empty => *empty = Some(adjoint),
            }
        }
    }

    fn add_scaled_state(&mut self, sample: &Sample, factor: f64, adjoint: &Tensor) {
        if let Some(note) = sample.note {
            match &mut self.states[note] {
                Some(sum) => sum.data_mut().iter_mut().zip(adjoint.data()).for_each(|(s, a)| *s += factor * a),
                empty => *empty = Some(adjoint.map(|a| factor * a)),
            }
        }
    }
}
