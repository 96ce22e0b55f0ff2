//! The relaxed objective of LD3 and S4S (Tong et al. 2024): the noise of every pair is a variable too, inside a small
//! ball.
//!
//! ```text
//! visit of a batch    g = ∂L/∂z, L the batch's mean loss;   the parameters move;   z' = project(z − ηg)
//!                     z ← z' where its loss, with the new parameters, is below that of z with the old ones
//! project             onto the ball of radius ρ around the pair's own noise
//! round               all training batches in a new order, then the validation batches, whose noise moves likewise
//! ```
//!
//! η halves after a round in which no validation noise moved. A solver with few steps cannot reach the teacher's image
//! from the very same noise, but from one that is close: the objective asks for no more. Here a batch always has the
//! same pairs, and rounds shuffle batches; the released code shuffles pairs.

use crate::student::Gradient;
use dyweight_core::tensor::Tensor;

/// The noise as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Of the training pairs.
    pub training: Tensor,
    /// Of the validation pairs.
    pub validation: Tensor,
    /// η.
    pub step: f64,
}

impl Moved {
    /// All parameters: of training, of validation, the step.
    pub(crate) fn params(&self) -> Vec<Vec<f64>> {
        vec![self.training.data().to_vec(), self.validation.data().to_vec(), vec![self.step]]
    }

    /// Puts parameters back; a state of another size, which cannot be of the same run, changes nothing.
    pub(crate) fn restore(&mut self, params: &[Vec<f64>]) {
        let [training, validation, step] = params else { return };
        let fits = training.len() == self.training.data().len() && validation.len() == self.validation.data().len();
        if let (true, [step]) = (fits, &step[..]) {
            self.training.data_mut().copy_from_slice(training);
            self.validation.data_mut().copy_from_slice(validation);
            self.step = *step;
        }
    }
}

/// Where noise would go: a step against the gradient of the mean loss, back onto the ball around its own.
pub(crate) fn trial(now: &Tensor, own: &Tensor, gradient: &Gradient, (step, radius): (f64, f64)) -> Tensor {
    let mut moved = now.clone();
    let (samples, len) = (now.samples(), now.sample_len().max(1));
    let pairs = moved.data_mut().iter_mut().zip(&gradient.noise);
    pairs.for_each(|(z, g)| *z -= step * g / samples as f64);
    for (z, own) in moved.data_mut().chunks_mut(len).zip(own.data().chunks(len)) {
        let distance = z.iter().zip(own).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
        if distance > radius {
            z.iter_mut().zip(own).for_each(|(a, b)| *a = b + (*a - b) * radius / distance);
        }
    }
    moved
}

/// Takes over the samples of `trial` whose loss fell; how many did.
pub(crate) fn keep(now: &mut Tensor, trial: &Tensor, before: &[f64], after: &[f64]) -> usize {
    let len = now.sample_len().max(1);
    let mut kept = 0;
    for (i, z) in now.data_mut().chunks_mut(len).enumerate() {
        if after[i] < before[i] {
            z.copy_from_slice(trial.sample(i));
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests;
