//! The time of a variance-preserving process fitted to a range of noise levels (Song et al. 2021).
//!
//! ```text
//! σ(t) = √(exp(β_d t²/2 + β_min t) − 1),   t(σ) = (√(β_min² + 2β_d ln(1+σ²)) − β_min)/β_d
//! fitted so that σ(ε) = σ_min and σ(1) = σ_max, ε = 10⁻³
//! ```

use crate::coeff::Coeff;

/// The smallest time.
pub const EPSILON: f64 = 1e-3;

/// The map between noise level and variance-preserving time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VpTime {
    /// Slope of the noise rate.
    pub beta_d: f64,
    /// Noise rate at time 0.
    pub beta_min: f64,
}

impl VpTime {
    /// The map with σ(ε) = `sigma_min` and σ(1) = `sigma_max`.
    pub fn fitted(sigma_min: f64, sigma_max: f64) -> Self {
        let (low, high) = ((sigma_min * sigma_min).ln_1p(), (sigma_max * sigma_max).ln_1p());
        let beta_d = 2.0 * (low / EPSILON - high) / (EPSILON - 1.0);
        Self { beta_d, beta_min: high - beta_d / 2.0 }
    }

    /// True if σ rises with t all the way from ε to 1 (its exponent's derivative is β_d t + β_min), which a large σ_min
    /// under a small σ_max prevents.
    pub fn rises(&self) -> bool {
        self.beta_min + self.beta_d * EPSILON > 0.0 && self.beta_min + self.beta_d > 0.0
    }

    /// σ(t).
    pub fn sigma(&self, t: f64) -> f64 {
        (self.beta_d * t * t / 2.0 + self.beta_min * t).exp_m1().sqrt()
    }

    /// t(σ), differentiable.
    pub fn time(&self, sigma: &Coeff) -> Coeff {
        let log = (sigma * sigma).ln_1p();
        ((log * (2.0 * self.beta_d) + self.beta_min * self.beta_min).sqrt() - self.beta_min) / self.beta_d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_of_the_edm_range() {
        let map = VpTime::fitted(0.002, 80.0);
        assert!((map.beta_d - 17.537957).abs() < 1e-5 && (map.beta_min + 0.004769).abs() < 1e-6);
        for t in [EPSILON, 0.1, 0.5, 1.0] {
            assert!((map.time(&Coeff::from(map.sigma(t))).value() - t).abs() < 1e-12);
        }
        assert!((map.sigma(1.0) - 80.0).abs() < 1e-10 && (map.sigma(EPSILON) - 0.002).abs() < 1e-12);
    }
}
