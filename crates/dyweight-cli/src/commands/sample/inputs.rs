//! What samples begin with and show, from the arguments.

use super::DrawArgs;
use crate::files::batch;
use dyweight::files::TensorFile;
use dyweight::models::LoadedModel;
use dyweight::noise::Rng;
use dyweight::sample::{Inputs, Noise, Prompts, Show};
use dyweight::spec::Seeds;
use dyweight::train::plan::show;
use dyweight::{Error, Result};
use std::sync::Arc;

/// The noise the arguments name.
pub fn noise(args: &DrawArgs) -> Result<Noise> {
    let rng = Rng::named(&args.rng)?;
    let Some(path) = &args.latents else {
        return Ok(Noise::Seeds { seeds: Seeds::parse(&args.seeds)?.iter().collect(), rng });
    };
    let file = TensorFile::read(path)?;
    let latents = file.tensor("latents").map_err(|p| Error::malformed(path, p))?;
    Ok(Noise::Latents(batch(path, "latents", latents)?))
}

/// Noise and what a model is asked for with it.
pub fn of(args: &DrawArgs, noise: Noise, loaded: &LoadedModel) -> Result<Inputs> {
    let (shape, classes) = (loaded.model.shape(), loaded.model.classes());
    let mut asked = args.asked.on(loaded)?;
    let show = match &args.prompt {
        Some(text) => {
            let prompts = Prompts::new(vec![text.clone()], asked.negative.take(), &*loaded.model)?;
            Show::Prompts(Arc::new(prompts))
        }
        None => show(&asked, &*loaded.model, None)?,
    };
    Ok(Inputs { noise, shape, classes, show, guidance: asked.guidance })
}
