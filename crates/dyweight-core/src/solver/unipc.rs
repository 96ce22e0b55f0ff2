//! UniPC (Zhao et al. 2023): unified predictor-corrector, orders 1 to 3, variants bh1 and bh2.
//!
//! ```text
//! hh = −h (data) or h (noise);  H₁ = e^{hh}−1;  B = hh (bh1) or e^{hh}−1 (bh2)
//! r_k = (λ_{−k}−λ₀)/h, r_p = 1;  D_k = (m_{−k}−m₀)/r_k
//! g₁ = H₁/hh − 1, g_{n+1} = g_n/hh − 1/(n+1)!;   Σ_k r_k^{n−1} ρ_k = n!·g_n/B,  n = 1 … p
//! predictor  x̂ = keep·x − outer·(H₁m₀ + B Σ_{k<p} ρᵖ_k D_k)           ρᵖ: leading (p−1)×(p−1) system; p = 2: ½
//! corrector  x  = keep·x − outer·(H₁m₀ + B Σ_{k<p} ρᶜ_k D_k + B ρᶜ_p(m_b − m₀))   ρᶜ: whole system; p = 1: ½
//! ```
//!
//! The evaluation m_b at the predicted state serves the corrector and is the m₀ of the next interval, so an interval
//! costs one call. The warm-up intervals are always corrected, also when they are the last: with no more points than
//! orders, the method makes one call more than it has intervals.
//!
//! From σ = 1 of a flow, where λ = −∞, the data form of bh2 has a limit, which is taken:
//!
//! ```text
//! first interval      h → ∞: H₁ = B = −1      x = σ_b·x + α_b·(m₀ + m_b)/2
//! later, r_k → −∞     ρ_k/r_k → 0: the point drops out, the others solve the system that is left
//! ```
//!
//! What is left may be one equation, ρ = g₁/B; the ½ of a low order is a choice of that order, not of the limit. (bh1,
//! whose B is infinite there, and the noise form, whose factors are, have no limit: their first interval is not
//! corrected.)

use super::exponential::{Evaluated, Form, Interval, LowerOrderFinal, Predict, distances};
use super::{Run, Solver, Times, check_order};
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::Result;
use crate::tape::{Tape, Var};

/// The function B(h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// B = hh.
    Bh1,
    /// B = e^{hh} − 1.
    #[default]
    Bh2,
}

/// UniPC of order 1 to 3.
pub struct UniPc {
    order: usize,
    form: Form,
    variant: Variant,
    corrector: bool,
    frozen_nodes: bool,
}

impl UniPc {
    /// The highest order.
    pub const HIGHEST: usize = 3;

    /// Variant bh2 of an order, in a form.
    pub fn new(order: usize, form: Form) -> Result<Self> {
        let order = check_order("unipc", order, Self::HIGHEST)?;
        Ok(Self { order, form, variant: Variant::Bh2, corrector: true, frozen_nodes: false })
    }

    /// Chooses B.
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    /// Leaves the corrector out.
    pub fn without_corrector(mut self) -> Self {
        self.corrector = false;
        self
    }

    /// Takes the nodes r_k as constants where the weights ρ are solved for: a shortcut in the gradient that LD3's
    /// released code takes.
    pub fn frozen_nodes(mut self, on: bool) -> Self {
        self.frozen_nodes = on;
        self
    }

    /// Order of interval i, and whether it is corrected.
    fn plan(&self, i: usize, steps: usize) -> (usize, bool) {
        if i + 1 < self.order {
            return (i + 1, self.corrector);
        }
        // UniPC's published rule lowers them on any number of steps.
        let lower = self.form.lower_order_final != LowerOrderFinal::Never;
        let order = if lower { self.order.min(steps - i) } else { self.order };
        (order, self.corrector && i + 1 < steps)
    }
}

struct UniPcRun<'s> {
    solver: &'s UniPc,
    times: Times<'s>,
    /// Newest first, at most as many as the order.
    history: Vec<Evaluated>,
}

impl Solver for UniPc {
    fn label(&self) -> String {
        let variant = if self.variant == Variant::Bh1 { ",bh1" } else { "" };
        format!("unipc({}{variant})", self.order)
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(UniPcRun { solver: self, times, history: Vec::new() }))
    }
}

impl Run for UniPcRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let (form, steps) = (self.solver.form, self.times.len() - 1);
        if self.history.is_empty() {
            self.history.push(form.evaluate(tape, &x, &self.times[0], &self.times.query(0))?);
        }
        let b = &self.times[i + 1];
        let (order, corrected) = self.solver.plan(i, steps);
        let interval = Interval::new(form, tape.prediction(), &self.history[0], b);
        let Some(interval) = interval else {
            let predicted = form.first_order(tape, &x, &self.history[0], (b, None))?;
            if corrected && self.has_limit(b) {
                return self.corrected_from_pure_noise(tape, &x, &predicted, i + 1);
            }
            self.look_ahead(tape, &predicted, i)?;
            return Ok(predicted);
        };
        let step = Step::new(self.solver, &interval, &self.history[..order.min(self.history.len())]);
        let predicted = step.apply(tape, &x, &step.predictor(), None)?;
        if !corrected {
            self.look_ahead(tape, &predicted, i)?;
            return Ok(predicted);
        }
        let ahead = form.evaluate(tape, &predicted, b, &self.times.query(i + 1))?;
        let next = step.apply(tape, &x, &step.corrector(), Some(&ahead))?;
        self.remember(ahead);
        Ok(next)
    }
}

impl UniPcRun<'_> {
    /// True if the corrector of an interval of infinite length to `b` has a limit.
    fn has_limit(&self, b: &Coeff) -> bool {
        let UniPc { form, variant, .. } = self.solver;
        let finite = form.predict == Predict::Data && *variant == Variant::Bh2;
        finite && self.history[0].is_pure_noise() && b.value() > 0.0
    }

    fn corrected_from_pure_noise(&mut self, tape: &mut Tape<'_>, x: &Var, predicted: &Var, end: usize) -> Result<Var> {
        let b = &self.times[end];
        let ahead = self.solver.form.evaluate(tape, predicted, b, &self.times.query(end))?;
        let (keep, weight) = self.history[0].data_factors(tape.prediction(), b);
        let half = weight * 0.5;
        let next = tape.combine(&[(keep, x), (half.clone(), &self.history[0].value), (half, &ahead.value)])?;
        self.remember(ahead);
        Ok(next)
    }

    /// The next interval's m₀; the last interval needs none.
    fn look_ahead(&mut self, tape: &mut Tape<'_>, x: &Var, i: usize) -> Result<()> {
        if i + 2 < self.times.len() {
            let ahead = self.solver.form.evaluate(tape, x, &self.times[i + 1], &self.times.query(i + 1))?;
            self.remember(ahead);
        }
        Ok(())
    }

    fn remember(&mut self, newest: Evaluated) {
        self.history.insert(0, newest);
        self.history.truncate(self.solver.order);
    }
}

/// The coefficients of one interval.
struct Step<'r> {
    interval: &'r Interval,
    history: &'r [Evaluated],
    /// r_1 … r_{p−1}.
    back: Vec<Coeff>,
    /// The same as they stand in the system for ρ.
    nodes: Vec<Coeff>,
    /// Right-hand sides n!·g_n/B.
    sides: Vec<Coeff>,
    h1: Coeff,
    b: Coeff,
}

impl<'r> Step<'r> {
    fn new(solver: &UniPc, interval: &'r Interval, history: &'r [Evaluated]) -> Self {
        let back = distances(history, &interval.h);
        let hh = if solver.form.predict == Predict::Data { -&interval.h } else { interval.h.clone() };
        let h1 = hh.exp_m1();
        let b = if solver.variant == Variant::Bh1 { hh.clone() } else { h1.clone() };
        let mut sides = Vec::new();
        let (mut g, mut factorial) = (&h1 / &hh - 1.0, 1.0);
        for n in 1..=back.len() + 1 {
            sides.push(&g * factorial / &b);
            factorial *= (n + 1) as f64;
            g = &g / &hh - 1.0 / factorial;
        }
        let nodes = back.iter().map(|r| if solver.frozen_nodes { r.detached() } else { r.clone() }).collect();
        Self { interval, history, back, nodes, sides, h1, b }
    }

    /// The order, points that dropped out included.
    fn order(&self) -> usize {
        self.history.len()
    }

    fn predictor(&self) -> Vec<Coeff> {
        match self.order() {
            2 if !self.back.is_empty() => vec![Coeff::from(0.5)],
            _ => solve_vandermonde(&self.nodes, &self.sides[..self.back.len()]),
        }
    }

    fn corrector(&self) -> Vec<Coeff> {
        if self.order() == 1 {
            return vec![Coeff::from(0.5)];
        }
        let mut nodes = self.nodes.clone();
        nodes.push(Coeff::from(1.0));
        solve_vandermonde(&nodes, &self.sides)
    }

    /// keep·x − outer·(H₁m₀ + B Σ ρ_k D_k), the last D being the look-ahead's where there is one.
    fn apply(&self, tape: &mut Tape<'_>, x: &Var, rho: &[Coeff], ahead: Option<&Evaluated>) -> Result<Var> {
        let mut newest = self.h1.clone();
        let mut terms = vec![(self.interval.keep.clone(), x)];
        let others = self.history[1..].iter().take(self.back.len()).chain(ahead);
        let ones = Coeff::from(1.0);
        for ((rho, r), other) in rho.iter().zip(self.back.iter().chain([&ones])).zip(others) {
            let weight = &self.b * rho / r;
            newest = newest - &weight;
            terms.push((-(&self.interval.outer * weight), &other.value));
        }
        terms.push((-(&self.interval.outer * newest), &self.history[0].value));
        tape.combine(&terms)
    }
}

/// Solves Σ_k r_k^{n−1} ρ_k = side_n, n = 1 … p, by elimination; the nodes are distinct, so no pivoting is needed.
fn solve_vandermonde(nodes: &[Coeff], sides: &[Coeff]) -> Vec<Coeff> {
    let n = nodes.len();
    let mut rows: Vec<Vec<Coeff>> = vec![vec![Coeff::from(1.0); n]];
    for k in 1..n {
        rows.push(rows[k - 1].iter().zip(nodes).map(|(a, r)| a * r).collect());
    }
    let mut sides = sides.to_vec();
    for pivot in 0..n {
        for row in pivot + 1..n {
            let factor = &rows[row][pivot] / &rows[pivot][pivot];
            let (above, below) = rows.split_at_mut(row);
            let pairs = below[0].iter_mut().zip(&above[pivot]).skip(pivot);
            pairs.for_each(|(entry, over)| *entry = &*entry - &factor * over);
            sides[row] = &sides[row] - &factor * &sides[pivot];
        }
    }
    for row in (0..n).rev() {
        let known = (row + 1..n).fold(Coeff::from(0.0), |s, k| s + &rows[row][k] * &sides[k]);
        sides[row] = (&sides[row] - known) / &rows[row][row];
    }
    sides
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixture::Mixture;
    use crate::sample::{Plan, sample};
    use crate::schedule::Grid;
    use crate::tape::Query;
    use crate::tensor::Tensor;

    fn noise() -> Tensor {
        Tensor::new([2, 2, 1, 1], vec![0.4, -1.3, 1.1, 0.7]).unwrap()
    }

    fn run(order: usize, sigmas: Vec<f64>) -> (Tensor, usize) {
        let (model, grid) = (Mixture::spiral().as_flow(), Grid::new(sigmas).unwrap());
        let solver = UniPc::new(order, Form::default()).unwrap();
        let outcome = sample(&model, &Plan::new(&solver, &grid), &noise());
        outcome.map(|o| (o.samples, o.nfe)).unwrap()
    }

    // Over one interval the limit is approached like 1 − σ.
    #[test]
    fn the_first_interval_of_a_flow_is_corrected() {
        let (limit, calls) = run(2, vec![1.0, 0.6]);
        let (near, _) = run(2, vec![1.0 - 1e-9, 0.6]);
        assert_eq!(calls, 2);
        for (a, b) in limit.data().iter().zip(near.data()) {
            assert!((a - b).abs() < 1e-7, "{a} {b}");
        }
    }

    // Over later ones it is approached like 1/λ, too slowly for any σ < 1: the first point is put at λ = −10¹² instead.
    #[test]
    fn a_point_of_pure_noise_drops_out_of_the_history() {
        let (model, form) = (Mixture::spiral().as_flow(), Form::default());
        let mut tape = Tape::sampling(&model);
        let x = tape.start(noise());
        let mut at = |t: f64| form.evaluate(&mut tape, &x, &t.into(), &Query::at(&t.into())).unwrap();
        let ([newest, middle, oldest], ahead) = ([0.6, 0.8, 1.0].map(&mut at), at(0.3));
        let mut history = [newest, middle, oldest];
        for variant in [Variant::Bh1, Variant::Bh2] {
            for order in [2, 3] {
                let solver = UniPc::new(order, form).unwrap().variant(variant);
                let [limit, near] = [f64::NEG_INFINITY, -1e12].map(|lambda| {
                    history[order - 1].lambda = lambda.into();
                    let interval = Interval::new(form, tape.prediction(), &history[0], &0.3.into()).unwrap();
                    let step = Step::new(&solver, &interval, &history[..order]);
                    let predicted = step.apply(&mut tape, &x, &step.predictor(), None).unwrap();
                    let corrected = step.apply(&mut tape, &x, &step.corrector(), Some(&ahead)).unwrap();
                    [predicted.tensor().data(), corrected.tensor().data()].concat()
                });
                for (a, b) in limit.iter().zip(&near) {
                    assert!((a - b).abs() < 1e-9, "{variant:?} {order}: {a} {b}");
                }
                history[1].lambda = tape.prediction().log_snr(&0.8.into());
            }
        }
    }
}
