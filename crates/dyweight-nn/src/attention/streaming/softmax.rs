//! The softmax of a row of scores, on its way over blocks of keys, and its weights again for the gradient.
//!
//! ```text
//! forward    m = max(so far, scores),  scores ← e^{scores − m},  total ← total·e^{so far − m} + Σ scores
//! gradient   A = e^{S − L},  gS = A∘(pull − weighted)·scale
//! ```
//!
//! `eˣ` as [`crate::activation`] has it, with fused multiply-adds where there are any: attention over thousands of
//! tokens in narrow heads spends a tenth of its time here.

use super::ROWS;
use crate::isa::Kernel;
use crate::simd::Simd;

/// Floats taken at once, whatever the length of vectors: the order of sums is the same.
const STEP: usize = 16;
/// Vectors in that many floats, at most.
const MOST: usize = 4;
/// Below, weights are 0.
const LOWEST: f32 = -87.0;

/// `eˣ` for x up to 88, and 0 below −87 (so of −∞); NaN stays NaN.
#[inline(always)]
unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    /// Adding 1.5·2²³ rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    // SAFETY: the caller runs under `S`.
    unsafe {
        let fit = |p: S::V, f: S::V, c: f32| S::mul_add(p, f, S::splat(c));
        let bounded = S::max(S::splat(LOWEST), x);
        let n = S::sub(S::mul_add(bounded, S::splat(std::f32::consts::LOG2_E), S::splat(ROUND)), S::splat(ROUND));
        // ln 2 in two parts, so that the remainder is exact.
        let f = S::neg_mul_add(n, S::splat(0.693_359_4), bounded);
        let f = S::mul_add(n, S::splat(2.121_944_4e-4), f);
        let p = fit(S::splat(1.987_569_1e-4), f, 1.398_2e-3);
        let p = fit(p, f, 8.333_452e-3);
        let p = fit(p, f, 4.166_579_6e-2);
        let p = fit(p, f, 1.666_666_5e-1);
        let p = fit(p, f, 0.5);
        let mantissa = S::add(S::mul_add(p, S::mul(f, f), f), S::splat(1.0));
        S::zero_below(S::times_power_of_two(mantissa, n), x, LOWEST)
    }
}

/// The same of one number.
#[inline(always)]
fn exp_of_one<S: Simd>(x: f32) -> f32 {
    let mut e = [0.0; STEP];
    // SAFETY: kernels run under `S`; there is room for a vector.
    unsafe { S::store(e.as_mut_ptr(), exp::<S>(S::splat(x))) };
    e[0]
}

/// Turns scores of some queries into `e^{score − largest}`, with each row's largest so far, and adds them to its
/// total. In two passes, so that rows do not wait for each other's largest.
pub(super) struct Exponentials<'a> {
    /// Rows of `len` scores, `stride` apart.
    pub(super) scores: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) len: usize,
    /// A number for each row.
    pub(super) so_far: &'a mut [f32],
    pub(super) totals: &'a mut [f32],
    /// Factors by which everything gathered before must shrink; some more may be written.
    pub(super) shrink: &'a mut [f32; ROWS],
}

impl Kernel for Exponentials<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { scores, stride, len, so_far, totals, shrink } = self;
        let mut references = [0.0; ROWS];
        shrink.fill(0.0);
        for (r, row) in scores.chunks(stride).take(so_far.len()).enumerate() {
            let block = largest::<S>(&row[..len]);
            let new = if block > so_far[r] { block } else { so_far[r] };
            // Finite even where everything is hidden: −∞ less a finite number is −∞ still.
            references[r] = if new > f32::MIN { new } else { f32::MIN };
            shrink[r] = so_far[r] - references[r];
            so_far[r] = new;
        }
        for chunk in shrink.chunks_exact_mut(STEP) {
            for lane in (0..STEP).step_by(S::LANES) {
                // SAFETY: kernels run under `S`; a vector within a chunk of `STEP` floats, a multiple of `LANES`.
                unsafe {
                    let at = chunk.as_mut_ptr().add(lane);
                    S::store(at, exp::<S>(S::load(at)));
                }
            }
        }
        for (r, row) in scores.chunks_mut(stride).take(so_far.len()).enumerate() {
            totals[r] = totals[r] * shrink[r] + exponentials::<S>(&mut row[..len], references[r]);
        }
    }
}

/// The largest score; −∞ of none.
#[inline(always)]
fn largest<S: Simd>(scores: &[f32]) -> f32 {
    let (whole, rest) = scores.as_chunks::<STEP>();
    let mut parts = [f32::NEG_INFINITY; STEP];
    // SAFETY: kernels run under `S`; pointers stay within chunks of `STEP` floats, a multiple of `LANES`.
    unsafe {
        let mut most = [S::splat(f32::NEG_INFINITY); MOST];
        for chunk in whole {
            for (i, most) in most.iter_mut().enumerate().take(STEP / S::LANES) {
                // In this order NaN is passed over.
                *most = S::max(S::load(chunk.as_ptr().add(i * S::LANES)), *most);
            }
        }
        for (i, most) in most.into_iter().enumerate().take(STEP / S::LANES) {
            S::store(parts.as_mut_ptr().add(i * S::LANES), most);
        }
    }
    parts.iter().chain(rest).fold(f32::NEG_INFINITY, |most, x| if *x > most { *x } else { most })
}

/// Turns a row of scores into `e^{score − reference}`; returns their sum.
#[inline(always)]
fn exponentials<S: Simd>(scores: &mut [f32], reference: f32) -> f32 {
    let (whole, rest) = scores.as_chunks_mut::<STEP>();
    let mut parts = [0.0; STEP];
    // SAFETY: kernels run under `S`; pointers stay within chunks of `STEP` floats, a multiple of `LANES`.
    unsafe {
        let subtracted = S::splat(reference);
        let mut sums = [S::splat(0.0); MOST];
        for chunk in whole {
            for (i, sum) in sums.iter_mut().enumerate().take(STEP / S::LANES) {
                let at = chunk.as_mut_ptr().add(i * S::LANES);
                let e = exp::<S>(S::sub(S::load(at), subtracted));
                S::store(at, e);
                *sum = S::add(*sum, e);
            }
        }
        for (i, sum) in sums.into_iter().enumerate().take(STEP / S::LANES) {
            S::store(parts.as_mut_ptr().add(i * S::LANES), sum);
        }
    }
    let mut sum = parts.iter().sum::<f32>();
    for score in rest {
        *score = exp_of_one::<S>(*score - reference);
        sum += *score;
    }
    sum
}

/// Turns a row of scores of one key into its weights, and what pulls at them into what pulls at the scores.
pub(super) struct Weights<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) pulls: &'a mut [f32],
    /// Of each query: the logarithm of its total, and its `rowsum(gO∘O)`.
    pub(super) sums: &'a [f32],
    pub(super) weighted: &'a [f32],
    pub(super) scale: f32,
}

impl Kernel for Weights<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let len = self.scores.len();
        assert!([self.pulls.len(), self.sums.len(), self.weighted.len()].iter().all(|other| *other == len));
        let (scores, pulls) = (self.scores.as_mut_ptr(), self.pulls.as_mut_ptr());
        let (sums, weighted) = (self.sums.as_ptr(), self.weighted.as_ptr());
        let whole = len - len % S::LANES;
        // SAFETY: kernels run under `S`; all four have `len` floats.
        unsafe {
            let scale = S::splat(self.scale);
            for at in (0..whole).step_by(S::LANES) {
                let weight = exp::<S>(S::sub(S::load(scores.add(at)), S::load(sums.add(at))));
                let pull = S::sub(S::load(pulls.add(at)), S::load(weighted.add(at)));
                S::store(scores.add(at), weight);
                S::store(pulls.add(at), S::mul(S::mul(weight, pull), scale));
            }
            let rest = len - whole;
            if rest > 0 {
                let load = |from: *const f32| S::load_part(from.add(whole), rest);
                let weight = exp::<S>(S::sub(load(scores), load(sums)));
                let pull = S::sub(load(pulls), load(weighted));
                S::store_part(scores.add(whole), weight, rest);
                S::store_part(pulls.add(whole), S::mul(S::mul(weight, pull), scale), rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    struct All<'a>(&'a mut [f32]);

    impl Kernel for All<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self) {
            self.0.iter_mut().for_each(|x| *x = exp_of_one::<S>(*x));
        }
    }

    #[test]
    fn the_exponential_is_exact_to_a_unit_or_two_on_every_instruction_set() {
        for isa in Isa::available() {
            let given: Vec<f32> = (0..40_000).map(|i| -86.9 + i as f32 * (86.9 + 20.0) / 40_000.0).collect();
            let mut found = given.clone();
            isa.run(All(&mut found));
            for (x, e) in given.iter().zip(&found) {
                let exact = f64::from(*x).exp();
                assert!((f64::from(*e) / exact - 1.0).abs() < 2.0e-7, "{isa:?}: e^{x} = {e}, not {exact}");
            }
            let mut odd = [f32::NEG_INFINITY, -87.1, -1e30, 0.0, f32::NAN];
            isa.run(All(&mut odd));
            assert!(odd[..3].iter().all(|e| *e == 0.0) && odd[3] == 1.0 && odd[4].is_nan(), "{isa:?}: {odd:?}");
        }
    }
}
