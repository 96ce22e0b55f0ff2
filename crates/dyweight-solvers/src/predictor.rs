//! AMED's small predictor, about nine thousand parameters: where inside a step to evaluate, and how to scale what is
//! found.
//!
//! ```text
//! z   = small_net(feature, a, b)
//! r   = sigmoid(w_r·z + b_r);   c = 1 − δ_d + 2δ_d·sigmoid(w_c·z + b_c);   s likewise with δ_t
//! ```
//!
//! The network is `small_net.rs`. A scale whose range δ is 0 has no head and is 1.

use crate::learned::Block;
use crate::small_net::{self, HEAD, Layer, Layers, drawn};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The predictor's parameters, under the names of the released code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    /// δ_d.
    pub direction_range: f64,
    /// δ_t.
    pub time_range: f64,
    /// The layers before the heads.
    #[serde(flatten)]
    pub layers: Layers,
    /// The head of r.
    #[serde(rename = "fc_r.weight")]
    pub r_weight: Vec<Vec<f64>>,
    /// Its bias.
    #[serde(rename = "fc_r.bias")]
    pub r_bias: Vec<f64>,
    /// The head of c.
    #[serde(rename = "fc_scale_dir.weight", default, skip_serializing_if = "Vec::is_empty")]
    pub direction_weight: Vec<Vec<f64>>,
    /// Its bias.
    #[serde(rename = "fc_scale_dir.bias", default, skip_serializing_if = "Vec::is_empty")]
    pub direction_bias: Vec<f64>,
    /// The head of s.
    #[serde(rename = "fc_scale_time.weight", default, skip_serializing_if = "Vec::is_empty")]
    pub scale_weight: Vec<Vec<f64>>,
    /// Its bias.
    #[serde(rename = "fc_scale_time.bias", default, skip_serializing_if = "Vec::is_empty")]
    pub scale_bias: Vec<f64>,
}

impl Predictor {
    /// A predictor for features of a length, its parameters drawn as the authors do (`Layers::start`).
    pub fn start(
        features: usize,
        (direction_range, time_range): (f64, f64),
        uniform: impl FnMut() -> f64,
        mut normal: impl FnMut() -> f64,
    ) -> Self {
        let layers = Layers::start(features, uniform, &mut normal);
        let mut head = |there: bool| if there { (drawn(1, HEAD, &mut normal), vec![0.0]) } else { Default::default() };
        let (r_weight, r_bias) = head(true);
        let (direction_weight, direction_bias) = head(direction_range > 0.0);
        let (scale_weight, scale_bias) = head(time_range > 0.0);
        Self {
            direction_range,
            time_range,
            layers,
            r_weight,
            r_bias,
            direction_weight,
            direction_bias,
            scale_weight,
            scale_bias,
        }
    }

    /// Numbers of a sample's feature.
    pub fn features(&self) -> usize {
        self.layers.features()
    }

    /// The layers there are, in the order of the parameters; heads whose range is 0 are left out.
    fn layers(&self) -> Vec<Layer<'_>> {
        let size = (1, HEAD);
        let r = Layer::new(["fc_r.weight", "fc_r.bias"], &self.r_weight, &self.r_bias, size);
        let mut layers: Vec<Layer<'_>> = self.layers.list().into_iter().chain([r]).collect();
        if self.direction_range > 0.0 {
            let names = ["fc_scale_dir.weight", "fc_scale_dir.bias"];
            layers.push(Layer::new(names, &self.direction_weight, &self.direction_bias, size));
        }
        if self.time_range > 0.0 {
            let names = ["fc_scale_time.weight", "fc_scale_time.bias"];
            layers.push(Layer::new(names, &self.scale_weight, &self.scale_bias, size));
        }
        layers
    }

    /// The blocks of its parameters.
    pub(super) fn blocks(&self) -> Vec<Block> {
        small_net::blocks(&self.layers())
    }

    /// Its parameters.
    pub(super) fn params(&self) -> Vec<f64> {
        small_net::params(&self.layers())
    }

    /// Puts other parameters in their place.
    pub(super) fn replace(&mut self, params: &[f64]) {
        let r = (&mut self.r_weight, &mut self.r_bias);
        let direction = (self.direction_range > 0.0).then_some((&mut self.direction_weight, &mut self.direction_bias));
        let scale = (self.time_range > 0.0).then_some((&mut self.scale_weight, &mut self.scale_bias));
        small_net::replace(self.layers.list_mut().into_iter().chain([r]).chain(direction).chain(scale), params);
    }

    /// An error unless the shapes are those of a predictor.
    pub(super) fn check(&self) -> Result<()> {
        small_net::check(&self.layers())?;
        for (name, range) in [("direction-range", self.direction_range), ("time-range", self.time_range)] {
            if !(0.0..1.0).contains(&range) {
                return Err(Error::bad_value(name, range, "must lie between 0 and 1, without 1"));
            }
        }
        Ok(())
    }

    /// What there is to say of it.
    pub(super) fn summary(&self) -> String {
        format!("a predictor of {} numbers on features of {}", self.params().len(), self.features())
    }

    /// r, c and s of each sample, differentiable in the parameters.
    pub(super) fn predict(&self, params: &[Coeff], features: &[Vec<f64>], times: (f64, f64)) -> Result<[Coeff; 3]> {
        let sizes: Vec<(usize, usize)> = self.layers().iter().map(|layer| layer.size).collect();
        let mut outputs = small_net::ask(params, &sizes, features, times).into_iter();
        let r =
            outputs.next().ok_or_else(|| Error::Shape { what: "heads".into(), expected: vec![1], found: vec![0] })?;
        let mut scale = |range: f64| match range > 0.0 {
            true => outputs.next().map_or(Coeff::from(1.0), |raw| (1.0 - range) + raw.sigmoid() * (2.0 * range)),
            false => Coeff::from(1.0),
        };
        let (direction, time) = (scale(self.direction_range), scale(self.time_range));
        Ok([r.sigmoid(), direction, time])
    }
}
