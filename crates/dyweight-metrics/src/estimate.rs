//! A measured number.
//!
//! ```text
//! ψᵢ            what sample i does to the number: it is v + mean ψ to first order, with mean ψ = 0 over the samples at
//!               hand
//! error         sd(ψ)/√n
//! groups        g_k = Σ ψᵢ/n over the samples of group k
//! difference    a − b,   error² = G/(G−1)·Σ (g_k(a) − g_k(b))²
//! trainings     v = mean vⱼ,   training error = sd(v)/√k,
//!                                                widened in a difference by t₀.₉₇₅(k−1)/1.96: few trainings say little
//! ```
//!
//! Solvers that start from the same noise make similar samples, and err alike: what their numbers share drops out of
//! the difference, whose error can be far smaller than those of the numbers. (Of samples that share nothing the formula
//! gives the root of the sum of squares, as it should.)

use serde::{Deserialize, Serialize};
use std::fmt;

/// A number with its standard error and the samples behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// One standard error: what other samples of the same count would change it by.
    pub error: f64,
    /// Samples.
    pub count: usize,
    /// One standard error over trainings: what other seeds of the training pairs would change it by.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub training_error: f64,
    /// Trainings whose mean it is; 0 or 1 if their spread is not known.
    #[serde(default, skip_serializing_if = "is_none")]
    pub trainings: usize,
    /// What groups of samples do to the number; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<f32>,
}

/// Groups whose sums are kept: the error of a difference is good to 1/√(2·32), an eighth.
const GROUPS: usize = 32;

impl Estimate {
    /// A number whose error is known, and nothing more.
    pub fn new(value: f64, error: f64, count: usize) -> Self {
        Self { value, error, count, training_error: 0.0, trainings: 0, groups: Vec::new() }
    }

    /// The mean over trainings, judged on the same samples. A single one is passed on as it is.
    pub fn over_trainings(found: Vec<Self>) -> Option<Self> {
        let (k, first) = (found.len() as f64, found.first()?.clone());
        if found.len() == 1 {
            return Some(first);
        }
        let value = found.iter().map(|e| e.value).sum::<f64>() / k;
        let scatter: f64 = found.iter().map(|e| (e.value - value).powi(2)).sum();
        let many = first.groups.len();
        let same = found.iter().all(|e| e.groups.len() == many && e.count == first.count);
        let group = |g: usize| found.iter().map(|e| f64::from(e.groups[g])).sum::<f64>() / k;
        let groups: Vec<f32> = if same { (0..many).map(|g| group(g) as f32).collect() } else { Vec::new() };
        // What trainings do not share of the samples' effect is small; the mean of their errors is no less than the
        // error of their mean.
        let error = found.iter().map(|e| e.error).sum::<f64>() / k;
        let training_error = (scatter / (k - 1.0) / k).sqrt();
        Some(Self { value, error, count: first.count, training_error, trainings: found.len(), groups })
    }

    /// Both errors in one.
    pub fn total_error(&self) -> f64 {
        self.error.hypot(self.training_error)
    }

    /// The error over trainings as a difference has to take it.
    fn widened(&self) -> f64 {
        let factor = match self.trainings {
            0 | 1 => 1.0,
            2..=10 => WIDER[self.trainings - 2],
            _ => 1.1,
        };
        factor * self.training_error
    }

    /// The mean of values that are independent of each other.
    pub fn mean(values: &[f64]) -> Self {
        Self::from_influence(values.iter().sum::<f64>() / values.len() as f64, values)
    }

    /// A number by what each sample does to it, up to a constant.
    pub(crate) fn from_influence(value: f64, influence: &[f64]) -> Self {
        let (count, n) = (influence.len(), influence.len() as f64);
        let mean = influence.iter().sum::<f64>() / n;
        let scatter: f64 = influence.iter().map(|v| (v - mean).powi(2)).sum();
        let many = GROUPS.min(count);
        let group = |k: usize| &influence[k * count / many..(k + 1) * count / many];
        let sum = |k: usize| (group(k).iter().map(|v| v - mean).sum::<f64>() / n) as f32;
        let groups: Vec<f32> = (0..many).map(sum).collect();
        let groups = if groups.iter().all(|g| g.is_finite()) { groups } else { Vec::new() };
        Self { groups, ..Self::new(value, (scatter / (n - 1.0) / n).sqrt(), count) }
    }

    /// The difference to `other`, with its own error where both are known sample by sample.
    pub fn minus(&self, other: &Self) -> Self {
        let value = self.value - other.value;
        let many = self.groups.len();
        let training_error = self.widened().hypot(other.widened());
        let trainings = self.trainings.max(other.trainings);
        if many < 2 || many != other.groups.len() || self.count != other.count {
            let apart = Self::new(value, self.error.hypot(other.error), self.count.min(other.count));
            return Self { training_error, trainings, ..apart };
        }
        let groups: Vec<f32> = self.groups.iter().zip(&other.groups).map(|(a, b)| a - b).collect();
        let scatter: f64 = groups.iter().map(|g| f64::from(*g).powi(2)).sum();
        let error = (scatter * many as f64 / (many - 1) as f64).sqrt();
        Self { value, error, count: self.count, training_error, trainings, groups }
    }

    /// Its square, with errors to first order.
    pub fn squared(&self) -> Self {
        let slope = 2.0 * self.value;
        Self {
            value: self.value * self.value,
            error: slope.abs() * self.error,
            training_error: slope.abs() * self.training_error,
            groups: self.groups.iter().map(|g| (slope * f64::from(*g)) as f32).collect(),
            ..self.clone()
        }
    }

    /// Whether a difference is above 0, where it is clear: beyond two standard errors over samples and trainings,
    /// widened for few of these.
    pub fn clear_sign(&self) -> Option<bool> {
        (self.value.abs() > 2.0 * self.error.hypot(self.widened())).then_some(self.value > 0.0)
    }

    /// The number with its sign turned.
    pub fn negated(&self) -> Self {
        let groups = self.groups.iter().map(|g| -g).collect();
        Self { value: -self.value, groups, ..self.clone() }
    }

    /// True if this is smaller than `other` by more than two standard errors of their difference, over samples and
    /// trainings both.
    pub fn clearly_below(&self, other: &Self) -> bool {
        let difference = other.minus(self);
        difference.value > 2.0 * difference.total_error()
    }
}

/// t₀.₉₇₅(k−1)/1.96 for 2 to 10 trainings: by so much two standard errors of so few are too narrow.
const WIDER: [f64; 9] = [6.48, 2.20, 1.62, 1.42, 1.31, 1.25, 1.21, 1.18, 1.15];

fn is_zero(error: &f64) -> bool {
    *error == 0.0
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

impl fmt::Display for Estimate {
    /// As many digits as the error leaves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sound = self.error.is_finite() && self.error > 0.0;
        let digits = if sound { (1.0 - self.error.log10().floor()).clamp(0.0, 9.0) as usize } else { 4 };
        write!(f, "{:.digits$} ± {:.digits$}", self.value, self.error)?;
        if self.trainings > 1 { write!(f, " ± {:.digits$}", self.training_error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Rng;

    #[test]
    fn a_mean_knows_its_error_and_prints_the_digits_that_count() {
        let mean = Estimate::mean(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!((mean.value, mean.count), (2.5, 4));
        assert!((mean.error - (5.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
        assert_eq!(mean.to_string(), "2.50 ± 0.65");
        let [low, near, far] = [1.0, 1.2, 1.3].map(|value| Estimate::new(value, 0.1, 9));
        assert!(!low.clearly_below(&near) && low.clearly_below(&far));
    }

    #[test]
    fn differences_of_the_same_trainings_leave_out_what_those_share() {
        let pairs = [(1.0, 1.1), (1.4, 1.52), (0.8, 0.89)];
        let of = |value: f64| Estimate::new(value, 0.01, 9);
        let all = |pick: fn(&(f64, f64)) -> f64| {
            Estimate::over_trainings(pairs.iter().map(|pair| of(pick(pair))).collect()).unwrap()
        };
        assert!(!all(|pair| pair.0).clearly_below(&all(|pair| pair.1)));
        let differences = pairs.iter().map(|(a, b)| of(*a).minus(&of(*b))).collect();
        let paired = Estimate::over_trainings(differences).unwrap();
        assert_eq!(paired.clear_sign(), Some(false));
        assert_eq!(Estimate::new(0.1, 0.06, 9).clear_sign(), None);
    }

    #[test]
    fn a_square_errs_by_twice_the_number() {
        let values = [1.0, 2.0, 3.0, 4.0];
        let square = Estimate::mean(&values).squared();
        assert_eq!((square.value, square.count), (6.25, 4));
        assert!((square.error - 5.0 * Estimate::mean(&values).error).abs() < 1e-15);
        assert!((square.minus(&square).error).abs() < 1e-15);
    }

    #[test]
    fn clearly_takes_trainings_into_account() {
        let of = |values: &[f64]| {
            Estimate::over_trainings(values.iter().map(|v| Estimate::new(*v, 0.01, 9)).collect()).unwrap()
        };
        let other = Estimate::new(1.3, 0.01, 9);
        let (steady, shaky) = (of(&[1.0, 1.01, 0.99, 1.0, 1.0]), of(&[0.7, 1.3, 1.0, 0.8, 1.2]));
        assert!((steady.value - 1.0).abs() < 1e-12 && (shaky.value - 1.0).abs() < 1e-12);
        assert!(steady.clearly_below(&other) && !shaky.clearly_below(&other));
        assert!((shaky.training_error - (0.26f64 / 4.0 / 5.0).sqrt()).abs() < 1e-12, "{}", shaky.training_error);
        // Two trainings that agree by chance say little; one says nothing, and is what it was.
        assert!(!of(&[1.1, 1.0]).clearly_below(&other));
        assert_eq!(of(&[1.1]), Estimate::new(1.1, 0.01, 9));
        assert_eq!(shaky.to_string(), "1.000 ± 0.010 ± 0.114");
    }

    #[test]
    fn what_two_numbers_share_is_no_error_of_their_difference() {
        let draws = |seed: u64| Rng::Native.latents(&[seed], [1, 1, 2000]).unwrap().data().to_vec();
        let with = |base: &[f64], shift: f64, noise: &[f64]| -> Vec<f64> {
            base.iter().zip(noise).map(|(b, z)| b + shift + 0.1 * z).collect()
        };
        let (mut paired, mut apart) = (Vec::new(), Vec::new());
        for seed in 0..200 {
            let (base, other) = (draws(4 * seed), draws(4 * seed + 1));
            let (y, z) = (draws(4 * seed + 2), draws(4 * seed + 3));
            let a = Estimate::mean(&with(&base, 0.0, &y));
            paired.push(a.minus(&Estimate::mean(&with(&base, 0.02, &z))));
            apart.push(a.minus(&Estimate::mean(&with(&other, 0.02, &z))));
            assert!(a.error > 0.02 && a.minus(&a) == Estimate { error: 0.0, ..a.minus(&a) });
        }
        for differences in [&paired, &apart] {
            let values: Vec<f64> = differences.iter().map(|d| d.value).collect();
            let spread = Estimate::mean(&values).error * 200f64.sqrt();
            let claimed = (differences.iter().map(|d| d.error.powi(2)).sum::<f64>() / 200.0).sqrt();
            assert!((claimed / spread - 1.0).abs() < 0.15, "{claimed} {spread}");
        }
        // 0.02 is six errors of the one difference and less than one of the other.
        let clear = |differences: &[Estimate]| differences.iter().filter(|d| d.value < -2.0 * d.error).count();
        assert!(clear(&paired) == 200 && clear(&apart) < 60, "{} {}", clear(&paired), clear(&apart));
        // Numbers of other samples, or without samples, fall back on their own errors.
        let (a, b) = (Estimate::mean(&draws(1)), Estimate::mean(&draws(2)[..1000]));
        assert_eq!(a.minus(&b).error, a.error.hypot(b.error));
        assert_eq!(a.negated().minus(&b.negated()).value, b.minus(&a).value);
    }
}
