//! Variable-step Adams–Bashforth (the DyWeight paper's appendix calls it iPNDM_v).
//!
//! ```text
//! C_ij = ∫_{t_i}^{t_{i+1}} ℓⱼ(τ) dτ,  ℓⱼ the Lagrange basis on t_i, t_{i−1}, …, t_{i−q+1}
//! ```
//!
//! which equals the paper's closed forms β⁽²⁾, β⁽³⁾, β⁽⁴⁾. A widely used implementation has a misplaced parenthesis
//! from order 3 on, so that its weights are not these on non-uniform grids; we implement the formulas.

use super::table::StepTable;
use super::{Run, Solver, Times, check_order};
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::Result;

/// Variable-step Adams–Bashforth of order 1 to 4.
pub struct IpndmV {
    order: usize,
}

impl IpndmV {
    /// The highest order.
    pub const HIGHEST: usize = 4;

    /// The method of the given order.
    pub fn new(order: usize) -> Result<Self> {
        Ok(Self { order: check_order("ipndm-v", order, Self::HIGHEST)? })
    }
}

/// The q coefficients of step i: integrals of the Lagrange basis over the step, newest node first.
pub(super) fn lagrange_integrals(times: &[Coeff], i: usize, q: usize) -> Vec<Coeff> {
    // Seen from t_i, so that no large times cancel.
    let length = &times[i + 1] - &times[i];
    let nodes: Vec<Coeff> = (0..q).map(|j| &times[i - j] - &times[i]).collect();
    (0..q).map(|j| integral_of_basis(&nodes, j, &length)).collect()
}

/// ∫₀ᴴ Π_{k≠j} (τ − τ_k)/(τ_j − τ_k) dτ, by multiplying the polynomial out.
fn integral_of_basis(nodes: &[Coeff], j: usize, length: &Coeff) -> Coeff {
    let mut polynomial = vec![Coeff::from(1.0)];
    let mut scale = Coeff::from(1.0);
    for (k, node) in nodes.iter().enumerate().filter(|(k, _)| *k != j) {
        polynomial = times_root(&polynomial, node);
        scale = scale * (&nodes[j] - &nodes[k]);
    }
    let mut power = length.clone();
    let mut sum = Coeff::from(0.0);
    for (n, c) in polynomial.iter().enumerate() {
        sum = sum + c * &power / (n + 1) as f64;
        power = &power * length;
    }
    sum / scale
}

/// (τ − root)·p(τ), coefficients by rising power.
fn times_root(p: &[Coeff], root: &Coeff) -> Vec<Coeff> {
    let shifted = |n: usize| if n == 0 { Coeff::from(0.0) } else { p[n - 1].clone() };
    let scaled = |n: usize| if n == p.len() { Coeff::from(0.0) } else { root * &p[n] };
    (0..=p.len()).map(|n| shifted(n) - scaled(n)).collect()
}

impl Solver for IpndmV {
    fn label(&self) -> String {
        format!("ipndm-v({})", self.order)
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(StepTable::build(times, self.order, |i, q| lagrange_integrals(&times, i, q)).run())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;
    use crate::solver::adams_bashforth;

    fn weights(times: &[f64], i: usize, q: usize) -> Vec<f64> {
        let times: Vec<Coeff> = times.iter().map(|t| Coeff::from(*t)).collect();
        let length = times[i + 1].value() - times[i].value();
        lagrange_integrals(&times, i, q).iter().map(|c| c.value() / length).collect()
    }

    #[test]
    fn a_uniform_grid_gives_adams_bashforth() {
        let times: Vec<f64> = (0..6).map(|i| 2.0 - 0.3 * i as f64).collect();
        for q in 1..=4 {
            for (a, b) in weights(&times, 4, q).iter().zip(adams_bashforth(q)) {
                assert!((a - b).abs() < 1e-12);
            }
        }
    }

    // Step 4 of eight ρ = 7 points: the exact weights, to the four digits of the specification.
    #[test]
    fn weights_on_the_edm_grid() {
        let grid = Schedule::Karras { rho: 7.0 }.grid(7, (0.002, 80.0)).unwrap();
        for (q, expected) in [(3, vec![1.2015, -0.2197, 0.0183]), (4, vec![1.2207, -0.2489, 0.0295, -0.0012])] {
            for (a, b) in weights(grid.sigmas(), 4, q).iter().zip(expected) {
                assert!((a - b).abs() < 1e-4);
            }
        }
    }

    // The closed form of the paper's appendix for two nodes: β = (1 + ω/2, −ω/2), ω = hᵢ/hᵢ₋₁.
    #[test]
    fn the_papers_second_order_formula() {
        let times = [10.0, 6.0, 3.0, 2.0];
        let omega = (times[3] - times[2]) / (times[2] - times[1]);
        let w = weights(&times, 2, 2);
        assert!((w[0] - (1.0 + omega / 2.0)).abs() < 1e-14 && (w[1] + omega / 2.0).abs() < 1e-14);
    }
}
