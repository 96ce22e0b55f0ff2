//! What several measurements of the same thing say: how long it takes, how sure that is, and which of them were
//! disturbed.
//!
//! ```text
//! outlier    |t − median| > 5 · 1.4826 · median|t − median|,   as far out as one in two million if times were normal
//! ratio      a/b ± a/b · √(sₐ²/a² + s_b²/b²),   s the standard error of a mean
//! ```

use serde_json::{Value, json};

/// Measurements in seconds.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    times: Vec<f64>,
}

/// Deviations beyond which a measurement is called an outlier.
const FAR: f64 = 5.0;
/// From the median of absolute deviations to a standard deviation.
const NORMAL: f64 = 1.4826;

impl Spread {
    /// One more.
    pub fn add(&mut self, seconds: f64) {
        self.times.push(seconds);
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// Their sum.
    pub fn total(&self) -> f64 {
        self.times.iter().sum()
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.total() / self.count().max(1) as f64
    }

    /// Their standard deviation; 0 of a single one.
    pub fn deviation(&self) -> f64 {
        let (mean, n) = (self.mean(), self.count() as f64);
        let scatter: f64 = self.times.iter().map(|t| (t - mean).powi(2)).sum();
        if n < 2.0 { 0.0 } else { (scatter / (n - 1.0)).sqrt() }
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        median(self.times.clone())
    }

    /// The smallest.
    pub fn fastest(&self) -> f64 {
        self.times.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest.
    pub fn slowest(&self) -> f64 {
        self.times.iter().copied().fold(0.0, f64::max)
    }

    /// How many lie so far from the middle that something else was going on.
    pub fn outliers(&self) -> usize {
        let middle = self.median();
        let apart = |t: &f64| (t - middle).abs();
        let scale = FAR * NORMAL * median(self.times.iter().map(apart).collect());
        self.times.iter().filter(|t| scale > 0.0 && apart(t) > scale).count()
    }

    /// How many times as long this takes as `other`, and the error of that.
    pub fn ratio(&self, other: &Self) -> (f64, f64) {
        let share = |s: &Self| (s.deviation() / s.mean()).powi(2) / s.count().max(1) as f64;
        let ratio = self.mean() / other.mean();
        (ratio, ratio * (share(self) + share(other)).sqrt())
    }

    /// As JSON.
    pub fn facts(&self) -> Value {
        json!({
            "mean": self.mean(), "stddev": self.deviation(), "median": self.median(), "min": self.fastest(), "max": self.slowest(),
            "runs": self.count(), "outliers": self.outliers(), "times": self.times,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
        _ => 0.5 * (values[middle - 1] + values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(times: &[f64]) -> Spread {
        Spread { times: times.to_vec() }
    }

    #[test]
    fn one_disturbed_measurement_is_named_and_moves_the_median_little() {
        let mut found = spread(&[1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01]);
        assert_eq!((found.outliers(), found.median()), (0, 1.0));
        found.add(3.0);
        assert_eq!(found.outliers(), 1);
        assert!((found.median() - 1.005).abs() < 1e-12 && found.slowest() == 3.0 && found.fastest() == 0.98);
        assert_eq!(spread(&[1.0, 1.0, 1.0, 2.0]).outliers(), 0, "of equal times none can be told apart");
    }

    #[test]
    fn a_ratio_knows_its_error() {
        let (slow, fast) = (spread(&[2.0, 2.2, 1.8, 2.0]), spread(&[1.0, 1.1, 0.9, 1.0]));
        let (ratio, error) = slow.ratio(&fast);
        assert!((ratio - 2.0).abs() < 1e-12);
        // Each mean is good to 4.08 %.
        assert!((error - 2.0 * 2f64.sqrt() * 0.1 * (2.0f64 / 3.0).sqrt() / 2.0).abs() < 1e-12, "{error}");
        assert_eq!(spread(&[1.0]).ratio(&spread(&[1.0])).1, 0.0);
    }
}
