//! What the exponential integrators DPM-Solver++ and UniPC share.
//!
//! Both work in λ = ln(α/σ) on a history of data predictions m = x₀ or noise predictions m = n:
//!
//! ```text
//! data    x_b = (σ_b/σ_a)x − α_b·(e^{−h} − 1)m₀ − …      h = λ_b − λ_a
//! noise   x_b = (α_b/α_a)x − σ_b·(e^{h} − 1)m₀ − …
//! ```
//!
//! λ is infinite at both ends of a flow and at σ = 0. An interval of infinite length is taken with order 1, where both forms are
//! the same and need no λ, and history from beyond such an interval is not used.

use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::Result;
use crate::path::{Path, Query, Sample};

/// Which prediction is extrapolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Predict {
    /// The data prediction x₀ (the "++" form).
    #[default]
    #[serde(rename = "x0")]
    Data,
    /// The noise prediction.
    #[serde(rename = "eps")]
    Noise,
}

/// Which prediction a method keeps, and whether data predictions are thresholded first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub predict: Predict,
    pub threshold: bool,
}

/// One prediction of the history.
pub(super) struct Memory {
    time: Coeff,
    lambda: Coeff,
    /// x₀ or n.
    pub value: Sample,
    /// dx/dσ in the noise form, whose first-order steps are made from it; the data again in the data form.
    slope: Sample,
}

impl Form {
    /// One evaluation at a state.
    pub fn evaluate(self, path: &mut Path<'_>, x: &Sample, time: &Coeff) -> Result<Memory> {
        let lambda = path.prediction().log_snr(time);
        let query = Query::at(time);
        let (value, slope) = match self.predict {
            Predict::Data => {
                let data = path.denoised(x, &query)?;
                let data = if self.threshold { path.threshold(&data) } else { data };
                (data.clone(), data)
            }
            Predict::Noise => {
                let slope = path.slope(x, &query)?;
                let noise = match path.prediction() {
                    Prediction::Denoised => slope.clone(),
                    Prediction::Velocity => path.combine(&[(1.0.into(), x), (1.0 - time, &slope)])?,
                };
                (noise, slope)
            }
        };
        Ok(Memory { time: time.clone(), lambda, value, slope })
    }

    /// The first-order step from the newest evaluation at state `x` to time `b`: DDIM in either form.
    pub fn first_order(self, path: &mut Path<'_>, x: &Sample, newest: &Memory, b: &Coeff) -> Result<Sample> {
        let a = &newest.time;
        match self.predict {
            // (σ_b/σ_a)x + (α_b − α_a·σ_b/σ_a)·x₀
            Predict::Data => {
                let ratio = b / a;
                let prediction = path.prediction();
                let weight = prediction.alpha(b) - prediction.alpha(a) * &ratio;
                path.combine(&[(ratio, x), (weight, &newest.value)])
            }
            Predict::Noise => path.combine(&[(1.0.into(), x), (b - a, &newest.slope)]),
        }
    }
}

/// An interval of finite length in λ.
pub(super) struct Interval {
    /// λ_b − λ_a > 0.
    pub h: Coeff,
    /// Factor of x: σ_b/σ_a or α_b/α_a.
    pub keep: Coeff,
    /// Factor of everything else: α_b or σ_b.
    pub outer: Coeff,
}

impl Interval {
    /// From the newest evaluation to `b`; none if its length is infinite.
    pub fn new(form: Form, prediction: Prediction, newest: &Memory, b: &Coeff) -> Option<Self> {
        let h = prediction.log_snr(b) - &newest.lambda;
        if !h.value().is_finite() {
            return None;
        }
        let (alpha_a, alpha_b) = (prediction.alpha(&newest.time), prediction.alpha(b));
        let (keep, outer) = match form.predict {
            Predict::Data => (b / &newest.time, alpha_b),
            Predict::Noise => (&alpha_b / alpha_a, b.clone()),
        };
        Some(Self { h, keep, outer })
    }
}

/// (λ_k − λ₀)/h for the older entries of a history, newest first, as far as they are finite. All are negative.
pub(super) fn distances(history: &[Memory], h: &Coeff) -> Vec<Coeff> {
    let newest = &history[0].lambda;
    history[1..].iter().map(|m| (&m.lambda - newest) / h).take_while(|r| r.value().is_finite()).collect()
}
