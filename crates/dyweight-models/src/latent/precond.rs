//! From a network of discrete times to a denoiser of noise levels (Karras et al. 2022, table 1, as EDM-type samplers
//! use latent diffusion models).
//!
//! ```text
//! c_noise = 1000·τ(σ) − 1      of a flow: σ
//! ```
//!
//! The other factors are those of what the network predicts ([`Target`]).

use crate::preconditioned::{Factors, Target};
use dyweight_core::denoiser::Prediction;
use dyweight_core::schedule::BetaTable;

/// How a network becomes a prediction.
pub(super) trait Scaling: Send + Sync {
    /// The factors at a level.
    fn factors(&self, sigma: f64) -> Factors;

    /// Their derivatives.
    fn slopes(&self, sigma: f64) -> Factors;

    /// Levels it was trained for.
    fn range(&self) -> (f64, f64);

    /// What is predicted.
    fn prediction(&self) -> Prediction;
}

/// A network that predicts the velocity of a flow, told the level itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow;

impl Scaling for Flow {
    fn factors(&self, sigma: f64) -> Factors {
        Target::Itself.factors(sigma, sigma)
    }

    fn slopes(&self, sigma: f64) -> Factors {
        Target::Itself.slopes(sigma, 1.0)
    }

    fn range(&self) -> (f64, f64) {
        (0.0, 1.0)
    }

    fn prediction(&self) -> Prediction {
        Prediction::Velocity
    }
}

/// A noise table and what is predicted.
#[derive(Clone, Debug)]
pub(super) struct Precond {
    pub(super) table: BetaTable,
    pub(super) target: Target,
}

/// Steps of the tables.
const STEPS: f64 = 1000.0;

impl Scaling for Precond {
    fn factors(&self, sigma: f64) -> Factors {
        self.target.factors(sigma, STEPS * self.table.time(sigma) - 1.0)
    }

    fn slopes(&self, sigma: f64) -> Factors {
        self.target.slopes(sigma, STEPS * self.table.time_and_slope(sigma).1)
    }

    fn range(&self) -> (f64, f64) {
        self.table.range()
    }

    fn prediction(&self) -> Prediction {
        Prediction::Denoised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_derivatives() {
        for target in [Target::Noise, Target::V] {
            let precond = Precond { table: BetaTable::stable_diffusion(), target };
            for sigma in [0.05, 0.7, 3.3, 14.0] {
                let h = 1e-6 * sigma;
                let (a, b, s) = (precond.factors(sigma + h), precond.factors(sigma - h), precond.slopes(sigma));
                let close = |above: f64, below: f64, slope: f64| {
                    ((above - below) / (2.0 * h) - slope).abs() < 1e-6 * slope.abs().max(1.0)
                };
                assert!(close(a.skip, b.skip, s.skip) && close(a.out, b.out, s.out), "{target:?} at {sigma}");
                assert!(close(a.input, b.input, s.input) && close(a.noise, b.noise, s.noise), "{target:?} at {sigma}");
            }
        }
    }

    // x = x₀ + σn is √(1+σ²) times the variance-preserving α·x₀ + s·n, whose exact v must give back x₀.
    #[test]
    fn an_exact_v_gives_the_data() {
        let precond = Precond { table: BetaTable::stable_diffusion(), target: Target::V };
        let (data, noise, sigma) = (0.3, -1.2, 2.5f64);
        let f = precond.factors(sigma);
        let v = f.input * noise - sigma * f.input * data;
        assert!((f.skip * (data + sigma * noise) + f.out * v - data).abs() < 1e-12);
    }
}
