//! The small network that AMED, DLMS and DyWeight's wider span have in common: from a sample's bottleneck feature and
//! the two times of a step to a few parameters.
//!
//! ```text
//! f_k = 10000^{−k/3}, k = 0 … 3;   e(u) = silu(W_t·[sin(u·f), cos(u·f)] + b_t)            8 parameters
//! z   = [W₁·silu(W₀·feature + b₀) + b₁, e(a), e(b)]                                       4 + 8 + 8
//! out = W_h·z + b_h for every head h
//! ```
//!
//! The feature and the times are not differentiated: the gradient ends at the network's own parameters.

use crate::learned::{Block, require_finite, require_len};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Frequencies of a time's embedding.
const FREQUENCIES: usize = 4;
/// Numbers of a time's embedding.
pub(crate) const EMBEDDED: usize = 2 * FREQUENCIES;
/// Numbers the bottleneck is reduced to.
pub(crate) const CODE: usize = 4;
/// Inputs of the heads.
pub(crate) const HEAD: usize = CODE + 2 * EMBEDDED;
/// Outputs of the first layer.
pub(crate) const WIDTH: usize = 128;

/// The layers before the heads, under the names of AMED's released code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layers {
    /// W_t.
    #[serde(rename = "map_layer0.weight")]
    pub time_weight: Vec<Vec<f64>>,
    /// b_t.
    #[serde(rename = "map_layer0.bias")]
    pub time_bias: Vec<f64>,
    /// W₀.
    #[serde(rename = "enc_layer0.weight")]
    pub first_weight: Vec<Vec<f64>>,
    /// b₀.
    #[serde(rename = "enc_layer0.bias")]
    pub first_bias: Vec<f64>,
    /// W₁.
    #[serde(rename = "enc_layer1.weight")]
    pub second_weight: Vec<Vec<f64>>,
    /// b₁.
    #[serde(rename = "enc_layer1.bias")]
    pub second_bias: Vec<f64>,
}

impl Layers {
    /// Layers for features of a length, drawn as AMED's authors do: the embedding's parameters from U(±√(6/16)), the
    /// others' from N(0, 1/inputs), biases 0.
    pub(crate) fn start(features: usize, mut uniform: impl FnMut() -> f64, normal: &mut impl FnMut() -> f64) -> Self {
        let bound = (6.0 / (2 * EMBEDDED) as f64).sqrt();
        let row = |_| (0..EMBEDDED).map(|_| bound * (2.0 * uniform() - 1.0)).collect();
        Self {
            time_weight: (0..EMBEDDED).map(row).collect(),
            time_bias: vec![0.0; EMBEDDED],
            first_weight: drawn(WIDTH, features, normal),
            first_bias: vec![0.0; WIDTH],
            second_weight: drawn(CODE, WIDTH, normal),
            second_bias: vec![0.0; CODE],
        }
    }

    /// Numbers of a sample's feature.
    pub(crate) fn features(&self) -> usize {
        self.first_weight.first().map_or(0, Vec::len)
    }

    pub(crate) fn list(&self) -> [Layer<'_>; 3] {
        let (features, width) = (self.features(), self.first_weight.len());
        [
            Layer::new(
                ["map_layer0.weight", "map_layer0.bias"],
                &self.time_weight,
                &self.time_bias,
                (EMBEDDED, EMBEDDED),
            ),
            Layer::new(
                ["enc_layer0.weight", "enc_layer0.bias"],
                &self.first_weight,
                &self.first_bias,
                (width, features),
            ),
            Layer::new(["enc_layer1.weight", "enc_layer1.bias"], &self.second_weight, &self.second_bias, (CODE, width)),
        ]
    }

    pub(crate) fn list_mut(&mut self) -> [LayerMut<'_>; 3] {
        [
            (&mut self.time_weight, &mut self.time_bias),
            (&mut self.first_weight, &mut self.first_bias),
            (&mut self.second_weight, &mut self.second_bias),
        ]
    }
}

/// Weights from N(0, 1/inputs).
pub(crate) fn drawn(outputs: usize, inputs: usize, normal: &mut impl FnMut() -> f64) -> Vec<Vec<f64>> {
    let scale = (1.0 / inputs as f64).sqrt();
    (0..outputs).map(|_| (0..inputs).map(|_| scale * normal()).collect()).collect()
}

/// A layer's weights and biases, their names, and the (outputs, inputs) they should have.
pub(crate) struct Layer<'p> {
    names: [&'static str; 2],
    pub weight: &'p [Vec<f64>],
    pub bias: &'p [f64],
    pub size: (usize, usize),
}

/// The same, to be changed.
pub(crate) type LayerMut<'p> = (&'p mut Vec<Vec<f64>>, &'p mut Vec<f64>);

impl<'p> Layer<'p> {
    pub fn new(names: [&'static str; 2], weight: &'p [Vec<f64>], bias: &'p [f64], size: (usize, usize)) -> Self {
        Self { names, weight, bias, size }
    }

    fn check(&self) -> Result<()> {
        let ([weight, bias], (outputs, inputs)) = (self.names, self.size);
        require_len(&format!("rows of {weight}"), outputs, self.weight.len())?;
        require_len(bias, outputs, self.bias.len())?;
        require_finite(bias, self.bias)?;
        for row in self.weight {
            require_len(&format!("a row of {weight}"), inputs, row.len())?;
            require_finite(weight, row)?;
        }
        Ok(())
    }
}

/// The blocks of all layers.
pub(crate) fn blocks(layers: &[Layer<'_>]) -> Vec<Block> {
    let both = |Layer { names: [weight, bias], size: (outputs, inputs), .. }: &Layer<'_>| {
        [Block::new(weight, &[*outputs, *inputs]), Block::new(bias, &[*outputs])]
    };
    layers.iter().flat_map(both).collect()
}

/// The numbers of all layers, each weights before biases.
pub(crate) fn params(layers: &[Layer<'_>]) -> Vec<f64> {
    layers.iter().flat_map(|layer| [&layer.weight.concat(), layer.bias].concat()).collect()
}

/// Puts other parameters in their place.
pub(crate) fn replace<'p>(layers: impl IntoIterator<Item = LayerMut<'p>>, mut params: &[f64]) {
    for row in layers.into_iter().flat_map(|(weight, bias)| weight.iter_mut().chain([bias])) {
        let (own, others) = params.split_at(row.len());
        row.copy_from_slice(own);
        params = others;
    }
}

/// An error unless the shapes are those of a network.
pub(crate) fn check(layers: &[Layer<'_>]) -> Result<()> {
    let first = &layers[1];
    if first.size.1 == 0 {
        let what = "enc_layer0.weight".into();
        return Err(Error::Shape { what, expected: vec![WIDTH, 64], found: vec![first.weight.len(), 0] });
    }
    layers.iter().try_for_each(Layer::check)
}

/// What the network says of each sample at the two times of a step, differentiable in its parameters: a coefficient for
/// each output of the heads.
pub(crate) fn ask(params: &[Coeff], sizes: &[(usize, usize)], features: &[Vec<f64>], times: (f64, f64)) -> Vec<Coeff> {
    let net = Net::new(params.iter().map(Coeff::value).collect(), sizes, times);
    let made: Vec<Made> = features.iter().map(|feature| net.forward(feature)).collect();
    let outputs = sizes[3..].iter().map(|(outputs, _)| outputs).sum();
    let results = (0..outputs).map(|k| made.iter().map(|m| m.outputs[k]).collect()).collect();
    Coeff::function(params, results, Box::new(move |adjoints| net.backward(&made, adjoints)))
}

/// The parameters laid out for use, at the two times of a step.
struct Net {
    params: Vec<f64>,
    /// Of each layer: where its weights begin, outputs, inputs. The biases follow the weights.
    layers: Vec<(usize, usize, usize)>,
    /// Sines and cosines of both times, and their embeddings before and after the activation.
    times: [(Vec<f64>, Vec<f64>); 2],
    embedded: Vec<f64>,
}

/// What the way back needs of a sample.
struct Made {
    feature: Vec<f64>,
    /// Of the first layer, before the activation.
    hidden: Vec<f64>,
    /// Inputs of the heads.
    head: Vec<f64>,
    /// Of all heads, one behind the other.
    outputs: Vec<f64>,
}

impl Net {
    /// From the numbers of all layers, each weights before biases, of these (outputs, inputs).
    fn new(params: Vec<f64>, sizes: &[(usize, usize)], (a, b): (f64, f64)) -> Self {
        let mut at = 0;
        let mut layers = Vec::new();
        for (outputs, inputs) in sizes {
            layers.push((at, *outputs, *inputs));
            at += outputs * (inputs + 1);
        }
        let mut net = Self { params, layers, times: Default::default(), embedded: Vec::new() };
        net.times = [a, b].map(|time| {
            let angle = |k: usize| time * 10000f64.powf(-(k as f64) / (FREQUENCIES - 1) as f64);
            let waves: Vec<f64> =
                (0..FREQUENCIES).map(|k| angle(k).sin()).chain((0..FREQUENCIES).map(|k| angle(k).cos())).collect();
            let raw = net.layer(0, &waves);
            (waves, raw)
        });
        net.embedded = net.times.iter().flat_map(|(_, raw)| raw.iter().map(|v| silu(*v).0)).collect();
        net
    }

    fn layer(&self, which: usize, x: &[f64]) -> Vec<f64> {
        let (at, outputs, inputs) = self.layers[which];
        let weights = &self.params[at..at + outputs * inputs];
        let biases = &self.params[at + outputs * inputs..];
        let row =
            |k: usize| biases[k] + weights[k * inputs..(k + 1) * inputs].iter().zip(x).map(|(w, v)| w * v).sum::<f64>();
        (0..outputs).map(row).collect()
    }

    /// The outputs for a feature.
    fn forward(&self, feature: &[f64]) -> Made {
        let hidden = self.layer(1, feature);
        let active: Vec<f64> = hidden.iter().map(|v| silu(*v).0).collect();
        let head = [self.layer(2, &active), self.embedded.clone()].concat();
        let outputs = (3..self.layers.len()).flat_map(|which| self.layer(which, &head)).collect();
        Made { feature: feature.to_vec(), hidden, head, outputs }
    }

    /// Adds the derivatives of a layer's parameters to `into`, and returns that of its inputs.
    fn pull(&self, which: usize, x: &[f64], adjoint: &[f64], into: &mut [f64]) -> Vec<f64> {
        let (at, outputs, inputs) = self.layers[which];
        let mut to_x = vec![0.0; inputs];
        for (k, g) in adjoint.iter().enumerate() {
            let row = at + k * inputs;
            for j in 0..inputs {
                into[row + j] += g * x[j];
                to_x[j] += g * self.params[row + j];
            }
            into[at + outputs * inputs + k] += g;
        }
        to_x
    }

    /// `[number][sample]` from `[output][sample]`.
    fn backward(&self, made: &[Made], adjoints: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut all = vec![vec![0.0; made.len()]; self.params.len()];
        for (sample, Made { feature, hidden, head, .. }) in made.iter().enumerate() {
            let mut own = vec![0.0; self.params.len()];
            let mut to_head = [0.0; HEAD];
            let mut rest: &[Vec<f64>] = adjoints;
            for which in 3..self.layers.len() {
                let (mine, others) = rest.split_at(self.layers[which].1);
                let adjoint: Vec<f64> = mine.iter().map(|a| a[sample]).collect();
                let to = self.pull(which, head, &adjoint, &mut own);
                to_head.iter_mut().zip(to).for_each(|(s, v)| *s += v);
                rest = others;
            }
            let (code, times) = to_head.split_at(CODE);
            let active: Vec<f64> = hidden.iter().map(|v| silu(*v).0).collect();
            let to_hidden = self.pull(2, &active, code, &mut own);
            let before: Vec<f64> = to_hidden.iter().zip(hidden).map(|(g, v)| g * silu(*v).1).collect();
            self.pull(1, feature, &before, &mut own);
            for ((waves, raw), to_time) in self.times.iter().zip(times.chunks(EMBEDDED)) {
                let before: Vec<f64> = to_time.iter().zip(raw).map(|(g, v)| g * silu(*v).1).collect();
                self.pull(0, waves, &before, &mut own);
            }
            all.iter_mut().zip(own).for_each(|(row, v)| row[sample] = v);
        }
        all
    }
}

/// v·sigmoid(v) and its derivative.
fn silu(v: f64) -> (f64, f64) {
    let s = 1.0 / (1.0 + (-v).exp());
    (v * s, s * (1.0 + v * (1.0 - s)))
}
