//! What a search without gradients has of a run: samples of the model, noise of the training pairs, the processes.

use crate::trainer::Trainer;
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_files::TensorFile;
use dyweight_sample::in_parts;
use dyweight_solvers::learnable::{Ground, Solve};
use dyweight_solvers::learned::Frame;
use std::ops::Range;

/// The training pairs of a run.
pub(crate) struct OnPairs<'t>(pub &'t Trainer);

impl Ground for OnPairs<'_> {
    fn frame(&self) -> &Frame {
        &self.0.plan.student.frame
    }

    fn calls(&self) -> usize {
        self.0.plan.calls()
    }

    fn noise(&self, samples: usize) -> Result<(Tensor, Range<usize>)> {
        let config = self.0.config();
        let Some(path) = &config.spec.noise else {
            return Ok((self.0.plan.inputs.latents(0..samples)?, 0..samples));
        };
        let file = TensorFile::read(path)?;
        let stored = file.tensor("noise").map_err(|p| Error::malformed(path, p))?;
        let [c, h, w] = config.model.shape();
        let found = stored.shape().to_vec();
        let what = format!("tensor 'noise' in {}", path.display());
        if found.len() != 5 || found[2..] != [c, h, w] || found[0] * found[1] == 0 {
            return Err(Error::Shape { what, expected: vec![1, samples, c, h, w], found });
        }
        let noise = Tensor::new([found[0] * found[1], c, h, w], stored.to_f64())?;
        noise.require_finite(&what)?;
        Ok((noise, (found[0] - 1) * found[1]..found[0] * found[1]))
    }

    fn in_parts(&self, noise: &Tensor, first: usize, f: &Solve) -> Result<Tensor> {
        let (config, plan) = (self.0.config(), &self.0.plan);
        let part = |range: Range<usize>| {
            let pairs = first + range.start..first + range.end;
            let model = config.model.denoiser(&plan.inputs.condition(pairs))?;
            f(&*model, &noise.slice(range))
        };
        Tensor::concat(&in_parts(&*config.model, 0..noise.samples(), plan.recipe.micro_batch, part)?)
    }

    fn onward(&self) -> Result<()> {
        let stop = self.0.config().stop.as_ref();
        if stop.is_some_and(|stop| stop()) { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn agreed(&self, find: &mut dyn FnMut() -> Result<Vec<usize>>) -> Result<Vec<usize>> {
        self.0.config().comm.broadcast(find)
    }
}
