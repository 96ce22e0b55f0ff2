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

use super::exponential::{Form, Interval, Memory, Predict, distances};
use super::{Run, Solver, check_order};
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::Result;
use crate::path::{Path, Sample};

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
    lower_order_final: bool,
    corrector: bool,
}

impl UniPc {
    /// The highest order.
    pub const HIGHEST: usize = 3;

    /// The data form of variant bh2 with lowered order at the end, without thresholding.
    pub fn new(order: usize) -> Result<Self> {
        let order = check_order("unipc", order, Self::HIGHEST)?;
        let form = Form { predict: Predict::Data, threshold: false };
        Ok(Self { order, form, variant: Variant::Bh2, lower_order_final: true, corrector: true })
    }

    /// Chooses the form.
    pub fn predict(mut self, predict: Predict) -> Self {
        self.form.predict = predict;
        self
    }

    /// Thresholds data predictions; the noise form has none.
    pub fn threshold(mut self, on: bool) -> Self {
        self.form.threshold = on;
        self
    }

    /// Chooses B.
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    /// Lowers the order towards the end.
    pub fn lower_order_final(mut self, on: bool) -> Self {
        self.lower_order_final = on;
        self
    }

    /// Leaves the corrector out.
    pub fn without_corrector(mut self) -> Self {
        self.corrector = false;
        self
    }

    /// Order of interval i, and whether it is corrected.
    fn plan(&self, i: usize, steps: usize) -> (usize, bool) {
        if i + 1 < self.order {
            return (i + 1, self.corrector);
        }
        let order = if self.lower_order_final { self.order.min(steps - i) } else { self.order };
        (order, self.corrector && i + 1 < steps)
    }
}

struct UniPcRun<'s> {
    solver: &'s UniPc,
    times: &'s [Coeff],
    /// Newest first, at most as many as the order.
    history: Vec<Memory>,
}

impl Solver for UniPc {
    fn label(&self) -> String {
        let variant = if self.variant == Variant::Bh1 { ",bh1" } else { "" };
        format!("unipc({}{variant})", self.order)
    }

    fn begin<'s>(&'s self, times: &'s [Coeff], _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(UniPcRun { solver: self, times, history: Vec::new() }))
    }
}

impl Run for UniPcRun<'_> {
    fn step(&mut self, path: &mut Path<'_>, i: usize, x: Sample) -> Result<Sample> {
        let (form, steps) = (self.solver.form, self.times.len() - 1);
        if self.history.is_empty() {
            self.history.push(form.evaluate(path, &x, &self.times[0])?);
        }
        let b = &self.times[i + 1];
        let (order, corrected) = self.solver.plan(i, steps);
        let interval = Interval::new(form, path.prediction(), &self.history[0], b);
        let Some(interval) = interval else {
            let next = form.first_order(path, &x, &self.history[0], b)?;
            self.look_ahead(path, &next, i)?;
            return Ok(next);
        };
        let step = Step::new(self.solver, &interval, &self.history[..order.min(self.history.len())]);
        let predicted = step.apply(path, &x, &step.predictor(), None)?;
        if !corrected {
            self.look_ahead(path, &predicted, i)?;
            return Ok(predicted);
        }
        let ahead = form.evaluate(path, &predicted, b)?;
        let next = step.apply(path, &x, &step.corrector(), Some(&ahead))?;
        self.remember(ahead);
        Ok(next)
    }
}

impl UniPcRun<'_> {
    /// The next interval's m₀; the last interval needs none.
    fn look_ahead(&mut self, path: &mut Path<'_>, x: &Sample, i: usize) -> Result<()> {
        if i + 2 < self.times.len() {
            let ahead = self.solver.form.evaluate(path, x, &self.times[i + 1])?;
            self.remember(ahead);
        }
        Ok(())
    }

    fn remember(&mut self, newest: Memory) {
        self.history.insert(0, newest);
        self.history.truncate(self.solver.order);
    }
}

/// The coefficients of one interval.
struct Step<'r> {
    interval: &'r Interval,
    history: &'r [Memory],
    /// r_1 … r_{p−1}.
    back: Vec<Coeff>,
    /// Right-hand sides n!·g_n/B.
    sides: Vec<Coeff>,
    h1: Coeff,
    b: Coeff,
}

impl<'r> Step<'r> {
    fn new(solver: &UniPc, interval: &'r Interval, history: &'r [Memory]) -> Self {
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
        Self { interval, history, back, sides, h1, b }
    }

    fn predictor(&self) -> Vec<Coeff> {
        match self.back.len() {
            1 => vec![Coeff::from(0.5)],
            n => solve_vandermonde(&self.back, &self.sides[..n]),
        }
    }

    fn corrector(&self) -> Vec<Coeff> {
        if self.back.is_empty() {
            return vec![Coeff::from(0.5)];
        }
        let mut nodes = self.back.clone();
        nodes.push(Coeff::from(1.0));
        solve_vandermonde(&nodes, &self.sides)
    }

    /// keep·x − outer·(H₁m₀ + B Σ ρ_k D_k), the last D being the look-ahead's where there is one.
    fn apply(&self, path: &mut Path<'_>, x: &Sample, rho: &[Coeff], ahead: Option<&Memory>) -> Result<Sample> {
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
        path.combine(&terms)
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
