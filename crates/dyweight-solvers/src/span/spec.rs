//! The option `--span`: which parts of a wider span are learned beside DyWeight's weights.
//!
//! ```text
//! LIST = none | wide | PART,PART,…      PART = state | bands[:EDGE:EDGE…] | operator:3|5[:mixed] | sample | embedding
//! ```

use super::{Bands, EmbeddingShift, Operator, SIZES, SampleNet, Span, StateWeights, check_edges};
use dyweight_core::denoiser::{no_embedding, no_feature};
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Stream;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The parts that are switched on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpanSpec {
    /// What is worth having at the budget, of what the model offers.
    pub wide: bool,
    /// Weights on state and noise.
    pub state: bool,
    /// Weights per band, with the edges of the bands.
    pub bands: Option<Vec<f64>>,
    /// Convolutions.
    pub operator: Option<OperatorSpec>,
    /// Weights of each sample's own.
    pub sample: bool,
    /// Shifts of the network's embedding of the noise level.
    pub embedding: bool,
}

/// The convolutions of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorSpec {
    /// Entries of a kernel's side.
    pub size: usize,
    /// Whether channels are mixed.
    pub mixed: bool,
}

/// Nobody learns more.
const MOST_NUMBERS: usize = 1 << 20;
const EXPECTED: &str = "a list of state, bands (or bands:3:7:13), operator:3, operator:5, operator:3:mixed, operator:5:mixed, sample, embedding; or wide; or none";
/// Calls up to which a span is worth having (docs/studies/beyond.md).
const WIDE_CALLS: usize = 3;
/// Shifts of the embedding have no more parameters there: second-order descent solves for all at once.
const WIDE_SHIFTS: usize = 1536;

impl SpanSpec {
    /// True if it adds nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for SpanSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let shown: String = text.chars().take(80).collect();
        let bad = || Error::bad_value("span", &shown, EXPECTED);
        let mut spec = Self::default();
        if text.trim() == "none" {
            return Ok(spec);
        }
        if text.trim() == "wide" {
            return Ok(Self { wide: true, ..spec });
        }
        for part in text.split(',') {
            let (name, options) = part.trim().split_once(':').map_or((part.trim(), None), |(n, o)| (n, Some(o)));
            let is_new = match name {
                "state" if options.is_none() => !std::mem::replace(&mut spec.state, true),
                "sample" if options.is_none() => !std::mem::replace(&mut spec.sample, true),
                "embedding" if options.is_none() => !std::mem::replace(&mut spec.embedding, true),
                "bands" => spec.bands.replace(edges(options).ok_or_else(bad)?).is_none(),
                "operator" => spec.operator.replace(operator(options).ok_or_else(bad)?).is_none(),
                _ => return Err(bad()),
            };
            if !is_new {
                return Err(Error::bad_value("span", &shown, format!("{name} only once")));
            }
        }
        spec.bands.iter().try_for_each(|edges| check_edges(edges))?;
        Ok(spec)
    }
}

fn edges(options: Option<&str>) -> Option<Vec<f64>> {
    match options {
        None => Some(Bands::EDGES.to_vec()),
        Some(list) => list.split(':').map(|edge| edge.parse().ok()).collect(),
    }
}

fn operator(options: Option<&str>) -> Option<OperatorSpec> {
    let (size, mixed) = match options?.split_once(':') {
        Some((size, "mixed")) => (size, true),
        Some(_) => return None,
        None => (options?, false),
    };
    let size = size.parse().ok().filter(|size| SIZES.contains(size))?;
    Some(OperatorSpec { size, mixed })
}

impl fmt::Display for SpanSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.wide {
            return f.write_str("wide");
        }
        let parts = self.zero(&[], 1, Parts::default()).parts();
        f.write_str(&if parts.is_empty() { "none".into() } else { parts.join(",") })
    }
}

impl TryFrom<String> for SpanSpec {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<SpanSpec> for String {
    fn from(spec: SpanSpec) -> Self {
        spec.to_string()
    }
}

impl SpanSpec {
    /// The switches of a span.
    pub fn of(span: &Span) -> Self {
        Self {
            wide: false,
            state: span.state.is_some(),
            bands: span.bands.as_ref().map(|bands| bands.edges.clone()),
            operator: span.operator.as_ref().map(|o| OperatorSpec { size: o.size, mixed: o.mixed }),
            sample: span.sample.is_some(),
            embedding: span.embedding.is_some(),
        }
    }

    /// The same with what `wide` stands for on a model.
    pub fn settled(&self, on: &On) -> Self {
        if !self.wide || on.calls > WIDE_CALLS {
            return Self { wide: false, ..self.clone() };
        }
        let bands = on.shape.filter(|[_, h, w]| Bands::zero(&Bands::EDGES, &[]).within(*h, *w) > 1);
        Self {
            bands: bands.map(|_| Bands::EDGES.to_vec()),
            operator: bands.map(|_| OperatorSpec { size: 3, mixed: false }),
            embedding: on.embedding.is_some_and(|params| params * on.calls <= WIDE_SHIFTS),
            ..Self::default()
        }
    }

    /// An error where kernels would fill the memory.
    fn require_few(&self, widths: &[usize], channels: usize) -> Result<()> {
        let Some(OperatorSpec { size, mixed }) = self.operator else { return Ok(()) };
        let kernels: usize = widths.iter().map(|width| width + 1).sum();
        let taps = (size * size * channels).saturating_mul(if mixed { channels } else { 1 });
        let params = taps.saturating_mul(kernels);
        if params <= MOST_NUMBERS {
            return Ok(());
        }
        let expected =
            format!("{kernels} kernels for {channels} channels have {params} numbers, more than {MOST_NUMBERS}");
        Err(Error::bad_value("span", self, expected))
    }

    /// The span before training, for rows of these widths.
    fn zero(&self, widths: &[usize], channels: usize, of_network: Parts) -> Span {
        Span {
            state: self.state.then(|| StateWeights::zero(widths.len())),
            bands: self.bands.as_ref().map(|edges| Bands::zero(edges, widths)),
            operator: self.operator.map(|o| Operator::zero(o.size, channels, o.mixed, widths)),
            sample: self.sample.then(|| of_network.net.unwrap_or(SampleNet { layers: Vec::new() })),
            embedding: self.embedding.then(|| of_network.shift.unwrap_or(EmbeddingShift::zero(0, 0))),
        }
    }

    /// Where training starts for rows of these widths on a model: at what `given` has of the same parts, and else at 0.
    pub fn start(&self, given: &Span, widths: &[usize], on: &On) -> Result<Span> {
        let [channels, height, width] = match (self.bands.is_some() || self.operator.is_some(), on.shape) {
            (false, _) => [1, 1, 1],
            (true, Some(shape)) => shape,
            (true, None) => return Err(refused("the shape of the samples is not known".into())),
        };
        self.require_few(widths, channels)?;
        let net = if self.sample { Some(on.net(widths)?) } else { None };
        let shift = if self.embedding { Some(on.shift()?) } else { None };
        let (zero, given) = (self.zero(widths, channels, Parts { net, shift }), given.fitted(widths));
        let refused = |part: &str, why: &str| refused(format!("{part} on samples of {height} x {width} pixels: {why}"));
        if let Some(bands) = zero.bands.as_ref().filter(|bands| bands.within(height, width) < 2) {
            return Err(refused(
                &Span { bands: Some(bands.clone()), ..Span::default() }.parts().concat(),
                "all frequencies are in one band",
            ));
        }
        if let Some(operator) = zero.operator.as_ref().filter(|o| height.max(width) <= o.size / 2) {
            let name = Span { operator: Some(operator.clone()), ..Span::default() }.parts().concat();
            return Err(refused(&name, "a kernel has nothing beside its middle to read"));
        }
        Ok(Span {
            state: zero.state.map(|zero| given.state.unwrap_or(zero)),
            bands: zero.bands.map(|zero| given.bands.filter(|b| b.edges == zero.edges).unwrap_or(zero)),
            operator: zero.operator.map(|zero| {
                let alike = |o: &Operator| (o.size, o.mixed, o.channels) == (zero.size, zero.mixed, zero.channels);
                given.operator.filter(alike).unwrap_or(zero)
            }),
            sample: zero.sample.map(|zero| given.sample.filter(|s| s.features() == zero.features()).unwrap_or(zero)),
            embedding: zero.embedding.map(|zero| {
                let alike = given.embedding.filter(|e| e.params() == zero.params());
                alike.map(|e| e.fitted(on.calls)).unwrap_or(zero)
            }),
        })
    }
}

/// What a span is learned on.
pub struct On {
    /// Shape of a sample, where it is known.
    pub shape: Option<[usize; 3]>,
    /// Numbers of the model's bottleneck feature, where it has one.
    pub feature: Option<usize>,
    /// Numbers of the network's embedding of the noise level, where it can be shifted.
    pub embedding: Option<usize>,
    /// Steps that ask the network.
    pub calls: usize,
    /// Seed of layers that are drawn.
    pub seed: u64,
}

/// Parts whose size is the network's.
#[derive(Default)]
struct Parts {
    net: Option<SampleNet>,
    shift: Option<EmbeddingShift>,
}

impl On {
    fn shift(&self) -> Result<EmbeddingShift> {
        let params = self.embedding.ok_or_else(|| no_embedding(0, None))?;
        Ok(EmbeddingShift::zero(self.calls, params))
    }

    fn net(&self, widths: &[usize]) -> Result<SampleNet> {
        let features = self.feature.ok_or_else(|| no_feature(0, None))?;
        let window = widths.iter().copied().max().unwrap_or(1);
        let [mut u, mut z] = ["uniform", "normal"].map(|kind| Stream::labelled(self.seed, &format!("sample {kind}")));
        Ok(SampleNet::start(features, window, || u.uniform(), || z.normal()))
    }
}

fn refused(problem: String) -> Error {
    let hint = "leave that part of `span` out; 'state' goes with every model";
    Error::conflict(format!("`span` cannot have {problem}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_in_one_order() {
        for (text, written) in [
            ("operator:3, bands", "bands,operator:3"),
            ("operator:5:mixed,state", "state,operator:5:mixed"),
            ("bands:2:5.5", "bands:2:5.5"),
            ("bands:3:7:13", "bands"),
            ("embedding,sample,state", "state,sample,embedding"),
            ("none", "none"),
            ("wide", "wide"),
        ] {
            let spec: SpanSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), written);
            assert_eq!(written.parse::<SpanSpec>().unwrap(), spec);
        }
    }

    const ALL: &str = "state,bands:1,operator:3,sample";

    /// What is worth having, of what there is.
    #[test]
    fn wide_is_what_a_model_and_a_budget_have_use_for() {
        let wide: SpanSpec = "wide".parse().unwrap();
        let on = |shape, embedding, calls| On { shape: Some(shape), feature: None, embedding, calls, seed: 0 };
        for (on, parts) in [
            (on([1, 28, 28], Some(128), 3), "bands,operator:3,embedding"),
            (on([3, 32, 32], Some(512), 3), "bands,operator:3,embedding"),
            (on([3, 32, 32], Some(1024), 2), "bands,operator:3"),
            (on([3, 32, 32], None, 3), "bands,operator:3"),
            (on([1, 28, 28], Some(128), 4), "none"),
            (on([2, 1, 1], None, 3), "none"),
        ] {
            let settled = wide.settled(&on);
            assert_eq!(settled.to_string(), parts);
            assert!(settled.start(&Span::default(), &[1, 2, 3], &on).is_ok());
            // What was said stays.
            let said: SpanSpec = "state".parse().unwrap();
            assert_eq!(said.settled(&on), said);
        }
        assert!("wide,state".parse::<SpanSpec>().is_err());
    }

    /// A file goes on where it was, part by part.
    #[test]
    fn a_start_takes_what_it_is_given() {
        let widths = [1, 2, 3];
        let on = On { shape: Some([1, 1, 2]), feature: Some(64), embedding: Some(5), calls: 2, seed: 3 };
        let spec: SpanSpec = ALL.parse().unwrap();
        let zero = spec.start(&Span::default(), &widths, &on).unwrap();
        let params: Vec<f64> = (0..zero.params().len()).map(|i| i as f64).collect();
        let given = zero.with(&params);
        assert_eq!(spec.start(&given, &widths, &on).unwrap(), given);
        let less = "operator:3".parse::<SpanSpec>().unwrap().start(&given, &widths, &on).unwrap();
        assert_eq!((less.operator, less.state.is_some()), (given.operator.clone(), false));
        let other = "operator:3:mixed".parse::<SpanSpec>().unwrap().start(&given, &widths, &on).unwrap();
        assert!(other.params().iter().all(|v| **v == 0.0));
        // Shifts belong to the last calls, of an embedding of that size alone.
        let embedding: SpanSpec = "embedding".parse().unwrap();
        let shifts = |calls: usize, params: usize, given: &Span| {
            let on = On { calls, embedding: Some(params), ..on };
            embedding.start(given, &widths, &on).unwrap().embedding.unwrap().shifts
        };
        let given = Span { embedding: Some(EmbeddingShift { shifts: vec![vec![1.0; 5], vec![2.0; 5]] }), ..given };
        assert_eq!(shifts(2, 5, &Span::default()), vec![vec![0.0; 5]; 2]);
        assert_eq!(shifts(2, 5, &given), given.embedding.clone().unwrap().shifts);
        assert_eq!(shifts(3, 5, &given), [[0.0; 5], [1.0; 5], [2.0; 5]]);
        assert_eq!(shifts(2, 4, &given), [[0.0; 4]; 2]);
        let many = On { shape: Some([4000, 2, 2]), ..on };
        let error = "operator:5:mixed".parse::<SpanSpec>().unwrap().start(&given, &widths, &many).unwrap_err();
        assert!(error.to_string().contains("4000 channels"), "{error}");
        let blind = On { shape: None, feature: None, embedding: None, calls: 2, seed: 0 };
        assert!(
            ["bands", "sample", "embedding"].iter().all(|t| t
                .parse::<SpanSpec>()
                .unwrap()
                .start(&given, &widths, &blind)
                .is_err())
        );
    }

    #[test]
    fn what_is_no_list_is_refused_by_name() {
        for text in [
            "",
            "bands,",
            "band",
            "operator",
            "operator:4",
            "operator:3:mix",
            "bands:x",
            "bands:7:3",
            "bands:0",
            "bands:nan",
            "state:1",
            "embedding:2",
            "embedding,embedding",
            "state,state",
            "bands,bands:3",
            "none,bands",
        ] {
            let error = text.parse::<SpanSpec>().unwrap_err().to_string();
            assert!(error.contains("span"), "{text}: {error}");
        }
    }
}
