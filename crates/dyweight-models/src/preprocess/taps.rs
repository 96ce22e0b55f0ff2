//! Which pixels of a line make a pixel of the resized line, and with which weights.
//!
//! Cubic convolution (Keys 1981) with parameter a, from n pixels to m; r = n/m:
//!
//! ```text
//! k(x)           (a+2)|x|³ − (a+3)|x|² + 1  for |x| < 1;   a(|x|³ − 5|x|² + 8|x| − 4)  for |x| < 2;   0 beyond
//! antialiased    f = max(r, 1), c = (o + ½)r;  pixels ⌊c − 2f + ½⌋ … ⌊c + 2f + ½⌋ − 1 on the line;  k((i − c + ½)/f)
//!                over their sum, a = −½
//! plain          s = r(o + ½) − ½, i = ⌊s⌋;  pixels i−1 … i+2, those off the line being its ends;  k(s − i − d), d =
//!                −1 … 2, a = −¾
//! ```

/// The pixels of one output: consecutive ones from `first` on.
#[derive(Clone, Debug)]
pub(super) struct Tap {
    pub(super) first: usize,
    pub(super) weights: Vec<f64>,
}

/// Reach of the kernel.
const SUPPORT: f64 = 2.0;

fn kernel(a: f64, x: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < SUPPORT {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

/// Taps that widen where the line gets shorter.
pub(super) fn antialiased(from: usize, to: usize) -> Vec<Tap> {
    let ratio = from as f64 / to as f64;
    let stretch = ratio.max(1.0);
    let (reach, shrink) = (SUPPORT * stretch, 1.0 / stretch);
    let tap = |o: usize| {
        let centre = (o as f64 + 0.5) * ratio;
        // `as usize` truncates and sends what is below zero to zero.
        let first = (centre - reach + 0.5) as usize;
        let end = ((centre + reach + 0.5) as usize).min(from);
        let mut weights: Vec<f64> = (first..end).map(|i| kernel(-0.5, (i as f64 - centre + 0.5) * shrink)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
        Tap { first, weights }
    };
    (0..to).map(tap).collect()
}

/// Four taps, however much shorter the line gets.
pub(super) fn plain(from: usize, to: usize) -> Vec<Tap> {
    let (ratio, last) = (from as f64 / to as f64, from as isize - 1);
    let tap = |o: usize| {
        let at = ratio * (o as f64 + 0.5) - 0.5;
        let (before, t) = (at.floor() as isize, at - at.floor());
        let place = |d: isize| (before + d).clamp(0, last) as usize;
        let first = place(-1);
        let mut weights = vec![0.0; place(2) - first + 1];
        (-1..=2).for_each(|d| weights[place(d) - first] += kernel(-0.75, t - d as f64));
        Tap { first, weights }
    };
    (0..to).map(tap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_stay_on_the_line() {
        for (from, to) in [(1, 7), (2, 224), (27, 43), (70, 32), (391, 340), (4000, 3)] {
            for taps in [antialiased(from, to), plain(from, to)] {
                assert_eq!(taps.len(), to);
                for tap in taps {
                    assert!(!tap.weights.is_empty() && tap.first + tap.weights.len() <= from);
                    assert!((tap.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn a_line_of_the_same_length_is_itself() {
        for taps in [antialiased(5, 5), plain(5, 5)] {
            for (o, tap) in taps.iter().enumerate() {
                let own = |i: usize| if i == o { 1.0 } else { 0.0 };
                let found = tap.weights.iter().enumerate();
                assert!(found.into_iter().all(|(i, w)| (w - own(tap.first + i)).abs() < 1e-12));
            }
        }
    }
}
