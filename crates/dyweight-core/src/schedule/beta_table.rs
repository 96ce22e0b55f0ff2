//! Noise tables of discrete-time models (latent diffusion, Stable Diffusion).
//!
//! ```text
//! β_j = (√β_s + j/(M−1)·(√β_e − √β_s))²,  ᾱ_j = Π (1−β),  M = 1000
//! ln α(τ) is linear between the points τ_j = j/M ↦ ½ ln ᾱ_{j−1} (j = 1 … M), and beyond both ends
//! σ(τ) = √(1−α²)/α,   σ⁻¹(σ): ln α = −½ ln(1+σ²), looked up the other way
//! ```
//!
//! The released code calls this table "linear"; it is the scaled-linear rule.

use crate::error::{Error, Result};
use std::sync::Arc;

const LEVELS: usize = 1000;

/// A noise table: σ(τ) and its inverse for τ ∈ (0, 1].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BetaTable {
    name: String,
    log_alphas: Arc<[f64]>,
}

impl BetaTable {
    fn scaled_linear(name: &str, beta_start: f64, beta_end: f64) -> Self {
        let (from, to) = (beta_start.sqrt(), beta_end.sqrt());
        let mut product = 1.0;
        let log_alpha = |j: usize| {
            let root = from + j as f64 / (LEVELS - 1) as f64 * (to - from);
            product *= 1.0 - root * root;
            0.5 * f64::ln(product)
        };
        Self { name: name.into(), log_alphas: (0..LEVELS).map(log_alpha).collect() }
    }

    /// Stable Diffusion 1.x.
    pub fn stable_diffusion() -> Self {
        Self::scaled_linear("sd15", 0.00085, 0.0120)
    }

    /// The LSUN latent diffusion models.
    pub fn lsun_ldm() -> Self {
        Self::scaled_linear("lsun-ldm", 0.0015, 0.0195)
    }

    /// A table of products ᾱ, which must fall from below 1 and stay above 0.
    pub fn of_products(products: &[f64]) -> Result<Self> {
        let falls = products.windows(2).all(|w| w[1] < w[0]);
        let inside = products.iter().all(|p| *p > 0.0 && *p < 1.0);
        if products.len() != LEVELS || !falls || !inside {
            return Err(Error::bad_value(
                "beta-table",
                format!("{} products", products.len()),
                format!("{LEVELS} products of 1 - beta that fall from below 1 and stay above 0"),
            ));
        }
        Ok(Self { name: "custom".into(), log_alphas: products.iter().map(|p| 0.5 * p.ln()).collect() })
    }

    /// True if these products are the table's, as far as 32-bit numbers can tell.
    pub fn is_close_to(&self, products: &[f64]) -> bool {
        let close = |(log, product): (&f64, &f64)| (0.5 * product.ln() - log).abs() < 1e-4;
        products.len() == LEVELS && self.log_alphas.iter().zip(products).all(close)
    }

    /// A table by its name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "sd15" => Ok(Self::stable_diffusion()),
            "lsun-ldm" => Ok(Self::lsun_ldm()),
            _ => Err(Error::unknown_name("beta table", name, Self::NAMES)),
        }
    }

    /// Names [`BetaTable::named`] knows.
    pub const NAMES: [&'static str; 2] = ["sd15", "lsun-ldm"];

    /// σ of the first and last level.
    pub fn range(&self) -> (f64, f64) {
        (self.sigma(1.0 / LEVELS as f64), self.sigma(1.0))
    }

    /// σ(τ).
    pub fn sigma(&self, time: f64) -> f64 {
        let position = time * LEVELS as f64 - 1.0;
        let left = (position.floor().max(0.0) as usize).min(LEVELS - 2);
        let (a, b) = (self.log_alphas[left], self.log_alphas[left + 1]);
        let log_alpha = a + (position - left as f64) * (b - a);
        // √(1−α²)/α without cancellation for α near 1.
        (-2.0 * log_alpha).exp_m1().sqrt()
    }

    /// τ(σ).
    pub fn time(&self, sigma: f64) -> f64 {
        self.time_and_slope(sigma).0
    }

    /// τ(σ) and dτ/dσ.
    pub fn time_and_slope(&self, sigma: f64) -> (f64, f64) {
        let log_alpha = -0.5 * (sigma * sigma).ln_1p();
        // ln α falls along the table: the first entry not above it closes the segment.
        let right = self.log_alphas.partition_point(|v| *v > log_alpha).clamp(1, LEVELS - 1);
        let (a, b) = (self.log_alphas[right - 1], self.log_alphas[right]);
        let scale = 1.0 / ((b - a) * LEVELS as f64);
        let time = right as f64 / LEVELS as f64 + (log_alpha - a) * scale;
        (time, -sigma / (1.0 + sigma * sigma) * scale)
    }
}

impl TryFrom<String> for BetaTable {
    type Error = Error;
    fn try_from(name: String) -> Result<Self> {
        Self::named(&name)
    }
}

impl From<BetaTable> for String {
    fn from(table: BetaTable) -> String {
        table.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_the_published_tables() {
        let (low, high) = BetaTable::stable_diffusion().range();
        assert!((low - 0.029167).abs() < 1e-6 && (high - 14.614641).abs() < 1e-6);
        let (low, high) = BetaTable::lsun_ldm().range();
        assert!((low - 0.038759).abs() < 1e-6 && (high - 83.8225).abs() < 1e-4);
    }

    // c_noise = 1000τ − 1 and its derivative from an f64 evaluation of the released wrapper, inside and beyond the
    // table.
    #[test]
    fn times_and_slopes_of_the_reference() {
        let table = BetaTable::stable_diffusion();
        let rows = [
            (0.02, -0.5267925805052301, 46.761413009498796),
            (0.5, 169.31397994343095, 435.6120193981585),
            (7.0, 865.747097030433, 28.51970775848002),
            (20.0, 1050.79031097418, 8.262576288013912),
            (80.0, 1280.2564065902325, 2.0704846689539624),
        ];
        for (sigma, c_noise, slope) in rows {
            let (time, dtime) = table.time_and_slope(sigma);
            assert!((1000.0 * time - 1.0 - c_noise).abs() < 1e-9 * c_noise.abs().max(1.0), "{sigma}");
            assert!((1000.0 * dtime - slope).abs() < 1e-9 * slope.abs(), "{sigma}");
        }
    }

    #[test]
    fn the_inverse_inverts_also_beyond_the_ends() {
        let table = BetaTable::lsun_ldm();
        for time in [0.0005, 0.001, 0.2345, 0.9999, 1.0, 1.2] {
            assert!((table.time(table.sigma(time)) - time).abs() < 1e-12);
        }
    }
}
