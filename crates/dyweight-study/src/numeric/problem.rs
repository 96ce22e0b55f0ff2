//! Random problems with a known solution, and their coordinates in the coupling's eigenbasis.
//!
//! Section 3.2 of the paper, on t ∈ [0, 1]:
//!
//! ```text
//! y*(t) = C·(1, t, …, tᴷ)ᵀ,  C ~ N(0, 4)        y' = y*'(t) + A·(y − y*(t)),  A = G − ½I
//! ```
//!
//! With e = y − y*, a step of a linear multistep method is linear in e and uses A only as a factor, so in the
//! eigenbasis A = R·Λ·R⁻¹ it acts on each eigenvalue alone: what costs D² per step in the given coordinates costs D.
//! The price is one change of basis per problem, and the Gram matrix RᵀR in the terminal norm ‖e‖² = zᵀRᵀR·z.
//!
//! Coordinates are stored in blocks of four complex numbers: four real parts, then four imaginary parts. A real
//! eigenvalue takes a complex place whose imaginary part stays 0; unused places stay 0.

use super::eigen::{Complex, Square, modes};
use super::options::{Coupling, Settings};
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Stream;

/// Numbers in a block: four real parts, four imaginary parts.
pub(super) const BLOCK: usize = 8;
/// Complex numbers in a block.
pub(super) const HALF: usize = BLOCK / 2;

/// One random problem.
pub(super) struct LinearProblem {
    /// Coefficients of the solution: D rows of K + 1.
    pub(super) solution: Vec<f64>,
    pub(super) degree: usize,
    /// A itself, which only the plain implementation needs.
    #[cfg(test)]
    pub(super) coupling: Square,
    pub(super) basis: Basis,
}

/// The eigenbasis of a coupling matrix.
pub(super) struct Basis {
    /// Eigenvalues, block by block.
    pub(super) rates: Vec<[f64; BLOCK]>,
    /// Where each of the D real coordinates is stored.
    pub(super) places: Vec<usize>,
    /// RᵀR: one row of blocks for each of the D coordinates.
    pub(super) gram: Vec<[f64; BLOCK]>,
    /// R⁻¹.
    inverse: Square,
}

impl LinearProblem {
    /// Draws a problem from a stream: first the solution, then the coupling.
    pub(super) fn draw(stream: &mut Stream, settings: &Settings, degree: usize) -> Result<Self> {
        let d = settings.dims;
        let solution = (0..d * (degree + 1)).map(|_| 2.0 * stream.normal()).collect();
        let scale = 0.1 / (d as f64).sqrt();
        let deviation = match settings.coupling {
            Coupling::Std => scale,
            Coupling::Variance => scale.sqrt(),
        };
        let mut coupling = Square { n: d, data: (0..d * d).map(|_| deviation * stream.normal()).collect() };
        (0..d).for_each(|i| coupling.set(i, i, coupling.at(i, i) - 0.5));
        let basis = Basis::of(&coupling)?;
        Ok(Self {
            solution,
            degree,
            #[cfg(test)]
            coupling,
            basis,
        })
    }

    /// y*(t).
    pub(super) fn truth(&self, t: f64) -> Vec<f64> {
        self.rows().map(|c| c.iter().rev().fold(0.0, |sum, c| sum * t + c)).collect()
    }

    /// y*'(t).
    pub(super) fn slope(&self, t: f64) -> Vec<f64> {
        let derive = |c: &[f64]| (1..c.len()).rev().fold(0.0, |sum, k| sum * t + k as f64 * c[k]);
        self.rows().map(derive).collect()
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.solution.chunks(self.degree + 1)
    }
}

impl Basis {
    fn of(a: &Square) -> Result<Self> {
        let modes = modes(a).ok_or_else(ill_conditioned)?;
        let blocks = modes.len().div_ceil(HALF);
        let mut rates = vec![[0.0; BLOCK]; blocks];
        let (mut places, mut columns) = (Vec::new(), Vec::new());
        for (slot, mode) in modes.iter().enumerate() {
            let (block, lane) = (slot / HALF, slot % HALF);
            rates[block][lane] = mode.value.0;
            rates[block][HALF + lane] = mode.value.1;
            places.push(block * BLOCK + lane);
            columns.push(mode.vector.iter().map(real_part(mode.value)).collect::<Vec<f64>>());
            if mode.value.1 > 0.0 {
                // v·z + conj(v·z) = 2·Re v·Re z − 2·Im v·Im z
                places.push(block * BLOCK + HALF + lane);
                columns.push(mode.vector.iter().map(|v| -2.0 * v.1).collect());
            }
        }
        let inverse = inverse_of_columns(&columns).ok_or_else(ill_conditioned)?;
        let gram = gram(&columns, &places, blocks);
        Ok(Self { rates, places, gram, inverse })
    }

    /// Length of a vector in this basis.
    pub(super) fn width(&self) -> usize {
        self.rates.len() * BLOCK
    }

    /// R⁻¹·v, in blocks.
    pub(super) fn coordinates(&self, v: &[f64]) -> Vec<[f64; BLOCK]> {
        let mut flat = vec![0.0; self.width()];
        for (row, place) in self.inverse.data.chunks(v.len()).zip(&self.places) {
            flat[*place] = row.iter().zip(v).map(|(r, v)| r * v).sum();
        }
        flat.as_chunks().0.to_vec()
    }
}

/// The column of R for the real coordinate: v for a real eigenvalue, 2·Re v for a pair.
fn real_part(value: Complex) -> impl Fn(&Complex) -> f64 {
    move |v| if value.1 > 0.0 { 2.0 * v.0 } else { v.0 }
}

fn gram(columns: &[Vec<f64>], places: &[usize], blocks: usize) -> Vec<[f64; BLOCK]> {
    let mut rows = vec![[0.0; BLOCK]; columns.len() * blocks];
    for (i, a) in columns.iter().enumerate() {
        for (b, place) in columns.iter().zip(places) {
            let dot = a.iter().zip(b).map(|(a, b)| a * b).sum();
            rows[i * blocks + place / BLOCK][place % BLOCK] = dot;
        }
    }
    rows
}

/// Inverse of the matrix with these columns, by Gauss–Jordan elimination with row exchanges. `None` when the
/// condition number leaves fewer than about five digits.
fn inverse_of_columns(columns: &[Vec<f64>]) -> Option<Square> {
    let n = columns.len();
    let entry = |i: usize, j: usize| if j < n { columns[j][i] } else { f64::from(u8::from(j == n + i)) };
    let mut rows: Vec<Vec<f64>> = (0..n).map(|i| (0..2 * n).map(|j| entry(i, j)).collect()).collect();
    for k in 0..n {
        let pivot = (k..n).max_by(|a, b| rows[*a][k].abs().total_cmp(&rows[*b][k].abs()))?;
        rows.swap(k, pivot);
        let scale = 1.0 / rows[k][k];
        rows[k].iter_mut().for_each(|v| *v *= scale);
        let pivot_row = rows[k].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(i, _)| *i != k) {
            let factor = row[k];
            row.iter_mut().zip(&pivot_row).skip(k).for_each(|(x, p)| *x -= factor * p);
        }
    }
    let data: Vec<f64> = rows.iter().flat_map(|row| &row[n..]).copied().collect();
    let frobenius = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let condition = frobenius(&mut columns.iter().flatten().copied()) * frobenius(&mut data.iter().copied());
    (condition < 1e11).then_some(Square { n, data })
}

fn ill_conditioned() -> Error {
    Error::conflict("a random coupling matrix has no usable eigenbasis", "choose another seed")
}

/// A problem on a uniform grid, in eigenbasis coordinates: all a solver needs to know of it.
pub(super) struct Track {
    /// Blocks in a vector.
    pub(super) blocks: usize,
    /// h·λ, one vector.
    pub(super) rates: Vec<[f64; BLOCK]>,
    /// h·y*'(t_j) for j = 0, …, S; the last one is not used, but spares the solver a special case.
    pub(super) slopes: Vec<[f64; BLOCK]>,
    /// y*(t_n) − y*(t_{n+1}) for n = 0, …, S − 1.
    pub(super) jumps: Vec<[f64; BLOCK]>,
    /// ‖y*(1)‖.
    pub(super) goal: f64,
    pub(super) steps: usize,
    /// Dimension D of the given coordinates.
    pub(super) dims: usize,
}

impl Track {
    pub(super) fn new(problem: &LinearProblem, steps: usize) -> Self {
        let h = 1.0 / steps as f64;
        let time = |i: usize| i as f64 / steps as f64;
        let basis = &problem.basis;
        let scaled = |v: Vec<f64>| v.into_iter().map(|v| h * v).collect::<Vec<_>>();
        let slopes = (0..=steps).flat_map(|j| basis.coordinates(&scaled(problem.slope(time(j))))).collect();
        let states: Vec<Vec<f64>> = (0..=steps).map(|n| problem.truth(time(n))).collect();
        let fall = |n: usize| states[n].iter().zip(&states[n + 1]).map(|(a, b)| a - b).collect::<Vec<_>>();
        let jumps = (0..steps).flat_map(|n| basis.coordinates(&fall(n))).collect();
        Self {
            blocks: basis.rates.len(),
            rates: basis.rates.iter().map(|r| r.map(|v| h * v)).collect(),
            slopes,
            jumps,
            goal: states[steps].iter().map(|v| v * v).sum::<f64>().sqrt(),
            steps,
            dims: basis.places.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_the_derivative_of_the_truth() {
        let problem = LinearProblem::draw(&mut Stream::new(3), &Settings::default(), 12).unwrap();
        let (t, h) = (0.63, 1e-6);
        let (low, high, slope) = (problem.truth(t - h), problem.truth(t + h), problem.slope(t));
        for i in 0..50 {
            let difference = (high[i] - low[i]) / (2.0 * h);
            assert!((difference - slope[i]).abs() < 1e-6 * slope[i].abs().max(1.0));
        }
    }

    #[test]
    fn the_gram_matrix_gives_the_norm_in_the_given_coordinates() {
        for coupling in [Coupling::Std, Coupling::Variance] {
            let settings = Settings { coupling, ..Settings::default() };
            let problem = LinearProblem::draw(&mut Stream::new(4), &settings, 3).unwrap();
            let v = problem.truth(0.4);
            let z = problem.basis.coordinates(&v).as_flattened().to_vec();
            let (basis, blocks) = (&problem.basis, problem.basis.rates.len());
            let square: f64 = (0..50)
                .map(|i| {
                    let row = basis.gram[i * blocks..(i + 1) * blocks].as_flattened();
                    z[basis.places[i]] * row.iter().zip(&z).map(|(g, z)| g * z).sum::<f64>()
                })
                .sum();
            let expected: f64 = v.iter().map(|v| v * v).sum();
            assert!((square - expected).abs() < 1e-9 * expected, "{square} {expected}");
        }
    }
}
