//! What the exponential integrators DPM-Solver++ and UniPC share.
//!
//! Both work in λ = ln(α/σ) on a history of data predictions m = x₀ or noise predictions m = n:
//!
//! ```text
//! data    x_b = (σ_b/σ_a)x − α_b·(e^{−h} − 1)m₀ − …      h = λ_b − λ_a
//! noise   x_b = (α_b/α_a)x − σ_b·(e^{h} − 1)m₀ − …
//! ```
//!
//! λ is infinite at both ends of a flow and at σ = 0. An interval of infinite length is taken with order 1, where both
//! forms are the same and need no λ, and history from beyond such an interval is not used. (From pure noise UniPC's
//! corrector has a limit: see there.)

use super::Carried;
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::{Error, Result};
use crate::tape::{Query, Tape, Var};

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

/// Whether the last steps have lower orders: each at most the number of steps that are left, itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "LowerOrderFinalText", into = "LowerOrderFinalText")]
pub enum LowerOrderFinal {
    /// As the method was published: DPM-Solver++ on fewer than 15 steps, UniPC always.
    #[default]
    Auto,
    /// On any number of steps.
    Always,
    /// Never.
    Never,
}

/// The setting as it is written: `"auto"`, `true` or `false`.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
enum LowerOrderFinalText {
    Switch(bool),
    Word(String),
}

impl From<bool> for LowerOrderFinal {
    fn from(on: bool) -> Self {
        if on { Self::Always } else { Self::Never }
    }
}

impl From<LowerOrderFinal> for LowerOrderFinalText {
    fn from(setting: LowerOrderFinal) -> Self {
        match setting {
            LowerOrderFinal::Auto => Self::Word("auto".into()),
            LowerOrderFinal::Always => Self::Switch(true),
            LowerOrderFinal::Never => Self::Switch(false),
        }
    }
}

impl TryFrom<LowerOrderFinalText> for LowerOrderFinal {
    type Error = Error;
    fn try_from(told: LowerOrderFinalText) -> Result<Self> {
        match told {
            LowerOrderFinalText::Switch(on) => Ok(on.into()),
            LowerOrderFinalText::Word(word) => word.parse(),
        }
    }
}

impl std::str::FromStr for LowerOrderFinal {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "true" => Ok(Self::Always),
            "false" => Ok(Self::Never),
            _ => Err(Error::bad_value("lower-order-final", text, "must be auto, true or false")),
        }
    }
}

impl std::fmt::Display for LowerOrderFinal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "true",
            Self::Never => "false",
        })
    }
}

/// What DPM-Solver++ and UniPC can both be told. By default the data form without thresholding, with the published rule
/// for the last orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Which prediction is kept.
    pub predict: Predict,
    /// Thresholds data predictions; the noise form has none.
    pub threshold: bool,
    /// Whether the order falls towards the end.
    pub lower_order_final: LowerOrderFinal,
}

/// One prediction of the history.
pub struct Evaluated {
    time: Coeff,
    /// λ there.
    pub lambda: Coeff,
    /// x₀ or n.
    pub value: Var,
    /// dx/dσ in the noise form, whose first-order steps are made from it; the data again in the data form.
    slope: Var,
}

impl Form {
    /// One evaluation at a state of some time.
    pub fn evaluate(self, tape: &mut Tape<'_>, x: &Var, time: &Coeff, query: &Query) -> Result<Evaluated> {
        let lambda = tape.prediction().log_snr(time);
        let (value, slope) = match self.predict {
            Predict::Data => {
                let data = tape.denoised(x, query)?;
                let data = if self.threshold { tape.threshold(&data) } else { data };
                (data.clone(), data)
            }
            Predict::Noise => {
                let slope = tape.slope(x, query)?;
                let noise = match tape.prediction() {
                    Prediction::Denoised => slope.clone(),
                    Prediction::Velocity => tape.combine(&[(1.0.into(), x), (1.0 - time, &slope)])?,
                };
                (noise, slope)
            }
        };
        Ok(Evaluated { time: time.clone(), lambda, value, slope })
    }

    /// The first-order step from the newest evaluation at state `x` to time `b`: DDIM in either form. `scale`
    /// multiplies all of it but what is kept of x.
    pub fn first_order(
        self,
        tape: &mut Tape<'_>,
        x: &Var,
        newest: &Evaluated,
        (b, scale): (&Coeff, Option<&Coeff>),
    ) -> Result<Var> {
        let scaled = |c: Coeff| scale.map_or(c.clone(), |scale| c * scale);
        let a = &newest.time;
        match self.predict {
            Predict::Data => {
                let (keep, weight) = newest.data_factors(tape.prediction(), b);
                tape.combine(&[(keep, x), (scaled(weight), &newest.value)])
            }
            Predict::Noise => tape.combine(&[(1.0.into(), x), (scaled(b - a), &newest.slope)]),
        }
    }
}

impl Evaluated {
    /// The bottleneck feature of the evaluation, where the query asked for it.
    pub fn feature(&self) -> Result<&[Vec<f64>]> {
        self.slope.feature()
    }

    /// A history, to be carried to another run.
    pub fn carried(history: &[Self]) -> Carried {
        let samples = history.iter().flat_map(|m| [m.value.clone(), m.slope.clone()]).collect();
        Carried { samples, coeffs: history.iter().map(|m| m.time.clone()).collect() }
    }

    /// A history that was carried.
    pub fn from_carried(carried: Carried, prediction: Prediction) -> Vec<Self> {
        let pairs = carried.samples.chunks_exact(2).zip(carried.coeffs);
        let entry = |(pair, time): (&[Var], Coeff)| {
            let lambda = prediction.log_snr(&time);
            Self { time, lambda, value: pair[0].clone(), slope: pair[1].clone() }
        };
        pairs.map(entry).collect()
    }

    /// True at σ = 1 of a flow, where there is no data in the state.
    pub(super) fn is_pure_noise(&self) -> bool {
        self.lambda.value() == f64::NEG_INFINITY
    }

    /// Factors of x and x₀ in the first-order step to time `b`: σ_b/σ_a and α_b − α_a·σ_b/σ_a.
    pub fn data_factors(&self, prediction: Prediction, b: &Coeff) -> (Coeff, Coeff) {
        let keep = b / &self.time;
        let weight = prediction.alpha(b) - prediction.alpha(&self.time) * &keep;
        (keep, weight)
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
    pub fn new(form: Form, prediction: Prediction, newest: &Evaluated, b: &Coeff) -> Option<Self> {
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
pub(super) fn distances(history: &[Evaluated], h: &Coeff) -> Vec<Coeff> {
    let newest = &history[0].lambda;
    history[1..].iter().map(|m| (&m.lambda - newest) / h).take_while(|r| r.value().is_finite()).collect()
}
