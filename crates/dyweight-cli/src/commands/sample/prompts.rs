//! What samples are asked for by text.

use super::DrawArgs;
use dyweight::denoiser::Model;
use dyweight::train::Prompts;
use dyweight::{Error, Result};

/// Encodes what the arguments ask for; none if they ask for nothing by text.
pub fn open(args: &DrawArgs, model: &dyn Model) -> Result<Option<Prompts>> {
    let texts = match (&args.prompt, &args.prompts) {
        (Some(text), _) => vec![text.clone()],
        (None, Some(path)) => Prompts::lines(path)?,
        (None, None) if args.negative.is_some() => {
            return Err(Error::Conflict {
                problem: "--negative says what to lead away from, but nothing is asked for".into(),
                hint: "give --prompt or --prompts, and --guidance".into(),
            });
        }
        (None, None) => return Ok(None),
    };
    Prompts::new(texts, args.negative.clone(), model).map(Some)
}
