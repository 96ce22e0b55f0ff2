//! DPM-Solver++ multistep (Lu et al. 2022b), orders 1 to 3, data and noise form.
//!
//! ```text
//! r₀ = (λ_a − λ_{−1})/h, r₁ = (λ_{−1} − λ_{−2})/h;  D₁₀ = (m₀−m₁)/r₀, D₁₁ = (m₁−m₂)/r₁
//! D₁ = D₁₀ + r₀/(r₀+r₁)·(D₁₀−D₁₁),  D₂ = (D₁₀−D₁₁)/(r₀+r₁)
//! data   φ₁ = e^{−h}−1, φ₂ = φ₁/h+1, φ₃ = φ₂/h−½
//!   2M:  keep·x − α_b φ₁(m₀ + D₁₀/2)        3M: keep·x − α_b(φ₁m₀ − φ₂D₁ + φ₃D₂)
//! noise  φ₁ = e^{h}−1,  φ₂ = φ₁/h−1, φ₃ = φ₂/h−½
//!   2M:  keep·x − σ_b φ₁(m₀ + D₁₀/2)        3M: keep·x − σ_b(φ₁m₀ + φ₂D₁ + φ₃D₂)
//! ```
//!
//! With `lower_order_final` the last step has order 1 and the one before at most 2, except while the method still warms up.

use super::exponential::{Form, Interval, Memory, Predict, distances};
use super::{Run, Solver, check_order};
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::Result;
use crate::path::{Path, Sample};

/// DPM-Solver++ of order 1 to 3.
pub struct DpmPp {
    order: usize,
    form: Form,
    lower_order_final: bool,
}

impl DpmPp {
    /// The highest order.
    pub const HIGHEST: usize = 3;

    /// The data form with lowered order at the end, without thresholding.
    pub fn new(order: usize) -> Result<Self> {
        let order = check_order("dpmpp", order, Self::HIGHEST)?;
        Ok(Self { order, form: Form { predict: Predict::Data, threshold: false }, lower_order_final: true })
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

    /// Lowers the order towards the end.
    pub fn lower_order_final(mut self, on: bool) -> Self {
        self.lower_order_final = on;
        self
    }

    fn order_at(&self, i: usize, steps: usize) -> usize {
        let made = i + 1;
        if self.lower_order_final && made >= self.order { self.order.min(steps - i) } else { self.order.min(made) }
    }
}

struct DpmPpRun<'s> {
    solver: &'s DpmPp,
    times: &'s [Coeff],
    /// Newest first, at most three.
    history: Vec<Memory>,
}

impl Solver for DpmPp {
    fn label(&self) -> String {
        format!("dpmpp({}M)", self.order)
    }

    fn begin<'s>(&'s self, times: &'s [Coeff], _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(DpmPpRun { solver: self, times, history: Vec::new() }))
    }
}

impl Run for DpmPpRun<'_> {
    fn step(&mut self, path: &mut Path<'_>, i: usize, x: Sample) -> Result<Sample> {
        let form = self.solver.form;
        self.history.insert(0, form.evaluate(path, &x, &self.times[i])?);
        self.history.truncate(DpmPp::HIGHEST);
        let b = &self.times[i + 1];
        let order = self.solver.order_at(i, self.times.len() - 1);
        let interval = Interval::new(form, path.prediction(), &self.history[0], b);
        let (Some(interval), true) = (interval, order > 1) else {
            return form.first_order(path, &x, &self.history[0], b);
        };
        let back = distances(&self.history[..order.min(self.history.len())], &interval.h);
        if back.is_empty() {
            return form.first_order(path, &x, &self.history[0], b);
        }
        let mut terms = vec![(interval.keep.clone(), &x)];
        let weights = weights(form.predict, &interval.h, &back);
        terms.extend(weights.into_iter().map(|w| -(&interval.outer * w)).zip(self.history.iter().map(|m| &m.value)));
        path.combine(&terms)
    }
}

/// Weights of m₀, m₁(, m₂) inside the bracket that the outer factor multiplies with a minus sign.
fn weights(predict: Predict, h: &Coeff, back: &[Coeff]) -> Vec<Coeff> {
    let sign = if predict == Predict::Data { -1.0 } else { 1.0 };
    let phi1 = (h * sign).exp_m1();
    let r0 = -&back[0];
    let Some(second) = back.get(1) else {
        let half = &phi1 / (2.0 * &r0);
        return vec![&phi1 + &half, -half];
    };
    let r1 = &back[0] - second;
    let phi2 = (&phi1 / h - sign) * sign;
    let phi3 = (&phi2 * sign) / h - 0.5;
    // Bracket = φ₁m₀ + φ₂D₁ + φ₃D₂ with φ₂ already signed; D₁ and D₂ written out in D₁₀ and D₁₁.
    let sum = &r0 + &r1;
    let mix = &phi2 * &r0 / &sum + phi3 / &sum;
    let (d10, d11) = ((&phi2 + &mix) / &r0, -(mix / &r1));
    vec![phi1 + &d10, &d11 - &d10, -d11]
}
