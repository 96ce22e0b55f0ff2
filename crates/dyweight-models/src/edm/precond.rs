//! Preconditioning: how a network F becomes a denoiser D (Karras et al. 2022, Table 1).
//!
//! ```text
//! D(x; σ) = c_skip·x + c_out·F(c_in·x; c_noise)
//!
//!           c_skip          c_out         c_in          c_noise
//! EDM       s²/(σ²+s²)      σs/√(σ²+s²)   1/√(σ²+s²)    ln(σ)/4
//! VP        1               −σ            1/√(σ²+1)     (M−1)·t(σ)      t(σ) = (√(β_min² + 2β_d·ln(1+σ²)) − β_min)/β_d
//! VE        1               σ             1             ln(σ/2)
//! iDDPM     1               −σ            1/√(σ²+1)     M−1−argmin_j|u_j−σ|
//! ```
//!
//! c_noise is computed in f32 step by step, as where the networks were trained: at small σ the f32 logarithm of VP is
//! visibly another number. Everything else is f64.

use super::config::PrecondConfig;
use crate::preconditioned::Factors;

/// A preconditioning.
pub(super) struct Precond {
    config: PrecondConfig,
    /// u of iDDPM, decreasing, ending in 0; empty for the others.
    table: Vec<f32>,
}

/// Levels that samplers use with networks that name no narrower range.
const SAMPLED: (f64, f64) = (0.002, 80.0);

impl Precond {
    /// `table` is the buffer u of iDDPM.
    pub(super) fn new(config: PrecondConfig, table: Option<Vec<f32>>) -> Self {
        let table = match config {
            PrecondConfig::Iddpm { steps, c_1, c_2 } => table.unwrap_or_else(|| iddpm_table(steps, c_1, c_2)),
            _ => Vec::new(),
        };
        Self { config, table }
    }

    /// Noise levels the network supports, within those that samplers use.
    pub(super) fn sigma_range(&self) -> (f64, f64) {
        let (low, high) = match self.config {
            PrecondConfig::Edm { sigma_min, sigma_max, .. } | PrecondConfig::Ve { sigma_min, sigma_max } => {
                (sigma_min, sigma_max)
            }
            PrecondConfig::Vp { beta_d, beta_min, epsilon_t, .. } => {
                let sigma = |t: f64| libm::sqrt(libm::expm1(0.5 * beta_d * t * t + beta_min * t));
                (sigma(epsilon_t), sigma(1.0))
            }
            PrecondConfig::Iddpm { steps, .. } => (f64::from(self.table[steps - 1]), f64::from(self.table[0])),
        };
        (low.max(SAMPLED.0), high.min(SAMPLED.1))
    }

    /// The factors at a level.
    pub(super) fn factors(&self, sigma: f64) -> Factors {
        let noise = f64::from(self.noise(sigma as f32));
        let unit = 1.0 / libm::sqrt(1.0 + sigma * sigma);
        match self.config {
            PrecondConfig::Edm { sigma_data: s, .. } => {
                let q = sigma * sigma + s * s;
                Factors { skip: s * s / q, out: sigma * s / libm::sqrt(q), input: 1.0 / libm::sqrt(q), noise }
            }
            PrecondConfig::Vp { .. } => Factors { skip: 1.0, out: -sigma, input: unit, noise },
            PrecondConfig::Ve { .. } => Factors { skip: 1.0, out: sigma, input: 1.0, noise },
            PrecondConfig::Iddpm { .. } => Factors { skip: 1.0, out: -sigma, input: unit, noise },
        }
    }

    /// Their derivatives in the level.
    pub(super) fn slopes(&self, sigma: f64) -> Factors {
        let q = 1.0 + sigma * sigma;
        let input = -sigma / (q * libm::sqrt(q));
        match self.config {
            PrecondConfig::Edm { sigma_data: s, .. } => {
                let q = sigma * sigma + s * s;
                let q_3_2 = q * libm::sqrt(q);
                let skip = -2.0 * sigma * s * s / (q * q);
                Factors { skip, out: s * s * s / q_3_2, input: -sigma / q_3_2, noise: 0.25 / sigma }
            }
            PrecondConfig::Vp { beta_d, beta_min, steps, .. } => {
                let root = libm::sqrt(beta_min * beta_min + 2.0 * beta_d * libm::log1p(sigma * sigma));
                Factors { skip: 0.0, out: -1.0, input, noise: (steps - 1) as f64 * 2.0 * sigma / (q * root) }
            }
            PrecondConfig::Ve { .. } => Factors { skip: 0.0, out: 1.0, input: 0.0, noise: 1.0 / sigma },
            // The index is piecewise constant.
            PrecondConfig::Iddpm { .. } => Factors { skip: 0.0, out: -1.0, input, noise: 0.0 },
        }
    }

    fn noise(&self, sigma: f32) -> f32 {
        match self.config {
            PrecondConfig::Edm { .. } => libm::logf(sigma) / 4.0,
            PrecondConfig::Vp { beta_d, beta_min, steps, .. } => {
                let (beta_d, beta_min) = (beta_d as f32, beta_min as f32);
                let log = libm::logf(1.0 + sigma * sigma);
                let t = (libm::sqrtf(beta_min * beta_min + 2.0 * beta_d * log) - beta_min) / beta_d;
                (steps - 1) as f32 * t
            }
            PrecondConfig::Ve { .. } => libm::logf(0.5 * sigma),
            PrecondConfig::Iddpm { steps, .. } => steps as f32 - 1.0 - nearest(&self.table, sigma) as f32,
        }
    }
}

/// Index of the entry next to `value`, the first of two equally near.
fn nearest(table: &[f32], value: f32) -> usize {
    let distance = |i: usize| (table[i] - value).abs();
    (1..table.len()).fold(0, |best, i| if distance(i) < distance(best) { i } else { best })
}

/// ᾱ_j = sin²(½π·j/(M(C₂+1))), u_M = 0, u_{j−1} = √((u_j²+1)/max(ᾱ_{j−1}/ᾱ_j, C₁) − 1), in f32 as in training; for
/// files that leave the table out.
fn iddpm_table(steps: usize, c_1: f64, c_2: f64) -> Vec<f32> {
    let alpha_bar = |j: usize| {
        let angle = 0.5 * std::f64::consts::PI * j as f64 / (steps as f64 * (c_2 + 1.0));
        libm::pow(libm::sin(angle), 2.0) as f32
    };
    let mut table = vec![0f32; steps + 1];
    for j in (1..=steps).rev() {
        let ratio = (alpha_bar(j - 1) / alpha_bar(j)).max(c_1 as f32);
        table[j - 1] = libm::sqrtf((table[j] * table[j] + 1.0) / ratio - 1.0);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Precond> {
        let configs = [
            PrecondConfig::Edm { sigma_data: 0.5, sigma_min: 0.0, sigma_max: f64::INFINITY },
            PrecondConfig::Vp { beta_d: 19.9, beta_min: 0.1, steps: 1000, epsilon_t: 1e-5 },
            PrecondConfig::Ve { sigma_min: 0.02, sigma_max: 100.0 },
            PrecondConfig::Iddpm { steps: 1000, c_1: 0.001, c_2: 0.008 },
        ];
        configs.into_iter().map(|c| Precond::new(c, None)).collect()
    }

    #[test]
    fn slopes_are_derivatives() {
        for precond in all() {
            for sigma in [0.05, 0.7, 3.0, 40.0] {
                // c_noise is an f32, so the step must not be small.
                let (h, slope) = (1e-2 * sigma, precond.slopes(sigma));
                let (a, b) = (precond.factors(sigma - h), precond.factors(sigma + h));
                let close = |a: f64, b: f64, slope: f64, tolerance: f64| {
                    let fd = (b - a) / (2.0 * h);
                    assert!((fd - slope).abs() < tolerance * (1.0 + slope.abs()), "{fd} {slope} at {sigma}");
                };
                close(a.skip, b.skip, slope.skip, 1e-3);
                close(a.out, b.out, slope.out, 1e-3);
                close(a.input, b.input, slope.input, 1e-3);
                if !matches!(precond.config, PrecondConfig::Iddpm { .. }) {
                    close(a.noise, b.noise, slope.noise, 5e-3);
                }
            }
        }
    }

    #[test]
    fn ranges_and_tables_are_the_known_ones() {
        let [edm, vp, ve, iddpm] = <[Precond; 4]>::try_from(all()).ok().expect("four");
        assert_eq!(edm.sigma_range(), (0.002, 80.0));
        assert_eq!(vp.sigma_range(), (0.002, 80.0));
        assert_eq!(ve.sigma_range(), (0.02, 80.0));
        assert!((iddpm.sigma_range().0 - 0.006_422_3).abs() < 1e-5, "{:?}", iddpm.sigma_range());
        // u_M = 0 is the last entry of the table, u₀ the first.
        assert_eq!(iddpm.factors(0.0).noise, -1.0);
        assert_eq!(iddpm.factors(1e9).noise, 999.0);
        // PyTorch's f32 value; in f64 it would be 3.06161.
        assert!((vp.factors(0.02).noise - 3.061281).abs() < 1e-5);
    }
}
