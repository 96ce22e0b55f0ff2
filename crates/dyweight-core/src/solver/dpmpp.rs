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
//! From σ = 1 of a flow, where λ = −∞, the first interval has order 1, r₀ → ∞ leaves the second with D₁₀ = 0, and r₁ →
//! ∞ the third of order 3 with D₁ = D₁₀ and D₂ = 0.
//!
//! With lowered last orders the last step has order 1 and the one before at most 2, except while the method still warms
//! up. The published rule ([`LowerOrderFinal::Auto`]) does so on fewer than 15 steps only: on more, the steps near the
//! data are short enough for the full order, and an Euler step among them would be the largest error of all.

use super::exponential::{Evaluated, Form, Interval, LowerOrderFinal, Predict, distances};
use super::{Run, Solver, Times, check_order};
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::Result;
use crate::tape::{Tape, Var};

/// DPM-Solver++ of order 1 to 3.
pub struct DpmPp {
    order: usize,
    form: Form,
}

impl DpmPp {
    /// The highest order.
    pub const HIGHEST: usize = 3;
    /// From this many steps on the published rule lowers no order.
    const MANY_STEPS: usize = 15;

    /// The method of an order, in a form.
    pub fn new(order: usize, form: Form) -> Result<Self> {
        Ok(Self { order: check_order("dpmpp", order, Self::HIGHEST)?, form })
    }

    /// The form it was built in.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Order of step i of so many.
    pub fn order_at(&self, i: usize, steps: usize) -> usize {
        let made = i + 1;
        let lower = match self.form.lower_order_final {
            LowerOrderFinal::Auto => steps < Self::MANY_STEPS,
            LowerOrderFinal::Always => true,
            LowerOrderFinal::Never => false,
        };
        if lower && made >= self.order { self.order.min(steps - i) } else { self.order.min(made) }
    }
}

impl DpmPp {
    /// A step of an order from the newest evaluation to `b`; `scale` multiplies all of it but what is kept of x.
    pub fn advance(
        &self,
        tape: &mut Tape<'_>,
        x: &Var,
        history: &[Evaluated],
        (b, order): (&Coeff, usize),
        scale: Option<&Coeff>,
    ) -> Result<Var> {
        let interval = Interval::new(self.form, tape.prediction(), &history[0], b);
        let (Some(interval), true) = (interval, order > 1) else {
            return self.form.first_order(tape, x, &history[0], (b, scale));
        };
        let back = distances(&history[..order.min(history.len())], &interval.h);
        if back.is_empty() {
            return self.form.first_order(tape, x, &history[0], (b, scale));
        }
        let outer = scale.map_or(interval.outer.clone(), |scale| &interval.outer * scale);
        let mut terms = vec![(interval.keep.clone(), x)];
        let weights = weights(self.form.predict, order.min(history.len()), &interval.h, &back);
        terms.extend(weights.into_iter().map(|w| -(&outer * w)).zip(history.iter().map(|m| &m.value)));
        tape.combine(&terms)
    }

    /// Shares of the data predictions in step i of a grid, newest first; they sum to one.
    pub fn shares(&self, times: &[Coeff], i: usize, prediction: Prediction) -> Vec<Coeff> {
        let lambda = |k: usize| prediction.log_snr(&times[k]);
        let order = self.order_at(i, times.len() - 1).min(i + 1);
        let h = lambda(i + 1) - lambda(i);
        let back: Vec<Coeff> = (1..order).map(|k| (lambda(i - k) - lambda(i)) / &h).collect();
        let back: Vec<Coeff> = back.into_iter().take_while(|r| r.value().is_finite()).collect();
        if !h.value().is_finite() || back.is_empty() {
            return vec![Coeff::from(1.0)];
        }
        let whole = (-&h).exp_m1();
        weights(Predict::Data, order, &h, &back).iter().map(|w| w / &whole).collect()
    }
}

struct DpmPpRun<'s> {
    solver: &'s DpmPp,
    times: Times<'s>,
    /// Newest first, at most three.
    history: Vec<Evaluated>,
}

impl Solver for DpmPp {
    fn label(&self) -> String {
        format!("dpmpp({}M)", self.order)
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(DpmPpRun { solver: self, times, history: Vec::new() }))
    }
}

impl Run for DpmPpRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let form = self.solver.form;
        self.history.insert(0, form.evaluate(tape, &x, &self.times[i], &self.times.query(i))?);
        self.history.truncate(DpmPp::HIGHEST);
        let order = self.solver.order_at(i, self.times.len() - 1);
        self.solver.advance(tape, &x, &self.history, (&self.times[i + 1], order), None)
    }
}

/// Weights of m₀, m₁(, m₂) inside the bracket that the outer factor multiplies with a minus sign.
fn weights(predict: Predict, order: usize, h: &Coeff, back: &[Coeff]) -> Vec<Coeff> {
    let sign = if predict == Predict::Data { -1.0 } else { 1.0 };
    let phi1 = (h * sign).exp_m1();
    let phi2 = (&phi1 / h - sign) * sign;
    let r0 = -&back[0];
    let Some(second) = back.get(1) else {
        // In order 3 the oldest point is pure noise.
        let d10 = if order == 2 { phi1.clone() * 0.5 / r0 } else { phi2 / r0 };
        return vec![phi1 + &d10, -d10];
    };
    let r1 = &back[0] - second;
    let phi3 = (&phi2 * sign) / h - 0.5;
    // Bracket = φ₁m₀ + φ₂D₁ + φ₃D₂ with φ₂ already signed; D₁ and D₂ written out in D₁₀ and D₁₁.
    let sum = &r0 + &r1;
    let mix = &phi2 * &r0 / &sum + phi3 / &sum;
    let (d10, d11) = ((&phi2 + &mix) / &r0, -(mix / &r1));
    vec![phi1 + &d10, &d11 - &d10, -d11]
}
