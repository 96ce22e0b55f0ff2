//! Adams–Bashforth methods: the classical table, and runs and gradients of their time-varying generalisation.
//!
//! Equation (4) of the paper, with weights W that may differ from step to step, newest slope first:
//!
//! ```text
//! y_{n+1} = y_n + h·Σ_q W_{n,q}·f_{n−q}                       q = 0, …, O − 1
//! e_{n+1} = e_n + [y*(t_n) − y*(t_{n+1})] + Σ_q W_{n,q}·s_{n−q},   s_j = h·y*'(t_j) + hλ·e_j
//! ```
//!
//! The second line is the same step for e = y − y* and one eigenvalue λ. Backwards, with μ_n = ∂L/∂e_n:
//!
//! ```text
//! ∂L/∂W_{n,q} = ⟨μ_{n+1}, s_{n−q}⟩,      μ_n = μ_{n+1} + conj(hλ)·Σ_q W_{n+q,q}·μ_{n+q+1}
//! ```
//!
//! The order is a constant of the compiled code, so that the sums over q have no loops.

use super::options::EndLoss;
use super::problem::{BLOCK, Basis, HALF, Track};

/// Classical weights of orders 1 to 4, newest slope first.
pub(super) const CLASSICAL: [&[f64]; 4] = [
    &[1.0],
    &[3.0 / 2.0, -1.0 / 2.0],
    &[23.0 / 12.0, -16.0 / 12.0, 5.0 / 12.0],
    &[55.0 / 24.0, -59.0 / 24.0, 37.0 / 24.0, -9.0 / 24.0],
];

/// The classical row as an array.
pub(super) fn classical<const O: usize>() -> [f64; O] {
    std::array::from_fn(|q| CLASSICAL[O - 1][q])
}

/// Room for one run and its gradient on tracks of one size.
pub(super) struct AdamsSweep {
    /// Exact states at the start.
    states: usize,
    blocks: usize,
    error: Vec<[f64; BLOCK]>,
    /// s_j for j = 0, …, S.
    slopes: Vec<[f64; BLOCK]>,
    /// μ_n for n = 0, …, S.
    pull: Vec<[f64; BLOCK]>,
    /// One sum of products for each weight.
    lanes: Vec<[f64; BLOCK]>,
}

impl AdamsSweep {
    pub(super) fn new(steps: usize, states: usize, blocks: usize) -> Self {
        let vectors = |count: usize| vec![[0.0; BLOCK]; count * blocks];
        let lanes = vec![[0.0; BLOCK]; (steps + 1 - states) * CLASSICAL.len()];
        Self { states, blocks, error: vectors(1), slopes: vectors(steps + 1), pull: vectors(steps + 1), lanes }
    }

    /// Runs the method with one row of weights for each step; returns ‖e(1)‖ in the given coordinates.
    #[inline(always)]
    pub(super) fn forward<const O: usize>(&mut self, track: &Track, basis: &Basis, rows: &[[f64; O]]) -> f64 {
        let (b, exact) = (self.blocks, self.states);
        self.error.fill([0.0; BLOCK]);
        self.slopes[..exact * b].copy_from_slice(&track.slopes[..exact * b]);
        for (row, n) in rows.iter().zip(exact - 1..track.steps) {
            let (past, next) = self.slopes.split_at_mut((n + 1) * b);
            let recent: [&[[f64; BLOCK]]; O] = std::array::from_fn(|q| &past[(n - q) * b..][..b]);
            let (error, jump) = (&mut self.error[..b], &track.jumps[n * b..][..b]);
            let (next, known, rates) = (&mut next[..b], &track.slopes[(n + 1) * b..][..b], &track.rates[..b]);
            for k in 0..b {
                let mut e = add(error[k], jump[k]);
                for q in 0..O {
                    e = fold(e, row[q], recent[q][k]);
                }
                error[k] = e;
                next[k] = add(known[k], rotate(rates[k], e));
            }
        }
        self.terminal(basis)
    }

    /// Puts RᵀR·e into the last adjoint and returns ‖e‖.
    #[inline(always)]
    fn terminal(&mut self, basis: &Basis) -> f64 {
        let last = self.pull.len() - self.blocks;
        let error = self.error.as_flattened();
        let mut groups = self.pull[last..].chunks_mut(4);
        let mut start = 0;
        for group in &mut groups {
            match group.len() {
                4 => gram_columns::<4>(basis, error, start, group),
                3 => gram_columns::<3>(basis, error, start, group),
                2 => gram_columns::<2>(basis, error, start, group),
                _ => gram_columns::<1>(basis, error, start, group),
            }
            start += group.len();
        }
        // Rounding can leave a square of −1e-30 where the error vanishes.
        let square = self.pull[last..].iter().zip(&self.error).fold([0.0; BLOCK], |sum, (a, b)| product(sum, *a, *b));
        across(square).max(0.0).sqrt()
    }

    /// Gradient of the loss of the last [`AdamsSweep::forward`], whose result was `norm`.
    #[inline(always)]
    pub(super) fn backward<const O: usize>(
        &mut self,
        track: &Track,
        (loss, norm): (EndLoss, f64),
        rows: &[[f64; O]],
        gradient: &mut [[f64; O]],
    ) {
        let (b, first) = (self.blocks, self.states - 1);
        let dims = match loss {
            EndLoss::Mse => 2.0 / track.dims as f64,
            EndLoss::L2 if norm > 0.0 => 1.0 / norm,
            EndLoss::L2 => 0.0,
        };
        let last = self.pull.len() - b;
        self.pull[last..].iter_mut().for_each(|v| *v = v.map(|v| v * dims));
        for n in (first..track.steps).rev() {
            self.products::<O>(n);
            if n > first {
                self.pull_back(track, rows, n);
            }
        }
        for (out, lanes) in gradient.as_flattened_mut().iter_mut().zip(&self.lanes) {
            *out = across(*lanes);
        }
    }

    /// The products that make up ⟨μ_{n+1}, s_{n−q}⟩, for all q. Adding across lanes is left for later, or the
    /// compiler would turn the loop around it.
    #[inline(always)]
    fn products<const O: usize>(&mut self, n: usize) {
        let b = self.blocks;
        let pull = &self.pull[(n + 1) * b..][..b];
        let recent: [&[[f64; BLOCK]]; O] = std::array::from_fn(|q| &self.slopes[(n - q) * b..][..b]);
        let mut lanes = [[0.0; BLOCK]; O];
        for k in 0..b {
            for q in 0..O {
                lanes[q] = product(lanes[q], pull[k], recent[q][k]);
            }
        }
        self.lanes[(n + 1 - self.states) * O..][..O].copy_from_slice(&lanes);
    }

    /// μ_n from the later ones.
    #[inline(always)]
    fn pull_back<const O: usize>(&mut self, track: &Track, rows: &[[f64; O]], n: usize) {
        let (b, first) = (self.blocks, self.states - 1);
        let (head, later) = self.pull.split_at_mut((n + 1) * b);
        let (out, next, rates) = (&mut head[n * b..][..b], &later[..b], &track.rates[..b]);
        // Rows beyond the last step count as zeros.
        let reach = O.min(track.steps - n);
        let weight: [f64; O] = std::array::from_fn(|q| if q < reach { rows[n + q - first][q] } else { 0.0 });
        let pulls: [&[[f64; BLOCK]]; O] = std::array::from_fn(|q| &later[q.min(reach - 1) * b..][..b]);
        for k in 0..b {
            let mut sum = [0.0; BLOCK];
            for q in 0..O {
                sum = fold(sum, weight[q], pulls[q][k]);
            }
            out[k] = add(next[k], rotate_back(rates[k], sum));
        }
    }
}

/// Blocks `start..start + G` of RᵀR·e. Several at once, because the sums of one alone wait for each other.
#[inline(always)]
fn gram_columns<const G: usize>(basis: &Basis, error: &[f64], start: usize, out: &mut [[f64; BLOCK]]) {
    let mut sums = [[0.0; BLOCK]; G];
    for (place, row) in basis.places.iter().zip(basis.gram.chunks_exact(basis.rates.len())) {
        let e = error[*place];
        let row = &row[start..start + G];
        for g in 0..G {
            sums[g] = fold(sums[g], e, row[g]);
        }
    }
    out.copy_from_slice(&sums);
}

#[inline(always)]
fn add(a: [f64; BLOCK], b: [f64; BLOCK]) -> [f64; BLOCK] {
    std::array::from_fn(|i| a[i] + b[i])
}

/// a + w·b.
#[inline(always)]
fn fold(a: [f64; BLOCK], w: f64, b: [f64; BLOCK]) -> [f64; BLOCK] {
    std::array::from_fn(|i| a[i] + w * b[i])
}

/// λ·z of four complex numbers.
#[inline(always)]
fn rotate(rate: [f64; BLOCK], z: [f64; BLOCK]) -> [f64; BLOCK] {
    let mut out = [0.0; BLOCK];
    for i in 0..HALF {
        out[i] = rate[i] * z[i] - rate[HALF + i] * z[HALF + i];
        out[HALF + i] = rate[i] * z[HALF + i] + rate[HALF + i] * z[i];
    }
    out
}

/// conj(λ)·z of four complex numbers.
#[inline(always)]
fn rotate_back(rate: [f64; BLOCK], z: [f64; BLOCK]) -> [f64; BLOCK] {
    let mut out = [0.0; BLOCK];
    for i in 0..HALF {
        out[i] = rate[i] * z[i] + rate[HALF + i] * z[HALF + i];
        out[HALF + i] = rate[i] * z[HALF + i] - rate[HALF + i] * z[i];
    }
    out
}

/// a + b·c, entry by entry.
#[inline(always)]
fn product(a: [f64; BLOCK], b: [f64; BLOCK], c: [f64; BLOCK]) -> [f64; BLOCK] {
    std::array::from_fn(|i| a[i] + b[i] * c[i])
}

/// Sum of the entries, always in the same order.
#[inline(always)]
fn across(lanes: [f64; BLOCK]) -> f64 {
    let quads: [f64; HALF] = std::array::from_fn(|i| lanes[i] + lanes[HALF + i]);
    (quads[0] + quads[2]) + (quads[1] + quads[3])
}
