//! Diffusion exponential integrator sampler (Zhang and Chen 2023), Adams–Bashforth forms.
//!
//! ```text
//! C_ij = ∫ σ'(τ)·ℓⱼ(τ) dτ over the step     tAB: ℓⱼ in variance-preserving time     ρAB: ℓⱼ in σ itself
//!      = ∫_{ln a}^{ln b} ℓⱼ(t(eᵘ))·eᵘ du
//! ```
//!
//! The integral in u = ln σ is smooth, and Gauss–Legendre on pieces of at most unit length gives it to rounding. (The
//! released code takes 10 000 samples including both ends, an error of about 1e-4.) ρAB is exact variable-step
//! Adams–Bashforth, [`super::IpndmV`]; the released ρAB counts its history wrongly and is not followed. For a flow,
//! whose own time is σ, both forms coincide; so they do on an interval that ends at σ = 0.

use super::ipndm_v::lagrange_integrals;
use super::table::StepTable;
use super::{Run, Solver, Times, check_order};
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::Result;
use crate::schedule::vp::VpTime;

/// The variable in which slopes are interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeisMode {
    /// Variance-preserving time.
    TimeAb,
    /// σ.
    RhoAb,
}

/// DEIS of order 1 to 4 (tAB3 in the paper has order 4 here: three past slopes and the current one).
pub struct Deis {
    mode: DeisMode,
    order: usize,
}

/// The range the interpolation variable is fitted to. It is fixed, as in the released code: it only bends the axis on
/// which slopes are interpolated.
const FITTED: (f64, f64) = (0.002, 80.0);

impl Deis {
    /// The highest order.
    pub const HIGHEST: usize = 4;

    /// DEIS of a mode and order.
    pub fn new(mode: DeisMode, order: usize) -> Result<Self> {
        let name = if mode == DeisMode::TimeAb { "deis-tab" } else { "deis-rhoab" };
        Ok(Self { mode, order: check_order(name, order, Self::HIGHEST)? })
    }
}

impl Solver for Deis {
    fn label(&self) -> String {
        let name = if self.mode == DeisMode::TimeAb { "deis-tab" } else { "deis-rhoab" };
        format!("{name}({})", self.order)
    }

    fn begin<'s>(&'s self, times: Times<'s>, prediction: Prediction) -> Result<Box<dyn Run + 's>> {
        let in_sigma = self.mode == DeisMode::RhoAb || prediction == Prediction::Velocity;
        let row = |i: usize, q: usize| {
            if in_sigma || q == 1 || times[i + 1].value() == 0.0 {
                lagrange_integrals(&times, i, q)
            } else {
                time_ab(&times, i, q)
            }
        };
        Ok(StepTable::build(times, self.order, row).run())
    }
}

/// The q coefficients of step i with interpolation in variance-preserving time.
fn time_ab(times: &[Coeff], i: usize, q: usize) -> Vec<Coeff> {
    let map = VpTime::fitted(FITTED.0, FITTED.1);
    let nodes: Vec<Coeff> = (0..q).map(|j| map.time(&times[i - j])).collect();
    let (from, to) = (times[i].ln(), times[i + 1].ln());
    let pieces = (to.value() - from.value()).abs().ceil().max(1.0);
    let width = (&to - &from) / pieces;
    let basis = Lagrange::on(&nodes);
    let mut row = vec![Coeff::from(0.0); q];
    for piece in 0..pieces as usize {
        for (x, w) in GAUSS_LEGENDRE {
            let sigma = (&from + &width * (piece as f64 + x)).exp();
            let measure = &sigma * &width * w;
            for (c, value) in row.iter_mut().zip(basis.at(&map.time(&sigma))) {
                *c = &*c + &measure * value;
            }
        }
    }
    row
}

/// The Lagrange basis on some nodes: ℓⱼ(t) = Π_{k≠j} (t − t_k)/(t_j − t_k).
struct Lagrange<'n> {
    nodes: &'n [Coeff],
    /// t_j − t_k.
    gaps: Vec<Vec<Coeff>>,
}

impl<'n> Lagrange<'n> {
    fn on(nodes: &'n [Coeff]) -> Self {
        Self { nodes, gaps: nodes.iter().map(|j| nodes.iter().map(|k| j - k).collect()).collect() }
    }

    /// The values of all ℓⱼ at a time.
    fn at(&self, time: &Coeff) -> impl Iterator<Item = Coeff> {
        let ways: Vec<Coeff> = self.nodes.iter().map(|node| time - node).collect();
        self.gaps.iter().enumerate().map(move |(j, gaps)| {
            let others = ways.iter().zip(gaps).enumerate().filter(|(k, _)| *k != j);
            others.fold(Coeff::from(1.0), |product, (_, (way, gap))| product * (way / gap))
        })
    }
}

/// Ten nodes and weights on [0, 1].
const GAUSS_LEGENDRE: [(f64, f64); 10] = [
    (0.013046735741414128, 0.03333567215434387),
    (0.06746831665550773, 0.0747256745752903),
    (0.16029521585048778, 0.10954318125799103),
    (0.2833023029353764, 0.13463335965499817),
    (0.4255628305091844, 0.14776211235737644),
    (0.5744371694908156, 0.14776211235737644),
    (0.7166976970646236, 0.13463335965499817),
    (0.8397047841495122, 0.10954318125799103),
    (0.9325316833444923, 0.0747256745752903),
    (0.9869532642585859, 0.03333567215434387),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    #[test]
    fn coefficients_agree_with_a_fine_sum() {
        let grid = Schedule::TimeUniform { rho: 2.0 }.grid(6, FITTED).unwrap();
        let times: Vec<Coeff> = grid.sigmas().iter().map(|t| Coeff::from(*t)).collect();
        let map = VpTime::fitted(FITTED.0, FITTED.1);
        for i in 1..6 {
            let q = 4.min(i + 1);
            let nodes: Vec<Coeff> = (0..q).map(|j| map.time(&times[i - j])).collect();
            let (basis, row) = (Lagrange::on(&nodes), time_ab(&times, i, q));
            for (j, c) in row.iter().enumerate() {
                let (a, b, n) = (times[i].value().ln(), times[i + 1].value().ln(), 20_000);
                let h = (b - a) / n as f64;
                let term = |k: usize| {
                    let sigma = (a + (k as f64 + 0.5) * h).exp();
                    sigma * h * basis.at(&map.time(&Coeff::from(sigma))).nth(j).unwrap().value()
                };
                let sum: f64 = (0..n).map(term).sum();
                assert!((c.value() - sum).abs() < 1e-6 * times[i].value(), "step {i}, slope {j}");
            }
        }
    }

    #[test]
    fn coefficients_integrate_a_constant_exactly() {
        let times = [80.0, 20.0, 5.0, 1.0, 0.01].map(Coeff::from);
        for i in 0..4 {
            let sum: f64 = time_ab(&times, i, i + 1).iter().map(Coeff::value).sum();
            assert!((sum - (times[i + 1].value() - times[i].value())).abs() < 1e-9 * times[i].value());
        }
    }
}
