//! AMED's small predictor, about nine thousand numbers: where inside a step to evaluate, and how to scale what is found.
//!
//! ```text
//! z   = small_net(feature, a, b)
//! r   = sigmoid(w_r·z + b_r);   c = 1 − δ_d + 2δ_d·sigmoid(w_c·z + b_c);   s likewise with δ_t
//! ```
//!
//! The network is `small_net.rs`. A scale whose range δ is 0 has no head and is 1.

use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::learned::{Block, require_finite, require_len};
use dyweight_core::small_net::{CODE, EMBEDDED, HEAD, Made, Net, WIDTH};
use serde::{Deserialize, Serialize};

/// The predictor's numbers, under the names of the released code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    /// δ_d.
    pub direction_range: f64,
    /// δ_t.
    pub time_range: f64,
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

/// A layer's weights and biases, its name and sizes.
struct Layer<'p> {
    names: (&'static str, &'static str),
    weight: &'p Vec<Vec<f64>>,
    bias: &'p Vec<f64>,
    inputs: usize,
    outputs: usize,
}

impl Predictor {
    /// A predictor for features of a length, its numbers drawn as the authors do: the embedding's from U(±√(6/16)), the others' from N(0, 1/inputs), biases 0.
    pub fn start(
        features: usize,
        (direction_range, time_range): (f64, f64),
        mut uniform: impl FnMut() -> f64,
        mut normal: impl FnMut() -> f64,
    ) -> Self {
        let bound = (6.0 / (2 * EMBEDDED) as f64).sqrt();
        let time_weight =
            (0..EMBEDDED).map(|_| (0..EMBEDDED).map(|_| bound * (2.0 * uniform() - 1.0)).collect()).collect();
        let mut layer = |outputs: usize, inputs: usize| -> Vec<Vec<f64>> {
            let scale = (1.0 / inputs as f64).sqrt();
            (0..outputs).map(|_| (0..inputs).map(|_| scale * normal()).collect()).collect()
        };
        let (first_weight, second_weight, r_weight) = (layer(WIDTH, features), layer(CODE, WIDTH), layer(1, HEAD));
        let mut head = |range: f64| if range > 0.0 { (layer(1, HEAD), vec![0.0]) } else { (Vec::new(), Vec::new()) };
        let ((direction_weight, direction_bias), (scale_weight, scale_bias)) =
            (head(direction_range), head(time_range));
        Self {
            direction_range,
            time_range,
            time_weight,
            time_bias: vec![0.0; EMBEDDED],
            first_weight,
            first_bias: vec![0.0; WIDTH],
            second_weight,
            second_bias: vec![0.0; CODE],
            r_weight,
            r_bias: vec![0.0],
            direction_weight,
            direction_bias,
            scale_weight,
            scale_bias,
        }
    }

    /// Numbers of a sample's feature.
    pub fn features(&self) -> usize {
        self.first_weight.first().map_or(0, Vec::len)
    }

    /// The layers there are, in the order of the numbers; heads whose range is 0 are left out.
    fn layers(&self) -> Vec<Layer<'_>> {
        let width = self.first_weight.len();
        let layer = |names, weight, bias, inputs, outputs| Layer { names, weight, bias, inputs, outputs };
        let mut layers = vec![
            layer(("map_layer0.weight", "map_layer0.bias"), &self.time_weight, &self.time_bias, EMBEDDED, EMBEDDED),
            layer(
                ("enc_layer0.weight", "enc_layer0.bias"),
                &self.first_weight,
                &self.first_bias,
                self.features(),
                width,
            ),
            layer(("enc_layer1.weight", "enc_layer1.bias"), &self.second_weight, &self.second_bias, width, CODE),
            layer(("fc_r.weight", "fc_r.bias"), &self.r_weight, &self.r_bias, HEAD, 1),
        ];
        if self.direction_range > 0.0 {
            let names = ("fc_scale_dir.weight", "fc_scale_dir.bias");
            layers.push(layer(names, &self.direction_weight, &self.direction_bias, HEAD, 1));
        }
        if self.time_range > 0.0 {
            let names = ("fc_scale_time.weight", "fc_scale_time.bias");
            layers.push(layer(names, &self.scale_weight, &self.scale_bias, HEAD, 1));
        }
        layers
    }

    /// The blocks of its numbers.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let both = |l: &Layer<'_>| [Block::new(l.names.0, &[l.outputs, l.inputs]), Block::new(l.names.1, &[l.outputs])];
        self.layers().iter().flat_map(both).collect()
    }

    /// Its numbers.
    pub(super) fn numbers(&self) -> Vec<f64> {
        self.layers().iter().flat_map(|l| [l.weight.concat(), l.bias.clone()].concat()).collect()
    }

    /// Puts other numbers in their place.
    pub(super) fn replace(&mut self, numbers: &[f64]) {
        let (direction, time) = (self.direction_range > 0.0, self.time_range > 0.0);
        let mut rest = numbers;
        let all = [
            (&mut self.time_weight, &mut self.time_bias, true),
            (&mut self.first_weight, &mut self.first_bias, true),
            (&mut self.second_weight, &mut self.second_bias, true),
            (&mut self.r_weight, &mut self.r_bias, true),
            (&mut self.direction_weight, &mut self.direction_bias, direction),
            (&mut self.scale_weight, &mut self.scale_bias, time),
        ];
        for (weight, bias, _) in all.into_iter().filter(|(.., there)| *there) {
            for row in weight.iter_mut().chain([bias]) {
                let (own, others) = rest.split_at(row.len());
                row.copy_from_slice(own);
                rest = others;
            }
        }
    }

    /// An error unless the shapes are those of a predictor.
    pub(super) fn check(&self) -> Result<()> {
        if self.features() == 0 {
            let what = "enc_layer0.weight".into();
            return Err(Error::Shape { what, expected: vec![WIDTH, 64], found: vec![self.first_weight.len(), 0] });
        }
        for l in self.layers() {
            require_len(&format!("rows of {}", l.names.0), l.outputs, l.weight.len())?;
            require_len(l.names.1, l.outputs, l.bias.len())?;
            require_finite(l.names.1, l.bias)?;
            for row in l.weight {
                require_len(&format!("a row of {}", l.names.0), l.inputs, row.len())?;
                require_finite(l.names.0, row)?;
            }
        }
        for (name, range) in [("direction-range", self.direction_range), ("time-range", self.time_range)] {
            if !(0.0..1.0).contains(&range) {
                let expected = "must lie between 0 and 1, without 1".into();
                return Err(Error::BadValue { name, value: range.to_string(), expected });
            }
        }
        Ok(())
    }

    /// What there is to say of it.
    pub(super) fn summary(&self) -> String {
        format!("a predictor of {} numbers on features of {}", self.numbers().len(), self.features())
    }

    /// r, c and s of each sample, differentiable in the numbers.
    pub(super) fn predict(&self, numbers: &[Coeff], features: &[Vec<f64>], (a, b): (f64, f64)) -> Result<[Coeff; 3]> {
        let sizes: Vec<(usize, usize)> = self.layers().iter().map(|l| (l.outputs, l.inputs)).collect();
        let net = Net::new(numbers.iter().map(Coeff::value).collect(), &sizes, (a, b));
        let made: Vec<Made> = features.iter().map(|feature| net.forward(feature)).collect();
        let heads = sizes.len() - 3;
        let results = (0..heads).map(|k| made.iter().map(|m| m.outputs[k]).collect()).collect();
        let back = move |adjoints: &[Vec<f64>]| net.backward(&made, adjoints);
        let mut outputs = Coeff::function(numbers, results, Box::new(back)).into_iter();
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
