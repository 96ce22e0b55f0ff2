//! What samples begin with and show, from the arguments.

use super::DrawArgs;
use crate::args::class_of;
use crate::files::batch;
use dyweight::files::TensorFile;
use dyweight::models::LoadedModel;
use dyweight::noise::Rng;
use dyweight::sample::{Inputs, Noise, Prompts, Show};
use dyweight::spec::Seeds;
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
    Ok(Inputs { noise, shape, classes, show: show(args, loaded)?, guidance: args.guidance })
}

fn show(args: &DrawArgs, loaded: &LoadedModel) -> Result<Show> {
    let texts = match (&args.prompt, &args.prompts) {
        (Some(text), _) => vec![text.clone()],
        (None, Some(path)) => Prompts::lines(path)?,
        (None, None) if args.negative.is_some() => {
            return Err(Error::conflict(
                "--negative says what to lead away from, but nothing is asked for",
                "give --prompt or --prompts, and --guidance",
            ));
        }
        (None, None) => return class(args, loaded.class_names()),
    };
    let prompts = Prompts::new(texts, args.negative.clone(), &*loaded.model)?;
    Ok(Show::Prompts(Arc::new(prompts)))
}

/// The class asked for, by its number or by one of these names.
fn class(args: &DrawArgs, names: &[&str]) -> Result<Show> {
    match args.class.as_deref() {
        None => Ok(Show::Drawn),
        Some("none") => Ok(Show::Anything),
        Some(text) => class_of(text, names, &["none"]).map(Show::Class),
    }
}
