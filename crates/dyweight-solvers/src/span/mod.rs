//! A wider span for DyWeight: directions of its update beyond the slopes themselves, at no further network call.
//!
//! ```text
//! x ← x + δ·( Σⱼ w_ij dⱼ  +  ρ·[ aᵢ·x/√(1+T²) + eᵢ·n  +  Σ_b P_b Σⱼ v_ij^b dⱼ  +  Σⱼ K_ij∗dⱼ + K_i∗x/√(1+T²) ] )
//!                                └ state ────────────┘    └ bands ───────────┘    └ operator ──────────────────┘
//! T ← T + δ·Σⱼ w_ij                            as before: w are the mean of the bands' weights, Σ_b v^b = 0
//! ρ = √(1 + t_{i+1}²)/√(1 + T²)
//! ```
//!
//! n is the unit noise a run started from (at step 0 it is the state, so e begins at step 1). P_b is a band of
//! frequencies ([`Bands`]), K a small convolution ([`Operator`]); with [`SampleNet`] the weights w are each sample's
//! own, and with [`EmbeddingShift`] the network is asked otherwise. The state is divided by its usual size, so that all
//! parameters weigh vectors of the size of a slope. T does not follow these directions as it follows w, so what they
//! move stays in the state as an error of its own: ρ makes a number worth the same share of the next state's size in
//! every step. Without it the first step, whose δ is many times the next level, is thrown off by the first update.
//! Every number is 0 before training, and then the bits are DyWeight's.
//!
//! The state and the starting noise are those of non-stationary solvers (Shaul et al. 2024); operators follow SpanLift
//! (arXiv 2606.08672), of which no code is public: kernels per step, the division of the state, ρ and the bands are our
//! own choices.

mod bands;
mod cosine;
mod embedding;
mod operator;
mod sample;
mod spec;

pub use bands::Bands;
pub(crate) use bands::check_edges;
pub use embedding::EmbeddingShift;
pub use operator::{Operator, SIZES};
pub use sample::SampleNet;
pub use spec::{On, OperatorSpec, SpanSpec};

use crate::learned::{Block, require_len};
use bands::BandRun;
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{Place, Rows, Wider, WiderRun};
use dyweight_core::tape::{Query, Tape, Var};
use serde::{Deserialize, Serialize};

/// What a solver weighs besides slopes; numbers of a file, or coefficients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span<T = f64> {
    /// Weights on state and noise.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub state: Option<StateWeights<T>>,
    /// Weights per band of frequencies.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub bands: Option<Bands<T>>,
    /// Convolutions.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub operator: Option<Operator<T>>,
    /// Weights of each sample's own.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleNet<T>>,
    /// Shifts of the network's embedding of the noise level.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingShift<T>>,
}

fn none<T>() -> Option<T> {
    None
}

impl<T> Default for Span<T> {
    fn default() -> Self {
        Self { state: None, bands: None, operator: None, sample: None, embedding: None }
    }
}

/// Weights on the state and on the starting noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateWeights<T = f64> {
    /// aᵢ, one per step.
    pub state: Vec<T>,
    /// eᵢ, one per step but the first.
    pub noise: Vec<T>,
}

impl StateWeights {
    /// All 0.
    pub fn zero(steps: usize) -> Self {
        Self { state: vec![0.0; steps], noise: vec![0.0; steps.saturating_sub(1)] }
    }
}

impl<T> Span<T> {
    /// True if there is nothing but DyWeight.
    pub fn is_empty(&self) -> bool {
        let none = self.state.is_none() && self.bands.is_none() && self.operator.is_none();
        none && self.sample.is_none() && self.embedding.is_none()
    }

    /// Its parts, as the option of training names them.
    pub fn parts(&self) -> Vec<String> {
        let state = self.state.as_ref().map(|_| "state".to_string());
        let (bands, operator) = (self.bands.as_ref().map(Bands::name), self.operator.as_ref().map(Operator::name));
        let sample = self.sample.as_ref().map(|_| "sample".to_string());
        let embedding = self.embedding.as_ref().map(|_| "embedding".to_string());
        [state, bands, operator, sample, embedding].into_iter().flatten().collect()
    }

    /// The blocks of its parameters, in their order.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        if let Some(StateWeights { state, noise }) = &self.state {
            blocks.push(Block::new("state_weight", &[state.len()]));
            blocks.push(Block::new("noise_weight", &[noise.len()]));
        }
        blocks.extend(self.bands.as_ref().map(Bands::block));
        blocks.extend(self.operator.as_ref().map(Operator::block));
        blocks.extend(self.sample.as_ref().map(SampleNet::block));
        blocks.extend(self.embedding.as_ref().map(EmbeddingShift::block));
        blocks
    }

    /// The parameters.
    pub fn params(&self) -> Vec<&T> {
        let mut all = Vec::new();
        if let Some(StateWeights { state, noise }) = &self.state {
            all.extend(state.iter().chain(noise));
        }
        all.extend(self.bands.iter().flat_map(|bands| bands.offsets.iter().flatten().flatten()));
        all.extend(self.operator.iter().flat_map(|operator| operator.kernels.iter().flatten().flatten()));
        all.extend(self.sample.iter().flat_map(|sample| sample.layers.iter().flatten().flatten()));
        all.extend(self.embedding.iter().flat_map(|embedding| embedding.shifts.iter().flatten()));
        all
    }

    /// The same span of other parameters, in the order of [`params`](Self::params).
    pub fn with<U: Clone>(&self, params: &[U]) -> Span<U> {
        let mut rest = params.iter();
        let mut list = |old: &Vec<T>| -> Vec<U> { rest.by_ref().take(old.len()).cloned().collect() };
        let state = self.state.as_ref().map(|s| StateWeights { state: list(&s.state), noise: list(&s.noise) });
        let mut tables = |old: &Vec<Vec<Vec<T>>>| -> Vec<Vec<Vec<U>>> {
            old.iter().map(|table| table.iter().map(&mut list).collect()).collect()
        };
        let bands = self.bands.as_ref().map(|b| Bands { edges: b.edges.clone(), offsets: tables(&b.offsets) });
        let operator = self.operator.as_ref().map(|o| {
            let Operator { size, channels, mixed, kernels } = o;
            Operator { size: *size, channels: *channels, mixed: *mixed, kernels: tables(kernels) }
        });
        let sample = self.sample.as_ref().map(|s| SampleNet { layers: tables(&s.layers) });
        let embedding =
            self.embedding.as_ref().map(|e| EmbeddingShift { shifts: e.shifts.iter().map(&mut list).collect() });
        Span { state, bands, operator, sample, embedding }
    }

    /// An error unless the shapes go with rows of these widths.
    pub fn check(&self, widths: &[usize]) -> Result<()> {
        if let Some(StateWeights { state, noise }) = &self.state {
            require_len("span: weights on the state, one per step", widths.len(), state.len())?;
            require_len("span: weights on the noise, one per step but the first", widths.len() - 1, noise.len())?;
        }
        self.bands.iter().try_for_each(|bands| bands.check(widths))?;
        self.operator.iter().try_for_each(|operator| operator.check(widths))?;
        self.sample.iter().try_for_each(|sample| sample.check(widths))?;
        self.embedding.iter().try_for_each(|embedding| embedding.check(widths.len()))
    }
}

impl Span {
    /// An error unless all parameters are finite.
    pub fn require_finite(&self) -> Result<()> {
        let params = self.params();
        match params.iter().position(|v| !v.is_finite()) {
            Some(index) => Err(Error::NotFinite { what: "span".into(), index, value: *params[index] }),
            None => Ok(()),
        }
    }
}

/// Widths of rows.
pub(crate) fn widths<T>(rows: &[Vec<T>]) -> Vec<usize> {
    rows.iter().map(Vec::len).collect()
}

/// What a run has of its span.
struct SpanRun<'s> {
    span: &'s Span<Coeff>,
    steps: usize,
    /// The state it started from, where noise is weighed.
    start: Option<Var>,
    bands: Option<BandRun<'s>>,
}

impl Wider for Span<Coeff> {
    fn parts(&self) -> Vec<String> {
        self.parts()
    }

    fn channels(&self) -> Option<usize> {
        self.operator.as_ref().map(|operator| operator.channels)
    }

    fn check(&self, widths: &[usize]) -> Result<()> {
        self.check(widths)
    }

    fn begin(&self, steps: usize) -> Box<dyn WiderRun + '_> {
        Box::new(SpanRun { span: self, steps, start: None, bands: self.bands.as_ref().map(BandRun::new) })
    }
}

impl WiderRun for SpanRun<'_> {
    fn query(&self, query: Query, step: usize) -> Query {
        let Span { sample, embedding, .. } = self.span;
        let embedding_shift = embedding.as_ref().map_or_else(Vec::new, |shift| shift.of(step, self.steps).to_vec());
        Query { feature: sample.as_ref().map(SampleNet::features), embedding_shift, ..query }
    }

    fn row(&self, slope: &Var, row: &[Coeff], times: &[Coeff]) -> Result<Vec<Coeff>> {
        match &self.span.sample {
            Some(sample) => Ok(sample.row(slope.feature()?, row, (times[0].value(), times[1].value()))),
            None => Ok(row.to_vec()),
        }
    }

    fn terms(&mut self, tape: &mut Tape<'_>, place: &Place<'_>) -> Result<Vec<(Coeff, Var)>> {
        let (span, mut terms) = (self.span, Vec::new());
        let usual = || (place.time * place.time + 1.0).sqrt().recip();
        if let Some(StateWeights { state, noise }) = &span.state {
            terms.push((&state[place.step] * usual(), place.x.clone()));
            let start = self.start.get_or_insert_with(|| place.x.clone());
            if place.step > 0 {
                terms.push((&noise[place.step - 1] / place.first, start.clone()));
            }
        }
        if let Some(bands) = &mut self.bands {
            terms.push((Coeff::from(1.0), bands.weighed(tape, place)?));
        }
        if let Some(operator) = &span.operator {
            let (of_slopes, of_state) = operator.convolved(tape, place)?;
            terms.extend(of_slopes.into_iter().map(|y| (Coeff::from(1.0), y)));
            terms.push((usual(), of_state));
        }
        let share = (place.next * place.next + 1.0).sqrt() * usual();
        Ok(terms.into_iter().map(|(factor, term)| (factor * &share, term)).collect())
    }
}

/// Rows that go with other widths: entries that are 0 are gained, or the oldest dropped, whose weight goes to the
/// oldest that is left. A row's sum, which is the time its step goes, stays.
pub(crate) fn fitted_rows(rows: &Rows, widths: &[usize]) -> Rows {
    let one = |(row, width): (&Vec<f64>, &usize)| {
        let mut kept = fitted(row, *width, &0.0);
        let dropped = row[..row.len().saturating_sub(*width)].iter().sum::<f64>();
        kept.iter_mut().take(1).filter(|_| dropped != 0.0).for_each(|oldest| *oldest += dropped);
        kept
    };
    rows.iter().zip(widths).map(one).collect()
}

/// A list, newest last, that goes with another width.
fn fitted<T: Clone>(list: &[T], width: usize, nothing: &T) -> Vec<T> {
    let kept = &list[list.len().saturating_sub(width)..];
    [vec![nothing.clone(); width - kept.len()], kept.to_vec()].concat()
}

impl Span {
    /// The same for rows of other widths.
    pub fn fitted(&self, widths: &[usize]) -> Self {
        let bands = self.bands.as_ref().map(|bands| Bands {
            edges: bands.edges.clone(),
            offsets: bands.offsets.iter().map(|rows| fitted_rows(rows, widths)).collect(),
        });
        let operator = self.operator.as_ref().map(|o| {
            // The state's kernel stands behind those of the slopes: it is the newest, and stays.
            let step = |(list, width): (&Vec<Vec<f64>>, &usize)| fitted(list, width + 1, &vec![0.0; o.taps()]);
            Operator { kernels: o.kernels.iter().zip(widths).map(step).collect(), ..o.clone() }
        });
        let window = widths.iter().copied().max().unwrap_or(0);
        let sample = self.sample.as_ref().map(|sample| sample.fitted(window));
        Self { state: self.state.clone(), bands, operator, sample, embedding: self.embedding.clone() }
    }
}
