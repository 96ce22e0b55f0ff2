//! What a solver does to a batch: network calls and linear combinations. Written once, used twice.
//!
//! A solver talks to a [`Tape`] in four kinds of step: [`Tape::evaluate`] (a network call), [`Tape::combine`] (Σ cᵢ·vᵢ
//! with scalar [`Coeff`]s), [`Tape::apply`] (a linear map with [`Coeff`]s inside) and the element-wise
//! [`Tape::threshold`]. When sampling, each step is computed and forgotten. When recording, a step that depends on a
//! recorded coefficient is also kept as an op, and [`Tape::gradients`] runs the project's one reverse sweep over the
//! ops:
//!
//! ```text
//! y = Σ cᵢvᵢ        v̄ᵢ += cᵢ·ȳ      c̄ᵢ += ⟨ȳ, vᵢ⟩ per sample
//! y = M(c)x         x̄ += M(c)ᵀȳ     c̄ᵢ += ⟨ȳ, Mᵢx⟩ per sample
//! y = F(x, ℓ, e)    (x̄, ℓ̄, ē) += pullback(ȳ)    ℓ the level, e a shift of the network's embedding of it
//! ```
//!
//! Every solver is thereby differentiable in its coefficients, times and scales. Network calls are counted here, where
//! they are made, and nowhere else. So is the first number that is none: a prediction with NaN or infinity ends the run
//! at that call ([`Tape::fault`]), before thresholding or a weight of 0 could hide it.
//!
//! ```
//! use dyweight_core::coeff::Coeff;
//! use dyweight_core::mixture::Mixture;
//! use dyweight_core::tape::{Cotangent, Memory, Query, Tape};
//! use dyweight_core::Tensor;
//! let model = Mixture::spiral();
//! let mut tape = Tape::recording(&model, Memory::Recompute);
//! let x = tape.start(Tensor::new([1, 2, 1, 1], vec![0.5, -0.2])?);
//! let level = Coeff::parameter(0.4, 0);
//! let sample = tape.evaluate(&x, &Query::at(&level))?;
//! let cotangent = Tensor::new([1, 2, 1, 1], vec![1.0, 0.0])?;
//! // How the first entry of the denoised sample moves with the level.
//! let gradients = tape.gradients(vec![Cotangent { sample, cotangent }], 1)?;
//! assert!(gradients.parameters[0][0].is_finite());
//! # Ok::<(), dyweight_core::Error>(())
//! ```

mod linear;
mod sweep;
mod threshold;

pub use linear::LinearMap;
pub use sweep::{Cotangent, Gradients};

use crate::coeff::Coeff;
use crate::denoiser::{Denoiser, Differentiable, Levels, Prediction, Pullback};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::sync::Arc;
use threshold::Thresholded;

/// What a recording keeps of a network call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The activations: fastest, memory grows with the number of calls.
    Keep,
    /// State and level alone; the sweep calls the network again. Peak memory is that of one call.
    #[default]
    Recompute,
}

/// What a network knows in its narrowest place, a list for each sample.
pub type Feature = Arc<[Vec<f64>]>;

/// A batch inside a tape.
#[derive(Clone)]
pub struct Var {
    value: Arc<Tensor>,
    op: Option<usize>,
    feature: Option<Feature>,
}

impl Var {
    /// Its values.
    pub fn tensor(&self) -> &Tensor {
        &self.value
    }

    /// The same values, with nothing known of how they came about: no derivative passes.
    pub fn detached(&self) -> Self {
        Self { value: self.value.clone(), op: None, feature: None }
    }

    /// The bottleneck feature of the evaluation this was made of, where the [`Query`] asked for it: zeros of an
    /// analytical one. It takes no derivative.
    pub fn feature(&self) -> Result<&[Vec<f64>]> {
        self.feature.as_deref().ok_or_else(|| crate::denoiser::no_feature(0, None))
    }

    fn with_feature(self, feature: Option<Feature>) -> Self {
        Self { feature, ..self }
    }
}

/// Where and what the network is asked: the time of the state, and the level told to the network.
#[derive(Clone, Debug)]
pub struct Query {
    /// Time of the state, by which slopes are formed.
    pub time: Coeff,
    /// Level told to the network.
    pub level: Coeff,
    /// Added to the time where slopes divide by it; 0 but for DyWeight's released form.
    pub guard: f64,
    /// Added to the network's embedding of the level, number by number. A model that does not offer it refuses.
    pub embedding_shift: Vec<Coeff>,
    /// How many numbers of each sample's bottleneck the answer is to carry: [`Var::feature`].
    pub feature: Option<usize>,
    /// It needs nothing of the evaluation before, so that both could be made at once.
    pub parallel: bool,
}

impl Query {
    /// Asked at the state's own time.
    pub fn at(time: &Coeff) -> Self {
        Self::told(time, time.clone())
    }

    /// Asked at a state of some time, the network told another level.
    pub fn told(time: &Coeff, level: Coeff) -> Self {
        Self { time: time.clone(), level, guard: 0.0, embedding_shift: Vec::new(), feature: None, parallel: false }
    }

    /// The same with a bottleneck feature of so many numbers in its answer.
    pub fn with_feature(self, len: usize) -> Self {
        Self { feature: Some(len), ..self }
    }

    /// The same, said to need nothing of the evaluation before.
    pub fn in_parallel(self, on: bool) -> Self {
        Self { parallel: on, ..self }
    }

    fn levels(&self) -> Levels {
        Levels::shifted(&self.level, &self.embedding_shift)
    }

    fn is_recorded(&self) -> bool {
        self.level.is_recorded() || self.embedding_shift.iter().any(Coeff::is_recorded)
    }
}

/// A prediction that holds something else than numbers.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Level the network was told.
    pub level: f64,
    /// Index of the first bad sample in its batch.
    pub sample: usize,
    /// The value found.
    pub value: f64,
}

/// How one step came about, for the way back.
enum Op<'m> {
    /// A batch whose own derivative is wanted.
    Leaf(Var),
    Apply {
        map: Arc<dyn LinearMap>,
        coeffs: Vec<Coeff>,
        x: Var,
    },
    Combine(Vec<(Coeff, Var)>),
    Evaluate {
        x: Var,
        query: Query,
        /// The solver's step it was made in.
        step: usize,
        pullback: Option<Pullback<'m>>,
    },
    Threshold {
        x: Var,
        how: Thresholded,
    },
}

/// What a model says to a query.
struct Answer<'m> {
    value: Tensor,
    feature: Option<Feature>,
    pullback: Option<Pullback<'m>>,
}

struct Recording<'m> {
    model: &'m dyn Differentiable,
    memory: Memory,
    ops: Vec<Op<'m>>,
}

/// One run of a solver on one batch.
pub struct Tape<'m> {
    model: &'m dyn Denoiser,
    recording: Option<Recording<'m>>,
    analytic_first: bool,
    step: usize,
    evaluations: usize,
    calls: usize,
    sequential_calls: usize,
    fault: Option<Fault>,
}

impl<'m> Tape<'m> {
    /// A tape that computes and forgets.
    pub fn sampling(model: &'m dyn Denoiser) -> Self {
        Self {
            model,
            recording: None,
            analytic_first: false,
            step: 0,
            evaluations: 0,
            calls: 0,
            sequential_calls: 0,
            fault: None,
        }
    }

    /// A tape that can be swept backwards.
    pub fn recording(model: &'m dyn Differentiable, memory: Memory) -> Self {
        Self { recording: Some(Recording { model, memory, ops: Vec::new() }), ..Self::sampling(model) }
    }

    /// Answers the first evaluation analytically instead of calling the network ("AFS", Dockhorn et al. 2022).
    pub fn analytic_first(mut self, on: bool) -> Self {
        self.analytic_first = on;
        self
    }

    /// Says which step of the solver begins, so that a model's failure can be told with it.
    pub fn begin_step(&mut self, step: usize) {
        self.step = step;
    }

    /// Network calls made so far.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Network calls made so far, with those that could be made side by side counted once.
    pub fn sequential_calls(&self) -> usize {
        self.sequential_calls
    }

    /// Forgets how everything so far came about; what a solver has of it must be detached.
    pub fn forget(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.ops.clear();
        }
    }

    /// Evaluations so far, an analytical one included.
    pub fn evaluations(&self) -> usize {
        self.evaluations
    }

    /// The prediction that was not made of numbers, after [`Tape::evaluate`] failed for it.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// What the model predicts.
    pub fn prediction(&self) -> Prediction {
        self.model.info().prediction
    }

    /// A batch nothing is known of.
    pub fn start(&self, value: Tensor) -> Var {
        Var { value: Arc::new(value), op: None, feature: None }
    }

    /// A batch whose derivative is wanted too; see [`Gradients::leaves`].
    pub fn leaf(&mut self, value: Tensor) -> Var {
        let start = self.start(value);
        match self.recording.is_some() {
            true => self.recorded(start.tensor().clone(), Op::Leaf(start)),
            false => start,
        }
    }

    /// The network's prediction for state `x`: one evaluation, [`calls`](crate::denoiser::Info::calls) network calls.
    pub fn evaluate(&mut self, x: &Var, query: &Query) -> Result<Var> {
        let (step, calls) = (self.step, self.model.info().calls);
        self.evaluations += 1;
        self.calls += calls;
        self.sequential_calls += if query.parallel { 0 } else { calls };
        let tracked = self.recording.is_some() && (x.op.is_some() || query.is_recorded());
        let Answer { value, feature, pullback } = self.ask(x, query, tracked).map_err(|e| e.in_step(step))?;
        self.check(&value, x, &query.level)?;
        let answer = match tracked {
            true => self.recorded(value, Op::Evaluate { x: x.clone(), query: query.clone(), step, pullback }),
            false => self.start(value),
        };
        Ok(answer.with_feature(feature))
    }

    fn ask(&self, x: &Var, query: &Query, tracked: bool) -> Result<Answer<'m>> {
        self.model.info().embedding.require(query.embedding_shift.len())?;
        let levels = query.levels();
        let recording = self.recording.as_ref().map(|r| (r.model, r.memory));
        match (query.feature, recording) {
            (Some(len), _) => {
                let (value, feature) = self.model.predict_with_feature(&x.value, &levels, len)?;
                Ok(Answer { value, feature: Some(feature.into()), pullback: None })
            }
            (None, Some((model, Memory::Keep))) if tracked => {
                let (value, pullback) = model.with_pullback(&x.value, &levels)?;
                Ok(Answer { value, feature: None, pullback: Some(pullback) })
            }
            _ => Ok(Answer { value: self.model.predict(&x.value, &levels)?, feature: None, pullback: None }),
        }
    }

    /// A model's answer is looked at once, here: its shape and its numbers.
    fn check(&mut self, output: &Tensor, x: &Var, level: &Coeff) -> Result<()> {
        require_shape("the network's output", x.value.shape(), output)?;
        let Some((index, value)) = output.first_not_finite() else { return Ok(()) };
        let sample = index / output.sample_len().max(1);
        self.fault = Some(Fault { level: level.of(sample), sample, value });
        Err(Error::NotFinite { what: "the network's output".into(), index, value })
    }

    /// Σ cᵢ·vᵢ.
    pub fn combine(&mut self, terms: &[(Coeff, &Var)]) -> Result<Var> {
        let value = linear_combination(terms)?;
        let tracked = terms.iter().any(|(c, v)| c.is_recorded() || v.op.is_some());
        if self.recording.is_some() && tracked {
            let terms = terms.iter().map(|(c, v)| (c.clone(), (*v).clone())).collect();
            return Ok(self.recorded(value, Op::Combine(terms)));
        }
        Ok(self.start(value))
    }

    /// M(c)x: a linear map with coefficients inside, such as a convolution with a learned kernel.
    pub fn apply(&mut self, map: &Arc<dyn LinearMap>, coeffs: &[Coeff], x: &Var) -> Var {
        let value = linear::apply(&**map, coeffs, &x.value);
        let tracked = x.op.is_some() || coeffs.iter().any(Coeff::is_recorded);
        if self.recording.is_some() && tracked {
            let op = Op::Apply { map: map.clone(), coeffs: coeffs.to_vec(), x: x.clone() };
            return self.recorded(value, op);
        }
        self.start(value)
    }

    /// Dynamic thresholding of a data prediction (Saharia et al. 2022): each sample clipped to ±s and divided by s,
    /// with s the larger of 1 and the 99.5 % quantile of its absolute values.
    pub fn threshold(&mut self, x: &Var) -> Var {
        let (value, how) = threshold::apply(&x.value);
        if self.recording.is_some() && x.op.is_some() {
            return self.recorded(value, Op::Threshold { x: x.clone(), how }).with_feature(x.feature.clone());
        }
        self.start(value).with_feature(x.feature.clone())
    }

    fn recorded(&mut self, value: Tensor, op: Op<'m>) -> Var {
        let ops = &mut self.recording.as_mut().expect("only called while recording").ops;
        ops.push(op);
        Var { value: Arc::new(value), op: Some(ops.len() - 1), feature: None }
    }

    /// dx/dσ at a state: one evaluation, or the analytical first step.
    pub fn slope(&mut self, x: &Var, query: &Query) -> Result<Var> {
        if self.takes_analytic_step() {
            let zeros = |len| vec![vec![0.0; len]; x.value.samples()].into();
            let slope = self.combine(&[(self.prediction().analytic_slope(&query.time), x)])?;
            return Ok(slope.with_feature(query.feature.map(zeros)));
        }
        let output = self.evaluate(x, query)?;
        match self.prediction() {
            Prediction::Velocity => Ok(output),
            Prediction::Denoised => {
                let inverse = (&query.time + query.guard).recip();
                let slope = self.combine(&[(inverse.clone(), x), (-inverse, &output)])?;
                Ok(slope.with_feature(output.feature))
            }
        }
    }

    /// The data prediction x₀ at a state: one evaluation, or the analytical first step.
    pub fn denoised(&mut self, x: &Var, query: &Query) -> Result<Var> {
        if !self.analytic_pending() && self.prediction() == Prediction::Denoised {
            return self.evaluate(x, query);
        }
        // x₀ = x − σ·dx/dσ in both processes.
        let slope = self.slope(x, query)?;
        let data = self.combine(&[(Coeff::from(1.0), x), (-&query.time, &slope)])?;
        Ok(data.with_feature(slope.feature))
    }

    fn analytic_pending(&self) -> bool {
        self.analytic_first && self.evaluations == 0
    }

    fn takes_analytic_step(&mut self) -> bool {
        let pending = self.analytic_pending();
        self.evaluations += usize::from(pending);
        pending
    }
}

fn linear_combination(terms: &[(Coeff, &Var)]) -> Result<Tensor> {
    let Some((_, first)) = terms.first() else { return Ok(Tensor::zeros([0, 0, 0, 0])) };
    let shape = first.value.shape();
    let mut out = Tensor::zeros(shape);
    for (coeff, sample) in terms {
        require_shape("linear combination", shape, &sample.value)?;
        add_scaled(&mut out, coeff, &sample.value);
    }
    Ok(out)
}

/// sum += c·v, sample by sample where c has a number for each.
fn add_scaled(sum: &mut Tensor, coeff: &Coeff, v: &Tensor) {
    let len = if coeff.per_sample().is_some() { v.sample_len().max(1) } else { v.data().len().max(1) };
    for (i, (sum, v)) in sum.data_mut().chunks_mut(len).zip(v.data().chunks(len)).enumerate() {
        let c = coeff.of(i);
        sum.iter_mut().zip(v).for_each(|(s, v)| *s += c * v);
    }
}

fn require_shape(what: &str, shape: [usize; 4], tensor: &Tensor) -> Result<()> {
    if tensor.shape() == shape {
        return Ok(());
    }
    Err(Error::Shape { what: what.into(), expected: shape.to_vec(), found: tensor.shape().to_vec() })
}
