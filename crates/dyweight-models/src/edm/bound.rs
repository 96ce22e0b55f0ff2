//! A network with its labels bound: the view solvers have.

use super::Edm;
use super::embedding::EmbeddingInputs;
use super::unet::Tape;
use crate::exchange::{leading_channels, scaled_act};
use crate::preconditioned::{self, Factors, Preconditioned, passes};
use dyweight_core::denoiser::{Denoiser, Differentiable, Embedding, Info, Levels, Prediction, Pullback, no_feature};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_nn::Act;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Samples in one pass.
pub(super) const AT_ONCE: RangeInclusive<usize> = 8..=16;

/// A network and the label row of each sample.
pub struct Bound<'m> {
    model: &'m Edm,
    /// One row per sample, or nothing for all-zero rows.
    rows: Option<Vec<f32>>,
}

impl<'m> Bound<'m> {
    pub(super) fn new(model: &'m Edm, rows: Option<Vec<f32>>) -> Self {
        Self { model, rows }
    }
}

impl Preconditioned for Bound<'_> {
    /// The tape, and what is between encoder and decoder.
    type Kept = (Option<Tape>, Arc<Act>);

    fn at_once(&self) -> Option<RangeInclusive<usize>> {
        Some(AT_ONCE)
    }

    fn check(&self, x: &Tensor, levels: &Levels) -> Result<()> {
        levels.require(x.samples())?;
        let (config, samples) = (&self.model.config, x.samples());
        let shift = levels.parts().1;
        if !shift.is_empty() {
            self.info().embedding.require(shift.len())?;
        }
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
                let expected = "a network is told a positive, finite noise level";
                Err(Error::bad_value("sigma", dyweight_core::error::number(sigma), expected))
            }
            None => Ok(()),
        }
    }

    fn factors(&self, sigma: f64) -> Factors {
        self.model.precond.factors(sigma)
    }

    fn slopes(&self, sigma: f64) -> Factors {
        self.model.precond.slopes(sigma)
    }

    fn forward(
        &self,
        x: &Tensor,
        of: &[Factors],
        levels: &Levels,
        samples: Range<usize>,
        record: bool,
    ) -> Result<(Tensor, Self::Kept)> {
        let labels = self.model.config.label_dim;
        let rows = self.rows.as_ref().map(|rows| &rows[labels * samples.start..labels * samples.end]);
        let noise = of.iter().map(|f| f.noise as f32).collect();
        let shift = samples.flat_map(|i| levels.parts().1.iter().map(move |by| by.of(i) as f32)).collect();
        let input = scaled_act(x, x.shape()[1], |i| of[i].input);
        let (out, tape, narrowest) =
            self.model.net.forward(input, EmbeddingInputs { noise, labels: rows, shift }, record);
        Ok((leading_channels(&out, x.shape())?, (tape, narrowest)))
    }

    fn backward(&self, kept: &Self::Kept, of: &[Factors], cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)> {
        let tape = kept.0.clone().expect("made by with_pullback");
        let gradient = scaled_act(cotangent, self.model.config.net.outputs, |i| of[i].out);
        let (to_input, to_told) = self.model.net.backward(tape, gradient);
        Ok((leading_channels(&to_input, cotangent.shape())?, to_told))
    }
}

/// The mean over channels between encoder and decoder, one number for each place.
fn feature(narrowest: &Act) -> Vec<Vec<f64>> {
    let shape = narrowest.shape();
    let places = shape.h * shape.w;
    let data = narrowest.to_nchw();
    let mean = |sample: &[f32], place: usize| {
        sample.iter().skip(place).step_by(places).map(|v| f64::from(*v)).sum::<f64>() / shape.c as f64
    };
    data.chunks(shape.c * places).map(|sample| (0..places).map(|place| mean(sample, place)).collect()).collect()
}

impl Denoiser for Bound<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        preconditioned::predict(self, x, levels)
    }

    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        self.check(x, levels)?;
        let own = self.model.config.narrowest();
        if own != len {
            return Err(no_feature(len, Some(own)));
        }
        let passes = passes(self, x, levels, false, |pass| (pass.value(), feature(&pass.kept.1)))?;
        let (values, features): (Vec<Tensor>, Vec<Vec<Vec<f64>>>) = passes.into_iter().unzip();
        let value = if values.is_empty() { x.clone() } else { Tensor::concat(&values)? };
        Ok((value, features.concat()))
    }

    fn info(&self) -> Info {
        let embedding = Embedding::Of(self.model.config.net.embedding_width());
        Info { embedding, ..Prediction::Denoised.into() }
    }
}

impl Differentiable for Bound<'_> {
    fn with_pullback<'p>(&'p self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'p>)> {
        preconditioned::with_pullback(self, x, levels)
    }
}
