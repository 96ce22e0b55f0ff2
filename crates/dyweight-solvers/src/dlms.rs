//! DLMS (Liang et al. 2025, "Distilling Linear Multistep Solvers"): coefficients, next time and time scale that a small
//! network predicts for each sample at each step.
//!
//! ```text
//! x ← (t'/t)x + (1 − t'/t)·Σ_k a_k D_k          D_k the last predictions, newest first, Σ a_k = 1; the network told
//!     s·t
//! a_k = β_k + head_k for k ≥ 2, a₁ = 1 − Σ others                    β: Adams–Bashforth of order min(i + 1, 4)
//! λ(t') = λ(t) + f·(λ_S − λ(t)),  f = sigmoid(logit f° + head)
//!                                                          f°: the nominal grid's share; the last t' is the grid's end
//! s = 1 + 0.2·(2·sigmoid(head) − 1)             of the next evaluation
//! ```
//!
//! There is no public code. Our own choices: the designer is AMED's small network (`small_net.rs`), fed with the
//! feature of the last evaluation and the nominal times of the step; all heads start at 0, so that the start is the
//! nominal grid with Adams–Bashforth weights on data predictions (which is not iPNDM beyond order 1); an analytical
//! first step predicts x(1 − t/√(1+t²)) instead of 0, as everywhere in this program; flows move along t itself, where λ
//! is infinite at both ends. Training is on the endpoint, through all steps.
//!
//! DLMS (Liang et al. 2025): the designer by Adam at 5·10⁻³ on the endpoint. The recipe is second-hand; see the solver
//! for what is our own.

use crate::learned::{Block, Built, Frame, LearnedSolver};
use crate::method::{Method, MethodParams, Open, Start};
use crate::small_net::{self, HEAD, Layer, Layers};
use crate::spec::train::TrainSpec;
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::{Prediction, no_feature};
use dyweight_core::error::Result;
use dyweight_core::noise::Stream;
use dyweight_core::solver::{Run, Solver, Times, adams_bashforth};
use dyweight_core::tape::{Query, Tape, Var};
use serde::{Deserialize, Serialize};

/// Predictions a step weighs at most.
const ORDER: usize = 4;
/// Heads: coefficients but the first, the time, the scale.
const OUTPUTS: usize = ORDER - 1 + 2;
/// How far the network's time may be scaled.
const RANGE: f64 = 0.2;

/// The designer's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dlms {
    /// The layers before the heads.
    #[serde(flatten)]
    pub layers: Layers,
    /// Weights of the heads: three coefficients, the time, the scale.
    #[serde(rename = "heads.weight")]
    pub head_weight: Vec<Vec<f64>>,
    /// Their biases.
    #[serde(rename = "heads.bias")]
    pub head_bias: Vec<f64>,
}

impl Dlms {
    /// A designer for features of a length: layers drawn as AMED's, heads 0.
    pub fn start(features: usize, uniform: impl FnMut() -> f64, mut normal: impl FnMut() -> f64) -> Self {
        let layers = Layers::start(features, uniform, &mut normal);
        Self { layers, head_weight: vec![vec![0.0; HEAD]; OUTPUTS], head_bias: vec![0.0; OUTPUTS] }
    }

    fn layers(&self) -> [Layer<'_>; 4] {
        let [times, first, second] = self.layers.list();
        let heads = Layer::new(["heads.weight", "heads.bias"], &self.head_weight, &self.head_bias, (OUTPUTS, HEAD));
        [times, first, second, heads]
    }
}

impl LearnedSolver for Dlms {
    fn steps(&self) -> Option<usize> {
        None
    }

    fn blocks(&self) -> Vec<Block> {
        small_net::blocks(&self.layers())
    }

    fn params(&self) -> Vec<f64> {
        small_net::params(&self.layers())
    }

    fn replace(&mut self, params: &[f64]) {
        let heads = (&mut self.head_weight, &mut self.head_bias);
        small_net::replace(self.layers.list_mut().into_iter().chain([heads]), params);
    }

    fn check(&self) -> Result<()> {
        small_net::check(&self.layers())
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        let sizes = self.layers().map(|layer| layer.size);
        let solver = Designed { features: self.layers.features(), sizes, params: params.to_vec() };
        Ok(Built { solver: Box::new(solver), times: frame.grid.coeffs() })
    }

    fn summary(&self) -> String {
        format!("a designer of {} numbers on features of {}", self.params().len(), self.layers.features())
    }
}

struct Designed {
    features: usize,
    sizes: [(usize, usize); 4],
    params: Vec<Coeff>,
}

struct DesignedRun<'s> {
    solver: &'s Designed,
    /// The nominal grid.
    times: Times<'s>,
    /// Where each sample is.
    time: Coeff,
    /// Of the level at the next evaluation.
    scale: Coeff,
    /// Predictions, newest first.
    known: Vec<Var>,
}

impl Solver for Designed {
    fn label(&self) -> String {
        "dlms".into()
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        let (time, scale) = (times[0].clone(), Coeff::from(1.0));
        Ok(Box::new(DesignedRun { solver: self, times, time, scale, known: Vec::new() }))
    }
}

impl DesignedRun<'_> {
    /// What the designer says of step i, from the feature of its evaluation.
    fn ask(&self, feature: &[Vec<f64>], i: usize) -> Vec<Coeff> {
        let Designed { sizes, params, .. } = self.solver;
        let between = (self.times[i].value(), self.times[i + 1].value());
        small_net::ask(params, sizes, feature, between)
    }

    /// The next time, and where the nominal grid has it.
    fn next(&self, i: usize, prediction: Prediction, said: &Coeff) -> Coeff {
        let steps = self.times.len() - 1;
        if i + 1 == steps {
            return self.times[steps].clone();
        }
        let place = |t: &Coeff| if prediction == Prediction::Denoised { prediction.log_snr(t) } else { -t };
        let [from, to, end] = [&self.times[i], &self.times[i + 1], &self.times[steps]].map(|t| place(t).value());
        let share = (to - from) / (end - from);
        let fraction = (said + (share / (1.0 - share)).ln()).sigmoid();
        let here = place(&self.time);
        let there = &here + (end - &here) * fraction;
        if prediction == Prediction::Denoised { (-there).exp() } else { -there }
    }
}

impl Run for DesignedRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let query = Query::told(&self.time, &self.scale * &self.time).with_feature(self.solver.features);
        let data = tape.denoised(&x, &query)?;
        let said = self.ask(data.feature()?, i);
        self.known.insert(0, data);
        self.known.truncate(ORDER);
        let tail = &adams_bashforth(self.known.len())[1..];
        let others: Vec<Coeff> = tail.iter().zip(&said).map(|(w, head)| head + *w).collect();
        let next = self.next(i, tape.prediction(), &said[ORDER - 1]);
        let prediction = tape.prediction();
        let keep = &next / &self.time;
        let outer = prediction.alpha(&next) - prediction.alpha(&self.time) * &keep;
        let newest = &outer * (1.0 - Coeff::sum(&others));
        let mut terms = vec![(keep, &x)];
        let weights = std::iter::once(newest).chain(others.iter().map(|a| &outer * a));
        terms.extend(weights.zip(&self.known));
        self.time = next;
        // Flows know no level above 1: their times are told as they are.
        self.scale = match prediction {
            Prediction::Denoised => 1.0 - RANGE + said[ORDER].sigmoid() * (2.0 * RANGE),
            Prediction::Velocity => Coeff::from(1.0),
        };
        tape.combine(&terms)
    }
}

/// The method.
pub struct DlmsMethod;

impl Method for DlmsMethod {
    fn options(&self) -> &'static [&'static str] {
        &["afs"]
    }

    fn default_afs(&self, prediction: Prediction) -> bool {
        prediction == Prediction::Denoised
    }

    fn default_rate(&self, _: usize) -> f64 {
        5e-3
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Start> {
        if let Some(body) = Start::given(spec, frame.grid.steps(), open)? {
            return Start::of(body, spec);
        }
        let features = frame.feature.ok_or_else(|| no_feature(0, None))?;
        let seed = spec.seed.unwrap_or(0);
        let [mut u, mut z] = ["uniform", "normal"].map(|kind| Stream::labelled(seed, &format!("designer {kind}")));
        Start::of(MethodParams::Dlms(Dlms::start(features, || u.uniform(), || z.normal())), spec)
    }
}
