//! Fréchet distance of features: the Wasserstein-2 distance of two Gaussians with their means and covariances (Dowson
//! and Landau 1982), squared; FID where the features are Inception's (Heusel et al. 2017).
//!
//! ```text
//! FD  =  ‖μ−μᵣ‖² + tr(Σ + Σᵣ − 2(ΣΣᵣ)^½)
//!
//! tr(ΣΣᵣ)^½ = Σ singular values of FᵣᵀF,       Σ = FFᵀ,  Σᵣ = FᵣFᵣᵀ,  F = V·diag(√λ)
//! ```
//!
//! These are the roots of the eigenvalues of Σᵣ^½ΣΣᵣ^½, found so that small ones keep their digits, and a singular
//! covariance costs none. (The field takes the root of the non-symmetric product, and adds 10⁻⁶ to diagonals
//! when that fails.)
//!
//! The standard error is that of the mean of the influence function (what one sample does to the distance):
//!
//! ```text
//! ψᵢ = 2(μ−μᵣ)·cᵢ + cᵢᵀ(I−T)cᵢ,   cᵢ = xᵢ−μ,   error = sd(ψ)/√n
//! T  = Fᵣ U S⁻¹ Uᵀ Fᵣᵀ,  FᵣᵀF = U S Wᵀ      the optimal map Σ^-½(Σ^½ΣᵣΣ^½)^½Σ^-½ on the span of Σ; S⁻¹ without zeros
//! ```
//!
//! It says how much other samples would change the number: not how far it is from that of infinitely many. **The
//! distance is biased upwards**, by about c/n, and c is a property of the samples: compare equal n only.
//! `docs/metrics.md` has measured values. The reference counts as given.
//!
//! Samples of two solvers on the same noise are drawn together, and so is what they do to their distance ([`Paired`]):
//!
//! ```text
//! ψᵢ = ψᵢ(a to b) + ψᵢ(b to a)          0 where both are the same
//! ```

mod statistics;

pub use statistics::{Statistics, fashion};
pub(crate) use statistics::{fashion_by_judge, fashion_by_pixels};

use super::{Estimate, Features};
use crate::linalg::{Eigen, Matrix, Symmetric};
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use std::path::Path;

/// Negative eigenvalues up to this part of the largest come from rounding to f32 on the way; beyond, it is no
/// covariance.
const NEGATIVE: f64 = 1e-6;
/// A distance below zero by up to this part of its terms is rounding, and is zero.
const ROUNDING: f64 = 1e-10;
/// Rows whose influence is computed at once.
const BLOCK: usize = 1024;

/// Statistics that others are compared with, decomposed once.
pub struct Reference {
    statistics: Statistics,
    factor: Matrix,
}

impl Reference {
    /// Decomposes the covariance.
    pub fn new(statistics: Statistics) -> Result<Self> {
        Ok(Self { factor: factor(&statistics)?, statistics })
    }

    /// What is compared with.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The distance of other statistics, without an error: that needs the samples.
    pub fn distance(&self, statistics: &Statistics) -> Result<f64> {
        self.require_fit(statistics)?;
        let overlap = self.factor.transposed_times(&factor(statistics)?);
        let squares = overlap.outer_gram().eigen()?;
        Ok(self.combine(statistics, &overlap.singular_values(&squares)?))
    }

    /// The distance of samples by their features.
    pub fn estimate(&self, features: &Features) -> Result<Estimate> {
        let own = Self::of(features)?;
        let (value, influence) = self.with_influence(features, &own)?;
        Ok(Estimate::from_influence(value, &influence))
    }

    /// Samples that others are compared with.
    fn of(features: &Features) -> Result<Self> {
        Self::new(Statistics::of(features, Default::default())?)
    }

    /// The distance of samples with these statistics, and what each does to it.
    fn with_influence(&self, features: &Features, own: &Self) -> Result<(f64, Vec<f64>)> {
        self.require_fit(&own.statistics)?;
        let overlap = self.factor.transposed_times(&own.factor);
        let squares = overlap.outer_gram().eigen()?;
        let value = self.combine(&own.statistics, &overlap.singular_values(&squares)?);
        Ok((value, self.influence(features, &own.statistics, &squares)))
    }

    fn require_fit(&self, other: &Statistics) -> Result<()> {
        if let Some(problem) = self.statistics.source.conflict(&other.source) {
            return Err(Error::conflict(problem, "use statistics made with the same features"));
        }
        let (expected, found) = (vec![self.statistics.mu.len()], vec![other.mu.len()]);
        if expected == found { Ok(()) } else { Err(Error::Shape { what: "features".into(), expected, found }) }
    }

    /// `singular` rises: small ones are added first, so that they count.
    fn combine(&self, other: &Statistics, singular: &[f64]) -> f64 {
        let between: f64 = differences(other, &self.statistics).iter().map(|d| d * d).sum();
        let traces = other.sigma.trace() + self.statistics.sigma.trace();
        let value = between + traces - 2.0 * singular.iter().sum::<f64>();
        if value < 0.0 && value > -ROUNDING * (between + traces) { 0.0 } else { value }
    }

    /// The distance of other statistics, its derivative in their mean, and T: its derivative in their covariance is I −
    /// T.
    pub fn derivatives(&self, own: &Statistics) -> Result<(f64, Vec<f64>, Symmetric)> {
        self.require_fit(own)?;
        let overlap = self.factor.transposed_times(&factor(own)?);
        let squares = overlap.outer_gram().eigen()?;
        let value = self.combine(own, &overlap.singular_values(&squares)?);
        let slope = differences(own, &self.statistics).iter().map(|d| 2.0 * d).collect();
        Ok((value, slope, self.map(&squares).outer_gram()))
    }

    /// M with MMᵀ = T.
    fn map(&self, squares: &Eigen) -> Matrix {
        let first = squares.first_sound();
        // Eigenvalues are S²: the quadratic form of T is ‖S^-½·Uᵀ·Fᵣᵀ·c‖².
        let roots: Vec<f64> = squares.values[first..].iter().map(|v| v.powf(-0.25)).collect();
        self.factor.times(&squares.vectors.scaled_columns(first, &roots))
    }

    /// ψ of each sample.
    fn influence(&self, features: &Features, own: &Statistics, squares: &Eigen) -> Vec<f64> {
        let map = self.map(squares);
        let shift = differences(own, &self.statistics);
        let dims = features.dims();
        let mut influence = Vec::with_capacity(features.len());
        for block in features.rows().chunks(BLOCK * dims) {
            let centred = |i: usize, row: usize| f64::from(block[row * dims + i]) - own.mu[i];
            let centred = Matrix::from_fn(dims, block.len() / dims, centred);
            let mapped = map.transposed_times(&centred);
            influence.extend((0..centred.cols()).map(|row| {
                let (c, y) = (centred.column(row), mapped.column(row));
                let linear: f64 = c.iter().zip(&shift).map(|(c, s)| c * s).sum();
                2.0 * linear + c.iter().map(|v| v * v).sum::<f64>() - y.iter().map(|v| v * v).sum::<f64>()
            }));
        }
        influence
    }
}

/// Samples that others, made of the same noise, are compared with.
pub struct Paired {
    features: Features,
    reference: Reference,
}

impl Paired {
    /// Decomposes their covariance.
    pub fn new(features: Features) -> Result<Self> {
        Ok(Self { reference: Reference::of(&features)?, features })
    }

    /// The distance of samples of which the i-th has the noise of the i-th here.
    pub fn estimate(&self, features: &Features) -> Result<Estimate> {
        let (expected, found) = (vec![self.features.len()], vec![features.len()]);
        if expected != found {
            return Err(Error::Shape { what: "samples in pairs".into(), expected, found });
        }
        let own = Reference::of(features)?;
        let (value, there) = self.reference.with_influence(features, &own)?;
        let (_, back) = own.with_influence(&self.features, &self.reference)?;
        let both: Vec<f64> = there.iter().zip(&back).map(|(there, back)| there + back).collect();
        Ok(Estimate::from_influence(value, &both))
    }
}

fn differences(a: &Statistics, b: &Statistics) -> Vec<f64> {
    a.mu.iter().zip(&b.mu).map(|(x, y)| x - y).collect()
}

fn factor(statistics: &Statistics) -> Result<Matrix> {
    let eigen = statistics.sigma.eigen()?;
    require_covariance(&statistics.sigma, &eigen, statistics.source.images.as_deref().unwrap_or("statistics"))?;
    Ok(eigen.factor())
}

fn require_covariance(sigma: &Symmetric, eigen: &Eigen, name: &str) -> Result<()> {
    let (least, most) = (eigen.values.first().copied(), eigen.values.last().copied());
    match (least, most) {
        (Some(least), Some(most)) if least < -NEGATIVE * most.max(0.0) && sigma.dims() > 0 => {
            let problem = format!("'sigma' has the eigenvalue {least:e}, a covariance has none below zero");
            Err(Error::malformed(Path::new(name), Malformed::Inconsistent { problem }))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
