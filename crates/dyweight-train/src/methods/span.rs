//! The option `--span`: which parts of a wider span are learned beside DyWeight's weights.
//!
//! ```text
//! LIST = none | PART,PART,…      PART = state | bands[:EDGE:EDGE…] | operator:3|5[:mixed]
//! ```

use dyweight_core::error::{Error, Result};
use dyweight_core::solver::span::{Bands, Operator, SIZES, Span, StateWeights, check_edges};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The parts that are switched on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpanSpec {
    /// Weights on state and noise.
    pub state: bool,
    /// Weights per band, with the edges of the bands.
    pub bands: Option<Vec<f64>>,
    /// Convolutions.
    pub operator: Option<OperatorSpec>,
}

/// The convolutions of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorSpec {
    /// Entries of a kernel's side.
    pub size: usize,
    /// Whether channels are mixed.
    pub mixed: bool,
}

const EXPECTED: &str =
    "a list of state, bands (or bands:3:7:13), operator:3, operator:5, operator:3:mixed, operator:5:mixed; or none";

impl FromStr for SpanSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let shown: String = text.chars().take(80).collect();
        let bad = || Error::BadValue { name: "span", value: shown.clone(), expected: EXPECTED.into() };
        let mut spec = Self::default();
        if text.trim() == "none" {
            return Ok(spec);
        }
        for part in text.split(',') {
            let (name, options) = part.trim().split_once(':').map_or((part.trim(), None), |(n, o)| (n, Some(o)));
            let is_new = match name {
                "state" if options.is_none() => !std::mem::replace(&mut spec.state, true),
                "bands" => spec.bands.replace(edges(options).ok_or_else(bad)?).is_none(),
                "operator" => spec.operator.replace(operator(options).ok_or_else(bad)?).is_none(),
                _ => return Err(bad()),
            };
            if !is_new {
                return Err(Error::BadValue { name: "span", value: shown, expected: format!("{name} only once") });
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
        let parts = self.zero(&[], 1).parts();
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
            state: span.state.is_some(),
            bands: span.bands.as_ref().map(|bands| bands.edges.clone()),
            operator: span.operator.as_ref().map(|o| OperatorSpec { size: o.size, mixed: o.mixed }),
        }
    }

    /// The span before training, for rows of these widths.
    fn zero(&self, widths: &[usize], channels: usize) -> Span {
        Span {
            state: self.state.then(|| StateWeights::zero(widths.len())),
            bands: self.bands.as_ref().map(|edges| Bands::zero(edges, widths)),
            operator: self.operator.map(|o| Operator::zero(o.size, channels, o.mixed, widths)),
        }
    }

    /// Where training starts for rows of these widths on samples of a shape: at what `given` has of the same parts, and else at 0.
    pub fn start(&self, given: &Span, widths: &[usize], shape: Option<[usize; 3]>) -> Result<Span> {
        let [channels, height, width] = match (self.bands.is_some() || self.operator.is_some(), shape) {
            (false, _) => [1, 1, 1],
            (true, Some(shape)) => shape,
            (true, None) => return Err(refused("the shape of the samples is not known".into())),
        };
        let (zero, given) = (self.zero(widths, channels), given.fitted(widths));
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
        })
    }
}

fn refused(problem: String) -> Error {
    let hint = "leave that part of --span out; 'state' goes with every model".into();
    Error::Conflict { problem: format!("--span cannot have {problem}"), hint }
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
            ("none", "none"),
        ] {
            let spec: SpanSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), written);
            assert_eq!(written.parse::<SpanSpec>().unwrap(), spec);
        }
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
            "state,state",
            "bands,bands:3",
            "none,bands",
        ] {
            let error = text.parse::<SpanSpec>().unwrap_err().to_string();
            assert!(error.contains("span"), "{text}: {error}");
        }
    }
}
