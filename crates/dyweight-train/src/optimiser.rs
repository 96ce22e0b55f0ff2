//! The rules by which a gradient moves parameters.
//!
//! ```text
//! Adam      m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²;   p ← (1 − ηλ)p − η·(m/(1−β₁ᵗ))/(√(v/(1−β₂ᵗ)) + ε)
//!                                                                                                     β = (0.9, 0.999)
//! RMSprop   v ← αv + (1−α)g²,   b ← μb + g/(√v + ε);  p ← p − ηb
//!                                                                                                    α = 0.99, μ = 0.9
//! SGD       p ← p − ηg
//! Lion      p ← (1 − ηλ)p − η·sign(β₁m + (1−β₁)g),    m ← β₂m + (1−β₂)g
//!                                                                                                      β = (0.9, 0.99)
//! ```
//!
//! Kingma and Ba 2015, Loshchilov and Hutter 2019 (AdamW: λ > 0), Tieleman and Hinton 2012, Chen et al. 2023. ε = 10⁻⁸.

use crate::Optimiser;

const EPSILON: f64 = 1e-8;

/// What the rules remember of some parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Of the gradient.
    pub first: Vec<f64>,
    /// Of its square.
    pub second: Vec<f64>,
    /// Updates made.
    pub updates: u64,
}

impl Moments {
    /// Fresh moments for a number of parameters.
    pub fn new(len: usize) -> Self {
        Self { first: vec![0.0; len], second: vec![0.0; len], updates: 0 }
    }

    /// One update of `values`.
    pub fn update(&mut self, rule: Optimiser, values: &mut [f64], gradient: &[f64], rate: f64, decay: f64) {
        self.updates += 1;
        let t = self.updates as i32;
        let adam = (1.0 - 0.9f64.powi(t), 1.0 - 0.999f64.powi(t));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((value, g), (first, second)) in values.iter_mut().zip(gradient).zip(moments) {
            match rule {
                Optimiser::Adam => *value = adam_step(*value, *g, (first, second), adam, (rate, 0.0)),
                Optimiser::AdamW => *value = adam_step(*value, *g, (first, second), adam, (rate, decay)),
                Optimiser::RmsProp => {
                    *second = 0.99 * *second + (1.0 - 0.99) * g * g;
                    *first = 0.9 * *first + g / (second.sqrt() + EPSILON);
                    *value -= rate * *first;
                }
                Optimiser::Sgd => *value -= rate * g,
                Optimiser::Newton | Optimiser::GaussNewton => {}
                Optimiser::Lion => {
                    let direction = 0.9 * *first + (1.0 - 0.9) * g;
                    let sign = if direction == 0.0 { 0.0 } else { direction.signum() };
                    *value = *value * (1.0 - rate * decay) - rate * sign;
                    *first = 0.99 * *first + (1.0 - 0.99) * g;
                }
            }
        }
    }
}

fn adam_step(value: f64, g: f64, (m, v): (&mut f64, &mut f64), bias: (f64, f64), (rate, decay): (f64, f64)) -> f64 {
    *m = 0.9 * *m + (1.0 - 0.9) * g;
    *v = 0.999 * *v + (1.0 - 0.999) * g * g;
    let scale = v.sqrt() / bias.1.sqrt() + EPSILON;
    value * (1.0 - rate * decay) - rate / bias.0 * *m / scale
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
        let mut moments = Moments::new(2);
        let mut values = [1.0, 1.0];
        moments.update(Optimiser::Adam, &mut values, &[1e-3, -7.0], 0.1, 0.0);
        assert!((values[0] - 0.9).abs() < 1e-5 && (values[1] - 1.1).abs() < 1e-9);
        moments.update(Optimiser::AdamW, &mut values, &[0.0, 0.0], 0.1, 0.5);
        assert!(values[0] < 0.9 && values[1] > 1.04);
    }

    /// Three updates with gradients 1, −2, 0.5 at rate 0.1, from torch.optim.
    #[test]
    fn the_other_rules_as_torch_has_them() {
        let cases = [
            (Optimiser::RmsProp, [9.999999027732188e-08, -0.004676888008486968, -0.2283596938571497]),
            (Optimiser::Sgd, [0.9, 1.1, 1.05]),
            (Optimiser::Lion, [0.9, 1.0, 0.9]),
        ];
        for (rule, expected) in cases {
            let (mut moments, mut value) = (Moments::new(1), [1.0]);
            for (g, expected) in [1.0, -2.0, 0.5].into_iter().zip(expected) {
                moments.update(rule, &mut value, &[g], 0.1, 0.0);
                assert!((value[0] - expected).abs() < 1e-12, "{rule:?}: {} is not {expected}", value[0]);
            }
        }
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
