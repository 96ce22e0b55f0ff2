//! The small network that AMED, DLMS and DyWeight's wider span have in common: from a sample's bottleneck feature and the two times of a step to a few numbers.
//!
//! ```text
//! f_k = 10000^{−k/3}, k = 0 … 3;   e(u) = silu(W_t·[sin(u·f), cos(u·f)] + b_t)            8 numbers
//! z   = [W₁·silu(W₀·feature + b₀) + b₁, e(a), e(b)]                                       4 + 8 + 8
//! out = W_h·z + b_h for every head h
//! ```
//!
//! The feature and the times are not differentiated: the gradient ends at the network's own numbers.

/// Frequencies of a time's embedding.
const FREQUENCIES: usize = 4;
/// Numbers of a time's embedding.
pub const EMBEDDED: usize = 2 * FREQUENCIES;
/// Numbers the bottleneck is reduced to.
pub const CODE: usize = 4;
/// Inputs of the heads.
pub const HEAD: usize = CODE + 2 * EMBEDDED;

/// Outputs of the first layer.
pub const WIDTH: usize = 128;

/// The numbers laid out for use, at the two times of a step.
pub struct Net {
    numbers: Vec<f64>,
    /// Of each layer: where its weights begin, outputs, inputs. The biases follow the weights.
    layers: Vec<(usize, usize, usize)>,
    /// Sines and cosines of both times, and their embeddings before and after the activation.
    times: [(Vec<f64>, Vec<f64>); 2],
    embedded: Vec<f64>,
}

/// What the way back needs of a sample.
pub struct Made {
    feature: Vec<f64>,
    /// Of the first layer, before the activation.
    hidden: Vec<f64>,
    /// Inputs of the heads.
    head: Vec<f64>,
    /// Of all heads, one behind the other.
    pub outputs: Vec<f64>,
}

impl Net {
    /// From the numbers of all layers, each weights before biases, of these (outputs, inputs).
    pub fn new(numbers: Vec<f64>, sizes: &[(usize, usize)], (a, b): (f64, f64)) -> Self {
        let mut at = 0;
        let mut layers = Vec::new();
        for (outputs, inputs) in sizes {
            layers.push((at, *outputs, *inputs));
            at += outputs * (inputs + 1);
        }
        let mut net = Self { numbers, layers, times: Default::default(), embedded: Vec::new() };
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
        let weights = &self.numbers[at..at + outputs * inputs];
        let biases = &self.numbers[at + outputs * inputs..];
        let row =
            |k: usize| biases[k] + weights[k * inputs..(k + 1) * inputs].iter().zip(x).map(|(w, v)| w * v).sum::<f64>();
        (0..outputs).map(row).collect()
    }

    /// The outputs for a feature.
    pub fn forward(&self, feature: &[f64]) -> Made {
        let hidden = self.layer(1, feature);
        let active: Vec<f64> = hidden.iter().map(|v| silu(*v).0).collect();
        let head = [self.layer(2, &active), self.embedded.clone()].concat();
        let outputs = (3..self.layers.len()).flat_map(|which| self.layer(which, &head)).collect();
        Made { feature: feature.to_vec(), hidden, head, outputs }
    }

    /// Adds the derivatives of a layer's numbers to `into`, and returns that of its inputs.
    fn pull(&self, which: usize, x: &[f64], adjoint: &[f64], into: &mut [f64]) -> Vec<f64> {
        let (at, outputs, inputs) = self.layers[which];
        let mut to_x = vec![0.0; inputs];
        for (k, g) in adjoint.iter().enumerate() {
            let row = at + k * inputs;
            for j in 0..inputs {
                into[row + j] += g * x[j];
                to_x[j] += g * self.numbers[row + j];
            }
            into[at + outputs * inputs + k] += g;
        }
        to_x
    }

    /// `[number][sample]` from `[output][sample]`.
    pub fn backward(&self, made: &[Made], adjoints: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut all = vec![vec![0.0; made.len()]; self.numbers.len()];
        for (sample, Made { feature, hidden, head, .. }) in made.iter().enumerate() {
            let mut own = vec![0.0; self.numbers.len()];
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
