//! The exact denoiser of an isotropic Gaussian mixture, the model with a closed form.
//!
//! Data x₀ ~ Σ wₖ N(μₖ, sₖ²I), state x = αx₀ + σn (α = 1 denoised, 1−σ flow):
//!
//! ```text
//! Vₖ = α²sₖ² + σ²,   rₖ = softmax(ln wₖ − (d/2)ln Vₖ − |x − αμₖ|²/(2Vₖ))
//! E[x₀|x] = Σ rₖ(μₖ + cₖ(x − αμₖ)), cₖ = αsₖ²/Vₖ     E[n|x] = Σ rₖ eₖ(x − αμₖ), eₖ = σ/Vₖ
//! ```
//!
//! Both predictions have the form y = Σ rₖ(aₖμₖ + bₖx), which is what the pullback differentiates.
//!
//! ```
//! use dyweight_core::Tensor;
//! use dyweight_core::denoiser::{Denoiser, Levels};
//! use dyweight_core::mixture::Mixture;
//! let two = Mixture::new(vec![(vec![-1.0], 0.1, 1.0), (vec![1.0], 0.1, 1.0)])?;
//! let x = Tensor::new([2, 1, 1, 1], vec![0.9, 0.0])?;
//! let denoised = two.predict(&x, &Levels::One(0.3))?;
//! assert!(denoised.data()[0] > 0.9 && denoised.data()[1].abs() < 1e-12);
//! # Ok::<(), dyweight_core::Error>(())
//! ```

use crate::denoiser::{Condition, Denoiser, Density, Differentiable, Info, Levels, Model, Prediction, Pullback};
use crate::error::{Error, Result};
use crate::tensor::{Tensor, dot, squared_distance};

/// An isotropic Gaussian mixture in d dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    means: Vec<Vec<f64>>,
    stds: Vec<f64>,
    weights: Vec<f64>,
    prediction: Prediction,
    shape: [usize; 3],
}

impl Mixture {
    /// Components as (mean, standard deviation, weight); weights need not sum to one.
    pub fn new(components: Vec<(Vec<f64>, f64, f64)>) -> Result<Self> {
        let bad = |value: String, expected: &str| Error::bad_value("mixture", value, expected);
        let Some((first, ..)) = components.first() else {
            return Err(bad("no component".into(), "at least one is needed"));
        };
        let dims = first.len();
        let total: f64 = components.iter().map(|(.., w)| w).sum();
        for (k, (mean, std, weight)) in components.iter().enumerate() {
            if mean.len() != dims || dims == 0 {
                let what = format!("mean of component {k}");
                return Err(Error::Shape { what, expected: vec![dims.max(1)], found: vec![mean.len()] });
            }
            if mean.iter().chain([std, weight]).any(|v| !v.is_finite()) || *std <= 0.0 || *weight < 0.0 {
                return Err(bad(
                    format!("component {k}"),
                    "means must be finite, standard deviations above 0, weights not negative",
                ));
            }
        }
        if !(total.is_finite() && total > 0.0) {
            return Err(bad(total.to_string(), "the weights must have a finite sum above 0"));
        }
        let weights = components.iter().map(|(.., w)| w / total).collect();
        let stds = components.iter().map(|(_, s, _)| *s).collect();
        let means = components.into_iter().map(|(m, ..)| m).collect();
        Ok(Self { means, stds, weights, prediction: Prediction::Denoised, shape: [dims, 1, 1] })
    }

    /// The same data seen by a velocity model.
    pub fn as_flow(mut self) -> Self {
        self.prediction = Prediction::Velocity;
        self
    }

    /// The same data with its dimensions laid out as `[c, h, w]`.
    pub fn shaped(mut self, shape: [usize; 3]) -> Result<Self> {
        if shape.iter().product::<usize>() != self.dims() {
            let what = format!("shape {shape:?} for a mixture in {} dimensions", self.dims());
            return Err(Error::Shape { what, expected: vec![self.dims()], found: vec![shape.iter().product()] });
        }
        self.shape = shape;
        Ok(self)
    }

    /// A two-armed spiral in the plane: 32 components, drawn by the documentation and the first demo.
    pub fn spiral() -> Self {
        let arm = |turn: f64| {
            (0..16).map(move |i| {
                let u = (i as f64 + 1.0) / 16.0;
                let angle = 3.6 * u + turn;
                (vec![0.8 * u * angle.cos(), 0.8 * u * angle.sin()], 0.02 + 0.025 * u, 0.5 + u)
            })
        };
        Self::new(arm(0.0).chain(arm(std::f64::consts::PI)).collect()).expect("the spiral is a mixture")
    }

    /// Number of dimensions.
    pub fn dims(&self) -> usize {
        self.means[0].len()
    }

    /// Means, standard deviations and normalised weights.
    pub fn components(&self) -> impl Iterator<Item = (&[f64], f64, f64)> {
        self.means.iter().zip(&self.stds).zip(&self.weights).map(|((m, s), w)| (m.as_slice(), *s, *w))
    }

    fn check(&self, x: &Tensor, levels: &Levels) -> Result<()> {
        levels.require(x.samples())?;
        if x.sample_len() == self.dims() {
            return Ok(());
        }
        Err(Error::Shape { what: "mixture input".into(), expected: vec![self.dims()], found: x.shape()[1..].to_vec() })
    }

    /// What samples at level `sigma` share, which is `known` if the sample before was at that level.
    fn at<'k>(&self, sigma: f64, known: &'k mut Option<AtLevel>) -> &'k AtLevel {
        let made = || {
            let alpha = if self.prediction == Prediction::Denoised { 1.0 } else { 1.0 - sigma };
            let variances: Vec<f64> = self.stds.iter().map(|s| alpha * alpha * s * s + sigma * sigma).collect();
            let prior = |(w, v): (&f64, &f64)| w.ln() - self.dims() as f64 / 2.0 * v.ln();
            AtLevel { alpha, sigma, priors: self.weights.iter().zip(&variances).map(prior).collect(), variances }
        };
        let same = known.take().filter(|at| at.sigma == sigma);
        known.insert(same.unwrap_or_else(made))
    }

    /// Everything about sample `x` at a level.
    fn posterior(&self, x: &[f64], at: &AtLevel) -> Posterior {
        let distances: Vec<f64> = self.means.iter().map(|m| squared_distance(x, at.alpha, m)).collect();
        let log = |k: usize| at.priors[k] - distances[k] / (2.0 * at.variances[k]);
        let logs: Vec<f64> = (0..self.means.len()).map(log).collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut responsibilities: Vec<f64> = logs.iter().map(|l| (l - top).exp()).collect();
        let total: f64 = responsibilities.iter().sum();
        responsibilities.iter_mut().for_each(|r| *r /= total);
        Posterior { distances, responsibilities }
    }

    /// aₖ and bₖ of the prediction.
    fn affine(&self, k: usize, at: &AtLevel) -> (f64, f64) {
        let c = at.alpha * self.stds[k] * self.stds[k] / at.variances[k];
        let data = (1.0 - at.alpha * c, c);
        match self.prediction {
            Prediction::Denoised => data,
            Prediction::Velocity => {
                let e = at.sigma / at.variances[k];
                (-at.alpha * e - data.0, e - data.1)
            }
        }
    }

    fn predict_sample(&self, x: &[f64], at: &AtLevel, out: &mut [f64]) {
        let p = self.posterior(x, at);
        let mut along_x = 0.0;
        out.fill(0.0);
        for (k, mean) in self.means.iter().enumerate() {
            let (a, b) = self.affine(k, at);
            along_x += p.responsibilities[k] * b;
            let weight = p.responsibilities[k] * a;
            out.iter_mut().zip(mean).for_each(|(o, m)| *o += weight * m);
        }
        out.iter_mut().zip(x).for_each(|(o, x)| *o += along_x * x);
    }

    /// Writes ∂L/∂x and returns ∂L/∂σ for ∂L/∂y = `g`.
    fn pull_back_sample(&self, x: &[f64], at: &AtLevel, g: &[f64], out: &mut [f64]) -> f64 {
        let p = self.posterior(x, at);
        let (g_x, alpha) = (dot(g, x), at.alpha);
        let dalpha = if self.prediction == Prediction::Denoised { 0.0 } else { -1.0 };
        let g_mean: Vec<f64> = self.means.iter().map(|m| dot(g, m)).collect();
        let value = |k: usize| {
            let (a, b) = self.affine(k, at);
            a * g_mean[k] + b * g_x
        };
        let values: Vec<f64> = (0..self.means.len()).map(value).collect();
        let mean_value: f64 = values.iter().zip(&p.responsibilities).map(|(v, r)| v * r).sum();
        let (mut along_g, mut along_x, mut to_sigma) = (0.0, 0.0, 0.0);
        out.fill(0.0);
        for (k, mean) in self.means.iter().enumerate() {
            let (r, v) = (p.responsibilities[k], at.variances[k]);
            let to_log = r * (values[k] - mean_value);
            along_g += r * self.affine(k, at).1;
            // ∂ ln rₖ/∂x = −(x − αμₖ)/Vₖ
            along_x -= to_log / v;
            let pull = to_log * alpha / v;
            out.iter_mut().zip(mean).for_each(|(o, m)| *o += pull * m);
            let (da, db) = self.affine_slope(k, at, dalpha);
            to_sigma += r * (da * g_mean[k] + db * g_x);
            let dv = self.variance_slope(k, at, dalpha);
            let along_mean = dot(x, mean) - alpha * dot(mean, mean);
            to_sigma += to_log * (dv / (2.0 * v) * (p.distances[k] / v - x.len() as f64) + dalpha * along_mean / v);
        }
        out.iter_mut().zip(g).zip(x).for_each(|((o, g), x)| *o += along_g * g + along_x * x);
        to_sigma
    }

    fn variance_slope(&self, k: usize, at: &AtLevel, dalpha: f64) -> f64 {
        2.0 * at.alpha * dalpha * self.stds[k] * self.stds[k] + 2.0 * at.sigma
    }

    /// daₖ/dσ and dbₖ/dσ.
    fn affine_slope(&self, k: usize, at: &AtLevel, dalpha: f64) -> (f64, f64) {
        let (v, dv, s2) = (at.variances[k], self.variance_slope(k, at, dalpha), self.stds[k] * self.stds[k]);
        let c = at.alpha * s2 / v;
        let dc = dalpha * s2 / v - c * dv / v;
        let data = (-dalpha * c - at.alpha * dc, dc);
        match self.prediction {
            Prediction::Denoised => data,
            Prediction::Velocity => {
                let e = at.sigma / v;
                let de = 1.0 / v - e * dv / v;
                (-dalpha * e - at.alpha * de - data.0, de - data.1)
            }
        }
    }
}

/// What samples at a level share.
struct AtLevel {
    alpha: f64,
    sigma: f64,
    variances: Vec<f64>,
    /// ln wₖ − d/2·ln Vₖ.
    priors: Vec<f64>,
}

struct Posterior {
    distances: Vec<f64>,
    responsibilities: Vec<f64>,
}

impl Denoiser for Mixture {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        self.check(x, levels)?;
        let mut out = Tensor::zeros(x.shape());
        let mut known = None;
        for (i, row) in out.data_mut().chunks_mut(self.dims()).enumerate() {
            self.predict_sample(x.sample(i), self.at(levels.of(i), &mut known), row);
        }
        Ok(out)
    }

    /// A stand-in for a network's bottleneck, of any length: the entries of x/√(1+σ²), over and over.
    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        let value = self.predict(x, levels)?;
        let feature = |i: usize| {
            let scale = (1.0 + levels.of(i) * levels.of(i)).sqrt();
            x.sample(i).iter().cycle().take(len).map(|v| v / scale).collect()
        };
        Ok((value, (0..x.samples()).map(feature).collect()))
    }

    fn info(&self) -> Info {
        self.prediction.into()
    }
}

impl Differentiable for Mixture {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        let value = self.predict(x, levels)?;
        let (x, levels) = (x.clone(), levels.clone());
        let pullback = move |g: &Tensor| {
            let mut out = Tensor::zeros(x.shape());
            let mut known = None;
            let mut one = |(i, row): (usize, &mut [f64])| {
                self.pull_back_sample(x.sample(i), self.at(levels.of(i), &mut known), g.sample(i), row)
            };
            let to_levels = out.data_mut().chunks_mut(self.dims()).enumerate().map(&mut one).collect();
            Ok((out, to_levels))
        };
        Ok((value, Box::new(pullback)))
    }
}

impl Model for Mixture {
    fn bind<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        condition.class_of_each(0)?;
        Ok(Box::new(self))
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn prediction(&self) -> Prediction {
        self.prediction
    }

    fn sigma_range(&self) -> (f64, f64) {
        match self.prediction {
            Prediction::Denoised => (0.002, 80.0),
            Prediction::Velocity => (0.0, 1.0),
        }
    }

    fn feature_len(&self) -> Option<usize> {
        Some(64)
    }

    fn density(&self) -> Option<Density<'_>> {
        let component = |x: &[f64], (mean, std, weight): (&[f64], f64, f64)| {
            let distance = squared_distance(x, 1.0, mean) / (2.0 * std * std);
            weight * std.powi(-(x.len() as i32)) * (-distance).exp()
        };
        Some(Box::new(move |x| self.components().map(|c| component(x, c)).sum()))
    }

    fn is_light(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Stream;

    fn example(seed: u64) -> Mixture {
        let mut z = Stream::new(seed);
        Mixture::new((0..3).map(|k| (z.normals(4), 0.2 + 0.1 * k as f64, 1.0 + k as f64)).collect()).unwrap()
    }

    fn batch(seed: u64, n: usize) -> Tensor {
        Tensor::new([n, 1, 2, 2], Stream::new(seed).normals(4 * n)).unwrap()
    }

    #[test]
    fn one_component_is_linear() {
        let model = Mixture::new(vec![(vec![1.0, -1.0], 0.5, 3.0)]).unwrap();
        let x = Tensor::new([1, 2, 1, 1], vec![2.0, 0.0]).unwrap();
        let y = model.predict(&x, &Levels::One(1.0)).unwrap();
        // c = 0.25/1.25 = 0.2
        assert!((y.data()[0] - 1.2).abs() < 1e-15 && (y.data()[1] + 0.8).abs() < 1e-15);
    }

    #[test]
    fn velocity_and_data_prediction_say_the_same() {
        let (data, flow) = (example(1), example(1).as_flow());
        for sigma in [0.1, 0.5, 0.9] {
            let x = batch(2, 2);
            let v = flow.predict(&x, &Levels::One(sigma)).unwrap();
            let scaled = x.map(|v| v / (1.0 - sigma));
            let d = data.predict(&scaled, &Levels::One(sigma / (1.0 - sigma))).unwrap();
            for i in 0..8 {
                // x₀ = x − σv
                assert!((x.data()[i] - sigma * v.data()[i] - d.data()[i]).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn pullbacks_agree_with_finite_differences() {
        for model in [example(3), example(3).as_flow()] {
            for sigma in [0.05, 0.4, 0.95] {
                let (x, g) = (batch(4, 2), batch(5, 2));
                let levels = Levels::Each(vec![sigma, 0.7 * sigma]);
                let loss = |x: &Tensor, l: &Levels| dot(model.predict(x, l).unwrap().data(), g.data());
                let (to_x, to_level) = (model.with_pullback(&x, &levels).unwrap().1)(&g).unwrap();
                let h = 1e-5;
                for i in 0..8 {
                    let at = |h: f64| {
                        let mut x = x.clone();
                        x.data_mut()[i] += h;
                        loss(&x, &levels)
                    };
                    let fd = (at(h) - at(-h)) / (2.0 * h);
                    assert!((fd - to_x.data()[i]).abs() < 1e-6 * fd.abs().max(1.0), "{fd} {}", to_x.data()[i]);
                }
                for (i, got) in to_level.iter().enumerate() {
                    let at = |h: f64| {
                        let mut l = [sigma, 0.7 * sigma];
                        l[i] += h;
                        loss(&x, &Levels::Each(l.to_vec()))
                    };
                    let fd = (at(h) - at(-h)) / (2.0 * h);
                    assert!((fd - got).abs() < 2e-6 * fd.abs().max(1.0), "{fd} {got}");
                }
            }
        }
    }

    #[test]
    fn impossible_mixtures_are_refused() {
        assert!(Mixture::new(vec![]).is_err());
        assert!(Mixture::new(vec![(vec![], 1.0, 1.0)]).is_err());
        assert!(Mixture::new(vec![(vec![0.0], 0.0, 1.0)]).is_err());
        assert!(Mixture::new(vec![(vec![0.0], 1.0, 0.0)]).is_err());
        assert!(Mixture::new(vec![(vec![0.0], 1.0, 1.0), (vec![0.0, 0.0], 1.0, 1.0)]).is_err());
        assert!(Mixture::new(vec![(vec![f64::NAN], 1.0, 1.0)]).is_err());
    }
}
