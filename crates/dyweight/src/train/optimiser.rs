//! Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).
//!
//! ```text
//! m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²;   p ← (1 − ηλ)p − η·(m/(1−β₁ᵗ))/(√(v/(1−β₂ᵗ)) + ε)
//! ```

use serde::{Deserialize, Serialize};

/// Which optimiser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// Without weight decay.
    #[default]
    Adam,
    /// With decoupled weight decay.
    AdamW,
}

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The moments of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adam {
    /// First moments.
    pub first: Vec<f64>,
    /// Second moments.
    pub second: Vec<f64>,
    /// Updates made.
    pub updates: u64,
}

impl Adam {
    /// Fresh moments for a number of parameters.
    pub fn new(parameters: usize) -> Self {
        Self { first: vec![0.0; parameters], second: vec![0.0; parameters], updates: 0 }
    }

    /// One update of `values`. `decay` is 0 for plain Adam.
    pub fn update(&mut self, values: &mut [f64], gradient: &[f64], rate: f64, decay: f64) {
        self.updates += 1;
        let t = self.updates as i32;
        let (bias1, bias2) = (1.0 - BETA1.powi(t), 1.0 - BETA2.powi(t));
        for (i, (value, g)) in values.iter_mut().zip(gradient).enumerate() {
            self.first[i] = BETA1 * self.first[i] + (1.0 - BETA1) * g;
            self.second[i] = BETA2 * self.second[i] + (1.0 - BETA2) * g * g;
            let scale = self.second[i].sqrt() / bias2.sqrt() + EPSILON;
            *value = *value * (1.0 - rate * decay) - rate / bias1 * self.first[i] / scale;
        }
    }
}

/// Scales a gradient to a norm of at most `most`; returns the norm it had.
pub(super) fn clip(gradient: &mut [f64], most: f64) -> f64 {
    let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    // The reference divides by norm + 1e-6, which guards a zero gradient.
    let factor = most / (norm + 1e-6);
    if factor < 1.0 {
        gradient.iter_mut().for_each(|g| *g *= factor);
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_update_has_the_length_of_the_rate() {
        let mut adam = Adam::new(2);
        let mut values = [1.0, 1.0];
        adam.update(&mut values, &[1e-3, -7.0], 0.1, 0.0);
        assert!((values[0] - 0.9).abs() < 1e-5 && (values[1] - 1.1).abs() < 1e-9);
        adam.update(&mut values, &[0.0, 0.0], 0.1, 0.5);
        assert!(values[0] < 0.9 && values[1] > 1.04);
    }

    #[test]
    fn clipping_keeps_the_direction() {
        let mut g = [3.0, 4.0];
        assert_eq!(clip(&mut g, 1.0), 5.0);
        assert!((g[0] - 0.6).abs() < 1e-6 && (g[1] - 0.8).abs() < 1e-6);
        let mut small = [0.3, 0.4];
        clip(&mut small, 1.0);
        assert_eq!(small, [0.3, 0.4]);
    }
}
