//! A network with its labels bound: the view solvers have. f64 becomes the engine's f32, and back, here alone.

use super::Edm;
use super::precond::Factors;
use super::unet::Tape;
use crate::side_by_side::{parts, side_by_side};
use dyweight_core::denoiser::{Denoiser, Differentiable, Levels, Prediction, Pullback, no_feature};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::{Tensor, dot};
use dyweight_nn::{Act, Shape};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Samples in one pass.
const AT_ONCE: RangeInclusive<usize> = 8..=16;

/// A network and the label row of each sample.
pub struct Bound<'m> {
    model: &'m Edm,
    /// One row per sample, or nothing for all-zero rows.
    rows: Option<Vec<f32>>,
}

/// One pass of the network over some of the samples.
struct Pass {
    samples: Range<usize>,
    x: Tensor,
    sigmas: Vec<f64>,
    factors: Vec<Factors>,
    /// F, of the image's shape.
    output: Tensor,
    tape: Option<Tape>,
    /// Between encoder and decoder.
    narrowest: Arc<Act>,
}

impl<'m> Bound<'m> {
    pub(super) fn new(model: &'m Edm, rows: Option<Vec<f32>>) -> Self {
        Self { model, rows }
    }

    /// Runs the network on samples that have been checked; `of` makes something of each pass.
    fn passes<T: Send>(
        &self,
        x: &Tensor,
        levels: &Levels,
        record: bool,
        of: impl Fn(Pass) -> T + Sync,
    ) -> Result<Vec<T>> {
        side_by_side(parts(x.samples(), AT_ONCE), |samples| self.pass(x, levels, samples, record).map(&of))
    }

    fn pass(&self, x: &Tensor, levels: &Levels, samples: Range<usize>, record: bool) -> Result<Pass> {
        let (x, labels) = (x.slice(samples.clone()), self.model.config.label_dim);
        let rows = self.rows.as_ref().map(|rows| &rows[labels * samples.start..labels * samples.end]);
        let sigmas: Vec<f64> = samples.clone().map(|i| levels.of(i)).collect();
        let factors: Vec<Factors> = sigmas.iter().map(|s| self.model.precond.factors(*s)).collect();
        let noise = factors.iter().map(|f| f.noise as f32).collect();
        let input = scaled_act(&x, x.shape()[1], |i| factors[i].input);
        let (out, tape, narrowest) = self.model.net.forward(input, noise, rows, record);
        let output = leading_channels(&out, x.shape())?;
        Ok(Pass { samples, x, sigmas, factors, output, tape, narrowest })
    }

    fn check(&self, x: &Tensor, levels: &Levels) -> Result<()> {
        levels.require(x.samples())?;
        let (config, samples) = (&self.model.config, x.samples());
        let expected = [samples, config.channels, config.resolution, config.resolution];
        if x.shape() != expected {
            let (expected, found) = (expected.to_vec(), x.shape().to_vec());
            return Err(Error::Shape { what: "network input".into(), expected, found });
        }
        if let Some(rows) = self.rows.as_ref().filter(|r| r.len() != samples * config.label_dim) {
            let found = vec![rows.len() / config.label_dim.max(1), config.label_dim];
            return Err(Error::Shape { what: "labels".into(), expected: vec![samples, config.label_dim], found });
        }
        let positive = |sigma: &f64| (*sigma as f32) > 0.0 && (*sigma as f32).is_finite();
        match (0..samples).map(|i| levels.of(i)).find(|sigma| !positive(sigma)) {
            Some(sigma) => {
                let expected = "a network is told a positive, finite noise level".into();
                Err(Error::BadValue { name: "sigma", value: dyweight_core::error::number(sigma), expected })
            }
            None => Ok(()),
        }
    }

    /// Carries a cotangent of the prediction back through a recorded pass.
    fn pull_back(&self, pass: Pass, cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)> {
        let Pass { samples, x, sigmas, factors, output, tape, .. } = pass;
        let cotangent = &cotangent.slice(samples);
        let tape = tape.expect("made by with_pullback");
        let gradient = scaled_act(cotangent, self.model.config.net.outputs, |i| factors[i].out);
        let (to_input, to_noise) = self.model.net.backward(tape, gradient);
        let w = leading_channels(&to_input, x.shape())?;
        let sigma_gradient = |i: usize| {
            let slope = self.model.precond.slopes(sigmas[i]);
            let (x, v, w, f) = (x.sample(i), cotangent.sample(i), w.sample(i), output.sample(i));
            slope.skip * dot(v, x) + slope.out * dot(v, f) + slope.input * dot(x, w) + slope.noise * to_noise[i]
        };
        let to_sigma = (0..x.samples()).map(sigma_gradient).collect();
        Ok((combine(&factors, |f| (f.skip, f.input), cotangent, &w), to_sigma))
    }
}

impl Pass {
    /// The denoised samples.
    fn value(&self) -> Tensor {
        combine(&self.factors, |f| (f.skip, f.out), &self.x, &self.output)
    }

    /// The mean over channels between encoder and decoder, one number for each place.
    fn feature(&self) -> Vec<Vec<f64>> {
        let shape = self.narrowest.shape();
        let places = shape.h * shape.w;
        let data = self.narrowest.to_nchw();
        let mean = |sample: &[f32], place: usize| {
            sample.iter().skip(place).step_by(places).map(|v| f64::from(*v)).sum::<f64>() / shape.c as f64
        };
        data.chunks(shape.c * places).map(|sample| (0..places).map(|place| mean(sample, place)).collect()).collect()
    }
}

/// Per sample a·first + b·second.
fn combine(factors: &[Factors], pick: impl Fn(&Factors) -> (f64, f64), first: &Tensor, second: &Tensor) -> Tensor {
    let mut out = first.clone();
    let len = out.sample_len().max(1);
    for ((out, second), factors) in out.data_mut().chunks_mut(len).zip(second.data().chunks(len)).zip(factors) {
        let (a, b) = pick(factors);
        out.iter_mut().zip(second).for_each(|(o, s)| *o = a * *o + b * s);
    }
    out
}

/// A batch times one factor per sample, with channels beyond its own left zero.
fn scaled_act(x: &Tensor, channels: usize, factor: impl Fn(usize) -> f64) -> Act {
    let [n, own, h, w] = x.shape();
    let mut data = Vec::with_capacity(n * channels * h * w);
    for i in 0..n {
        let factor = factor(i);
        data.extend(x.sample(i).iter().map(|v| (factor * v) as f32));
        data.resize(data.len() + (channels - own) * h * w, 0.0);
    }
    Act::from_nchw(Shape { n, h, w, c: channels }, &data)
}

/// The first channels of each sample, as many as `shape` has.
fn leading_channels(act: &Act, shape: [usize; 4]) -> Result<Tensor> {
    let (all, kept) = (act.shape().sample_len().max(1), shape[1..].iter().product());
    let data = act.to_nchw();
    Tensor::new(shape, data.chunks(all).flat_map(|sample| &sample[..kept]).map(|v| f64::from(*v)).collect())
}

impl Denoiser for Bound<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        self.check(x, levels)?;
        if x.samples() == 0 {
            return Ok(x.clone());
        }
        Tensor::concat(&self.passes(x, levels, false, |pass| pass.value())?)
    }

    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        self.check(x, levels)?;
        let own = self.model.config.narrowest();
        if own != len {
            return Err(no_feature(len, Some(own)));
        }
        let passes = self.passes(x, levels, false, |pass| (pass.value(), pass.feature()))?;
        let (values, features): (Vec<Tensor>, Vec<Vec<Vec<f64>>>) = passes.into_iter().unzip();
        let value = if values.is_empty() { x.clone() } else { Tensor::concat(&values)? };
        Ok((value, features.concat()))
    }

    fn prediction(&self) -> Prediction {
        Prediction::Denoised
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.model.precond.sigma_range()
    }
}

impl Differentiable for Bound<'_> {
    fn with_pullback<'p>(&'p self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'p>)> {
        self.check(x, levels)?;
        if x.samples() == 0 {
            return Ok((x.clone(), Box::new(|g| Ok((g.clone(), Vec::new())))));
        }
        let (values, passes): (Vec<_>, Vec<_>) =
            self.passes(x, levels, true, |pass| (pass.value(), pass))?.into_iter().unzip();
        let shape = x.shape();
        let pull_back = move |cotangent: &Tensor| {
            if cotangent.shape() != shape {
                let (expected, found) = (shape.to_vec(), cotangent.shape().to_vec());
                return Err(Error::Shape { what: "cotangent".into(), expected, found });
            }
            let pulled = side_by_side(passes, |pass| self.pull_back(pass, cotangent))?;
            let (to_x, to_sigma): (Vec<_>, Vec<_>) = pulled.into_iter().unzip();
            Ok((Tensor::concat(&to_x)?, to_sigma.concat()))
        };
        Ok((Tensor::concat(&values)?, Box::new(pull_back)))
    }
}
