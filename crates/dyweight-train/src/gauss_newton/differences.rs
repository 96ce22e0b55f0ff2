//! How long a difference may be: as long as a parabola is still nearly a line, and no shorter than what rounding leaves
//! to be seen.
//!
//! ```text
//! s  = |r(p + he) − 2r(p) + r(p − he)|       h²·|r″| and √6·ε
//! ε  = |r(p + 2u) − 2r(p + u) + r(p)|/√6     for a u so short that nothing bends: what rounding, or a noisy model,
//!    leaves
//! h* = 2·√(ε/|r″|)                           least h|r″|/2 + 2ε/h
//! ```
//!
//! f32 networks leave ε ~ 10⁻⁶, those of bf16 10⁻², and parameters bend a solve by very different amounts: one constant
//! serves neither.

use super::Residuals;

/// u is this share of a difference.
const SHORT: f64 = 1.0 / 64.0;
/// One iteration changes a difference by no more than this factor.
const CHANGE: f64 = 4.0;
/// No shorter, no longer.
const BOUNDS: (f64, f64) = (1e-4, 0.1);
/// Rounding of f64 in a solve, as a share of the residual's own movement: what is seen never falls below it.
const ROUNDING: f64 = 1e-9;

/// A point, and the point moved in each parameter in turn.
pub(super) fn forward(point: &[f64], steps: &[f64]) -> Vec<Vec<f64>> {
    std::iter::once(point.to_vec()).chain(one_by_one(point, steps, 1.0)).collect()
}

fn one_by_one(point: &[f64], steps: &[f64], sign: f64) -> impl Iterator<Item = Vec<f64>> {
    steps.iter().enumerate().map(move |(k, h)| {
        let mut moved = point.to_vec();
        moved[k] += sign * h;
        moved
    })
}

/// Solves of one look.
pub(super) fn probes(parameters: usize) -> usize {
    2 * parameters + 3
}

/// What one look needs: the point, both directions of each parameter, and two short steps in all of them.
pub(super) fn probe(point: &[f64], steps: &[f64]) -> Vec<Vec<f64>> {
    let short = |many: f64| {
        let sign = |k: usize| if k.is_multiple_of(2) { SHORT } else { -SHORT };
        point.iter().zip(steps).enumerate().map(|(k, (p, h))| p + many * sign(k) * h).collect()
    };
    let backward = one_by_one(point, steps, -1.0);
    forward(point, steps).into_iter().chain(backward).chain([short(1.0), short(2.0)]).collect()
}

/// Steps for the next differences, from the residuals of one pair.
pub(super) fn sized(steps: &[f64], found: &Residuals) -> Vec<f64> {
    let n = steps.len();
    let of = |candidate: usize| found[candidate][0].as_deref();
    let Some(base) = of(0) else { return shorter(steps) };
    let noise = match (of(2 * n + 1), of(2 * n + 2)) {
        (Some(one), Some(two)) => bend(two, one, base) / 6f64.sqrt(),
        _ => return shorter(steps),
    };
    let next = |(k, h): (usize, &f64)| match (of(1 + k), of(1 + n + k)) {
        (Some(above), Some(below)) => {
            let noise = noise.max(ROUNDING * distance(above, below));
            h * change(bend(above, base, below), noise)
        }
        _ => h / CHANGE,
    };
    steps.iter().enumerate().map(next).map(|h| h.clamp(BOUNDS.0, BOUNDS.1)).collect()
}

/// h*/h, within bounds.
fn change(bend: f64, noise: f64) -> f64 {
    let curved = (bend * bend - 6.0 * noise * noise).max(0.0).sqrt();
    if curved == 0.0 && noise == 0.0 {
        return 1.0;
    }
    (2.0 * (noise / curved).sqrt()).clamp(1.0 / CHANGE, CHANGE)
}

fn shorter(steps: &[f64]) -> Vec<f64> {
    steps.iter().map(|h| (h / CHANGE).clamp(BOUNDS.0, BOUNDS.1)).collect()
}

/// |a − 2b + c|.
fn bend(a: &[f64], b: &[f64], c: &[f64]) -> f64 {
    a.iter().zip(b).zip(c).map(|((a, b), c)| (a - 2.0 * b + c).powi(2)).sum::<f64>().sqrt()
}

/// |a − b|.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Residuals of one pair: three parameters that bend by `bent` and are rounded to a multiple of `grain`.
    fn looked(steps: &[f64], (bent, grain): (f64, f64)) -> Residuals {
        let round = |v: f64| if grain > 0.0 { (v / grain).round() * grain } else { v };
        let of = |p: &Vec<f64>| {
            let number = |k: usize| {
                let x = p[0] + 0.37 * k as f64;
                round(0.3 + x + 0.5 * bent * x * x + 0.01 * p.get(1).unwrap_or(&0.0))
            };
            vec![Some((0..200).map(number).collect())]
        };
        probe(&vec![0.123; steps.len()], steps).iter().map(of).collect()
    }

    #[test]
    fn what_bends_is_looked_at_closely_and_what_is_rough_from_afar() {
        let settled = |bent: f64, grain: f64| {
            let mut steps = vec![1e-2];
            (0..8).for_each(|_| steps = sized(&steps, &looked(&steps, (bent, grain))));
            steps[0]
        };
        // Rounding to multiples of g leaves ε = g/√12, and h* is 2√(ε/|r″|).
        for (bent, grain) in [(1.0, 1e-4), (1.0, 1e-5), (10.0, 1e-4)] {
            let best = 2.0 * (grain / 12f64.sqrt() / bent).sqrt();
            let ratio = settled(bent, grain) / best;
            assert!((0.4..2.5).contains(&ratio), "bent {bent}, grain {grain}: {ratio}");
        }
        assert_eq!(settled(1000.0, 0.0), BOUNDS.0);
        assert_eq!(settled(0.0, 1e-2), BOUNDS.1);
        assert_eq!(sized(&[1e-2], &looked(&[1e-2], (1000.0, 0.0))), [1e-2 / CHANGE]);
    }

    #[test]
    fn what_has_no_effect_or_diverges_is_not_trusted() {
        let still: Residuals = vec![vec![Some(vec![1.0, 2.0])]; probes(1)];
        assert_eq!(sized(&[1e-2], &still), [1e-2]);
        let mut lost = still.clone();
        lost[1] = vec![None];
        assert_eq!(sized(&[1e-2], &lost), [1e-2 / CHANGE]);
        assert_eq!(sized(&[1e-2], &vec![vec![None]; probes(1)]), [1e-2 / CHANGE]);
    }
}
