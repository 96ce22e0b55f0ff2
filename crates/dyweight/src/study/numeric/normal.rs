//! Standard normal numbers for the study's random problems: SplitMix64 and the Box–Muller transform.
//!
//! ```text
//! x = √(−2·ln u₁)·cos(2π·u₂),   u₁ ∈ (0, 1],  u₂ ∈ [0, 1)
//! ```
//!
//! Logarithm and cosine come from `libm`, so that a seed gives the same problems on every machine.

/// A stream of independent standard normal numbers.
pub(super) struct Normal {
    state: u64,
    spare: Option<f64>,
}

impl Normal {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, spare: None }
    }

    /// The stream of a named part of a study: every word changes all numbers.
    pub(super) fn named(words: &[u64]) -> Self {
        Self::new(words.iter().fold(0, |seed, word| mix(seed ^ word.wrapping_add(GOLDEN)).wrapping_add(GOLDEN)))
    }

    /// The next number.
    pub(super) fn draw(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt();
        let angle = std::f64::consts::TAU * self.uniform();
        self.spare = Some(radius * libm::sin(angle));
        radius * libm::cos(angle)
    }

    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(GOLDEN);
        (mix(self.state) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_normal_law() {
        let mut normal = Normal::named(&[1, 2, 3]);
        let draws: Vec<f64> = (0..200_000).map(|_| normal.draw()).collect();
        let moment = |k: i32| draws.iter().map(|x| x.powi(k)).sum::<f64>() / draws.len() as f64;
        assert!(moment(1).abs() < 0.01 && (moment(2) - 1.0).abs() < 0.015 && (moment(4) - 3.0).abs() < 0.1);
    }

    #[test]
    fn streams_differ_by_every_word() {
        let first = |words: &[u64]| Normal::named(words).draw();
        assert_ne!(first(&[0, 0]), first(&[0, 1]));
        assert_ne!(first(&[0, 1]), first(&[1, 0]));
        assert_eq!(first(&[7, 8]), first(&[7, 8]));
    }
}
