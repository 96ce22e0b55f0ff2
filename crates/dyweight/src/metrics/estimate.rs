//! A measured number.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A number with its standard error and the samples behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// One standard error: what other samples of the same count would change it by.
    pub error: f64,
    /// Samples.
    pub count: usize,
}

impl Estimate {
    /// The mean of values that are independent of each other.
    pub fn mean(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let value = values.iter().sum::<f64>() / n;
        let scatter: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
        Self { value, error: (scatter / (n - 1.0) / n).sqrt(), count: values.len() }
    }

    /// True if this is smaller than `other` by more than two standard errors of their difference.
    pub fn clearly_below(&self, other: &Self) -> bool {
        other.value - self.value > 2.0 * self.error.hypot(other.error)
    }
}

impl fmt::Display for Estimate {
    /// As many digits as the error leaves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sound = self.error.is_finite() && self.error > 0.0;
        let digits = if sound { (1.0 - self.error.log10().floor()).clamp(0.0, 9.0) as usize } else { 4 };
        write!(f, "{:.digits$} ± {:.digits$}", self.value, self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_knows_its_error_and_prints_the_digits_that_count() {
        let mean = Estimate::mean(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!((mean.value, mean.count), (2.5, 4));
        assert!((mean.error - (5.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
        assert_eq!(mean.to_string(), "2.50 ± 0.65");
        let low = Estimate { value: 1.0, error: 0.1, count: 9 };
        let near = Estimate { value: 1.2, error: 0.1, count: 9 };
        let far = Estimate { value: 1.3, error: 0.1, count: 9 };
        assert!(!low.clearly_below(&near) && low.clearly_below(&far));
    }
}
