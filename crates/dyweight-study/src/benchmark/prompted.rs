//! How well samples fit the prompts they were made from.

use super::experiment::{Judging, Subject};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_files::image::{Image, is_image};
use dyweight_metrics::Estimate;
use std::collections::BTreeMap;
use std::ops::Range;

impl Judging {
    /// An error if there are scores of prompts, but no prompts or no images.
    pub fn check(&self, subject: &Subject) -> Result<()> {
        let Some(first) = self.scorers.first() else { return Ok(()) };
        let title = first.kind().title();
        if subject.show.prompts().is_none() {
            return Err(Error::conflict(
                format!("{title} is of images and their prompts, and '{}' is asked without", subject.name),
                format!("give `prompts`, or leave `{}` out", first.kind().name()),
            ));
        }
        let model = &subject.model.model;
        let shape = model.decoder().map_or(model.shape(), |decoder| decoder.shape());
        if is_image(shape) {
            return Ok(());
        }
        let [c, h, w] = shape;
        Err(Error::conflict(
            format!("{title} is of images, and '{}' makes samples of {c}x{h}x{w}", subject.name),
            "a latent model needs its autoencoder beside it",
        ))
    }

    /// For each scorer, the score of each of the samples `range`: in eight bits, as if they had been written.
    pub(super) fn scores(&self, subject: &Subject, samples: &Tensor, range: Range<usize>) -> Result<Vec<Vec<f64>>> {
        let (Some(prompts), false) = (subject.show.prompts(), self.scorers.is_empty()) else { return Ok(Vec::new()) };
        let decoder = subject.model.model.decoder();
        let images = match decoder {
            Some(decoder) => Image::from_batch(&decoder.decode(samples)?)?,
            None => Image::from_batch(samples)?,
        };
        let texts: Vec<&str> = range.map(|number| prompts.text(number)).collect();
        self.scorers.iter().map(|scorer| scorer.scores(&images, &texts)).collect()
    }

    /// Means of the scores, by name.
    pub(super) fn means(&self, scores: &[Vec<f64>]) -> BTreeMap<String, Estimate> {
        let named = self.scorers.iter().map(|scorer| scorer.kind().name().to_string());
        named.zip(scores.iter().map(|values| Estimate::mean(values))).collect()
    }
}
