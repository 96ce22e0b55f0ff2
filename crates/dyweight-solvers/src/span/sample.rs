//! Weights of each sample's own, from the network's bottleneck: AMED's idea (Zhou et al. 2024) on DyWeight's weights.
//!
//! ```text
//! w_ij(sample) = w_ij + out_k(feature of call i, tᵢ, t_{i+1}),   k = 0 for the newest slope, 1 for the one before, …
//! ```
//!
//! The network is the small one that AMED has, the same for all steps; its last layer is 0 before training. T moves by
//! the sample's own weights. An analytical first step has a feature of zeros.

use crate::learned::{Block, require_len};
use crate::small_net::{self, CODE, EMBEDDED, HEAD, Layer, Layers, WIDTH};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The layers of the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleNet<T = f64> {
    /// `[layer][output]`: weights of the inputs, and last the bias. Layers: times, feature, code, weights (newest slope
    /// first).
    pub layers: Vec<Vec<Vec<T>>>,
}

impl SampleNet {
    /// A network for features of a length and rows of at most `window`: layers drawn as AMED's, the last one 0.
    pub fn start(
        features: usize,
        window: usize,
        uniform: impl FnMut() -> f64,
        mut normal: impl FnMut() -> f64,
    ) -> Self {
        let drawn = Layers::start(features, uniform, &mut normal);
        let with_bias = |(row, bias): (&Vec<f64>, &f64)| [row.as_slice(), &[*bias]].concat();
        let layer = |layer: Layer<'_>| layer.weight.iter().zip(layer.bias).map(with_bias).collect();
        let head = vec![vec![0.0; HEAD + 1]; window];
        Self { layers: drawn.list().into_iter().map(layer).chain([head]).collect() }
    }

    /// The same for rows of another window.
    pub(super) fn fitted(&self, window: usize) -> Self {
        let mut fitted = self.clone();
        fitted.layers.iter_mut().skip(3).for_each(|head| head.resize(window, vec![0.0; HEAD + 1]));
        fitted
    }
}

/// Outputs and inputs of every layer.
fn sizes(features: usize, window: usize) -> [(usize, usize); 4] {
    [(EMBEDDED, EMBEDDED), (WIDTH, features), (CODE, WIDTH), (window, HEAD)]
}

impl<T> SampleNet<T> {
    /// Numbers of a feature.
    pub fn features(&self) -> usize {
        self.layers.get(1).and_then(|layer| layer.first()).map_or(0, |row| row.len().saturating_sub(1))
    }

    fn window(&self) -> usize {
        self.layers.get(3).map_or(0, Vec::len)
    }

    pub(super) fn block(&self) -> Block {
        Block::new("sample", &[self.layers.iter().flatten().map(Vec::len).sum()])
    }

    /// An error unless the layers go together, and with rows of these widths.
    pub fn check(&self, widths: &[usize]) -> Result<()> {
        require_len("span: layers of sample", 4, self.layers.len())?;
        if self.features() == 0 {
            let what = "span: the second layer of sample".into();
            return Err(Error::Shape { what, expected: vec![WIDTH, 64], found: vec![self.layers[1].len(), 0] });
        }
        let window = widths.iter().copied().max().unwrap_or(0);
        for (k, (layer, (outputs, inputs))) in self.layers.iter().zip(sizes(self.features(), window)).enumerate() {
            require_len(&format!("span: rows of layer {k} of sample"), outputs, layer.len())?;
            for row in layer {
                require_len(&format!("span: a row of layer {k} of sample"), inputs + 1, row.len())?;
            }
        }
        Ok(())
    }
}

impl SampleNet<Coeff> {
    /// The row of a step with each sample's own weights, from the feature that was asked for.
    pub(super) fn row(&self, feature: &[Vec<f64>], row: &[Coeff], between: (f64, f64)) -> Vec<Coeff> {
        let params = self.in_order();
        let sizes = sizes(self.features(), self.window());
        let said = small_net::ask(&params, &sizes, feature, between);
        row.iter().zip(said[..row.len()].iter().rev()).map(|(w, own)| w + own).collect()
    }

    /// Weights of a layer, then its biases, as the network takes them.
    fn in_order(&self) -> Vec<Coeff> {
        let layer = |layer: &Vec<Vec<Coeff>>| {
            let weights = layer.iter().flat_map(|row| row[..row.len() - 1].to_vec());
            weights.chain(layer.iter().map(|row| row[row.len() - 1].clone())).collect::<Vec<_>>()
        };
        self.layers.iter().flat_map(layer).collect()
    }
}
