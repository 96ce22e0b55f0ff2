//! Distance of samples to the teacher's, from the same noise.
//!
//! ```text
//! eᵢ = mean over entries (xᵢ − tᵢ)²,   ē = mean eᵢ,   s = standard error of ē
//! RMSE = √ē          ± s/(2√ē)
//! PSNR = 10·log₁₀(R²/ē)  ± 10/ln 10 · s/ē      R = 2, the range of [−1, 1]
//! ```
//!
//! Errors by the delta method: for the first order of a smooth function of a mean.

use super::Estimate;
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::{Tensor, squared_distance};

/// Width of [−1, 1].
const RANGE: f64 = 2.0;

/// The mean squared error of each sample.
pub fn squared_errors(samples: &Tensor, teacher: &Tensor) -> Result<Vec<f64>> {
    if samples.shape() != teacher.shape() {
        let (expected, found) = (teacher.shape().to_vec(), samples.shape().to_vec());
        return Err(Error::Shape { what: "samples to compare".into(), expected, found });
    }
    let len = samples.sample_len() as f64;
    Ok((0..samples.samples()).map(|i| squared_distance(samples.sample(i), 1.0, teacher.sample(i)) / len).collect())
}

/// Root of the mean of `errors`, the mean squared error of each sample.
pub fn rmse(errors: &[f64]) -> Estimate {
    let value = mean(errors).sqrt();
    through(value, errors, 0.5 / value)
}

/// Peak signal to noise in decibels, of images in [−1, 1]; infinite where there is no difference at all.
pub fn psnr(errors: &[f64]) -> Estimate {
    let mean = mean(errors);
    through(10.0 * (RANGE * RANGE / mean).log10(), errors, -10.0 / std::f64::consts::LN_10 / mean)
}

fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / errors.len() as f64
}

/// A function of the mean by its value and its slope there.
fn through(value: f64, errors: &[f64], slope: f64) -> Estimate {
    // Without any difference there is nothing to be uncertain of.
    let slope = if slope.is_finite() { slope } else { 0.0 };
    Estimate::from_influence(value, &errors.iter().map(|e| slope * e).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Rng;

    #[test]
    fn known_distances() {
        let a = Tensor::new([2, 1, 1, 2], vec![0.0, 0.0, 1.0, -1.0]).unwrap();
        let b = Tensor::new([2, 1, 1, 2], vec![0.2, -0.2, 1.0, -0.6]).unwrap();
        let errors = squared_errors(&a, &b).unwrap();
        assert!((errors[0] - 0.04).abs() < 1e-16 && (errors[1] - 0.08).abs() < 1e-16);
        assert!((rmse(&errors).value - 0.06f64.sqrt()).abs() < 1e-16);
        assert!((psnr(&errors).value - 10.0 * (4.0f64 / 0.06).log10()).abs() < 1e-12);
        let same = squared_errors(&a, &a).unwrap();
        assert_eq!((rmse(&same).value, rmse(&same).error, psnr(&same).value), (0.0, 0.0, f64::INFINITY));
        assert!(squared_errors(&a, &a.slice(0..1)).is_err());
    }

    #[test]
    fn errors_are_those_of_repeated_draws() {
        let spread = |values: &[f64]| Estimate::mean(values).error * (values.len() as f64).sqrt();
        let draws: Vec<Vec<f64>> = (0..400)
            .map(|seed| {
                let z = Rng::Native.latents(&[seed], [1, 10, 20]).unwrap();
                z.data().chunks(2).map(|p| 0.1 * (p[0] * p[0] + p[1] * p[1])).collect()
            })
            .collect();
        for measure in [rmse, psnr] {
            let found: Vec<f64> = draws.iter().map(|d| measure(d).value).collect();
            let claimed = draws.iter().map(|d| measure(d).error).sum::<f64>() / draws.len() as f64;
            assert!((claimed / spread(&found) - 1.0).abs() < 0.1, "{claimed} {}", spread(&found));
        }
    }
}
