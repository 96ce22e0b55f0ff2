//! What a network predicts, and the noise process that goes with it.
//!
//! ```text
//! Denoised   x = x₀ + σn         α = 1      dx/dσ = (x − D)/σ = n      λ = ln(α/σ) = −ln σ
//! Velocity   x = (1−σ)x₀ + σn    α = 1−σ    dx/dσ = v = n − x₀         λ = ln((1−σ)/σ)
//! ```

use crate::coeff::Coeff;

/// The network's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prediction {
    /// The denoised sample D(x; σ) of a variance-exploding process.
    Denoised,
    /// The velocity v(x; σ) of a rectified flow.
    Velocity,
}

impl Prediction {
    /// Signal scale α(σ).
    pub fn alpha(self, sigma: &Coeff) -> Coeff {
        match self {
            Prediction::Denoised => Coeff::from(1.0),
            Prediction::Velocity => 1.0 - sigma,
        }
    }

    /// λ(σ) = ln(α/σ), half the logarithm of the signal-to-noise ratio; infinite at the ends of a flow.
    pub fn log_snr(self, sigma: &Coeff) -> Coeff {
        match self {
            Prediction::Denoised => -sigma.ln(),
            Prediction::Velocity => (1.0 - sigma).ln() - sigma.ln(),
        }
    }

    /// The factor f of the analytical first step dx/dσ = f·x: what a model of unit-scale data must answer when x is
    /// almost pure noise.
    ///
    /// Denoised: 1/√(1+σ²). Velocity: the same statement for x/(1−σ), (1/√(α²+σ²) − 1)/α, which is 1 at σ = 1.
    pub fn analytic_slope(self, sigma: &Coeff) -> Coeff {
        match self {
            Prediction::Denoised => (1.0 + sigma * sigma).sqrt().recip(),
            Prediction::Velocity => {
                let alpha = 1.0 - sigma;
                let norm = (&alpha * &alpha + sigma * sigma).sqrt();
                // (1/r − 1)/α = (1 − r²)/(α·r(1+r)) and 1 − r² = 2ασ: no division by α is left.
                2.0 * sigma / (&norm * (1.0 + &norm))
            }
        }
    }
}
