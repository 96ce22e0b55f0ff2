//! The learning rate over a run.
//!
//! ```text
//! warm-up   w = ⌊0.1·T⌋;   i < w: 0.1 + 0.9·i/w;   i ≥ w: 0.01 + 0.99·½(1 + cos π(i−w)/(T−w))     times the base rate
//! cosine    0.01 + (base − 0.01)·½(1 + cos πi/(T+1))
//! constant  base
//! ```

use serde::{Deserialize, Serialize};

/// Which rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateRule {
    /// Linear warm-up, then a cosine to a hundredth.
    #[default]
    WarmUp,
    /// A cosine to 0.01, whatever the base rate; EPD's.
    Cosine,
    /// Always the same.
    Constant,
}

/// Where [`RateRule::Cosine`] ends.
const FLOOR: f64 = 0.01;

/// A rate rule with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The highest rate.
    pub base: f64,
    /// Iterations in all.
    pub iterations: usize,
    /// Fraction of the iterations that warm up.
    pub warm_up: f64,
    /// Fraction of the base rate at which the warm-up starts.
    pub start: f64,
    /// Fraction of the base rate at which the cosine ends.
    pub end: f64,
}

impl Rate {
    /// The released recipe on a base rate.
    pub fn new(base: f64, iterations: usize) -> Self {
        Self { base, iterations, warm_up: 0.1, start: 0.1, end: 0.01 }
    }

    /// A rule on a base rate.
    pub fn of(rule: RateRule, base: f64, iterations: usize, warm_up: f64) -> Self {
        match rule {
            RateRule::WarmUp => Self { warm_up, ..Self::new(base, iterations) },
            // The last iteration is one short of the floor, as the released code has it.
            RateRule::Cosine => {
                Self { base, iterations: iterations + 1, warm_up: 0.0, start: 1.0, end: (FLOOR / base).min(1.0) }
            }
            RateRule::Constant => Self { base, iterations, warm_up: 0.0, start: 1.0, end: 1.0 },
        }
    }

    /// The rate of iteration `i`.
    pub fn at(&self, i: usize) -> f64 {
        let warm = (self.warm_up * self.iterations as f64).floor() as usize;
        let factor = if i < warm {
            self.start + (1.0 - self.start) * i as f64 / warm as f64
        } else {
            let done = (i - warm) as f64 / (self.iterations.saturating_sub(warm)).max(1) as f64;
            self.end + (1.0 - self.end) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
        };
        self.base * factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_released_rule() {
        let rate = Rate::new(0.03, 40);
        // From a trace of the reference implementation.
        for (i, factor) in
            [(0, 0.1), (1, 0.325), (4, 1.0), (5, 0.9981163755554141), (22, 0.505), (39, 0.011883624444585955)]
        {
            assert!((rate.at(i) / 0.03 - factor).abs() < 1e-14, "{i}");
        }
        assert_eq!(Rate::new(1.0, 1).at(0), 1.0);
    }
}
