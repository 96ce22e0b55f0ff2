//! What a measure of images would do: `--dry-run`.

use super::CommonArgs;
use super::images::{BATCH, Images};
use crate::dry_run::Forecast;
use crate::machine;
use dyweight::error::{counted, shown};
use dyweight::train::Work;
use dyweight::{Result, Tensor};
use std::path::Path;
use std::time::Instant;

/// Says what the features of these images would take: calls of the network where they are sampled, and the feature
/// network's time, by one image.
pub fn say(sets: &[&Images], args: &CommonArgs, out: Option<&Path>, as_json: bool) -> Result<()> {
    let (mut work, mut seconds, mut known, mut named) = (Work::default(), 0.0, None, Vec::new());
    let (mut held, mut drawing) = (0, 0);
    for images in sets {
        let source = images.source(args)?;
        let count = source.count.unwrap_or(0);
        named.push(format!("{} of {}", counted(count, "image"), source.images.unwrap_or_default()));
        if let Images::Sampler(setup) = images {
            let drawn = setup.forecast(count)?;
            (work, seconds, known) = (work + drawn.work, seconds + drawn.seconds, known.or(drawn.known));
            drawing = drawn.peak.max(drawing);
        }
        let (time, features) = one_feature(images, args)?;
        seconds += count as f64 * time;
        // All features are held until the measure is taken.
        held += (count * features * size_of::<f64>()) as u64;
    }
    let what = match named.is_empty() {
        true => "compare statistics".into(),
        false => format!("take the features of {}", named.join(" and ")),
    };
    let writes = out.iter().map(|out| shown(out)).collect();
    let peak = machine::peak_bytes().unwrap_or(0).max(drawing) + held;
    Forecast { what, work, seconds, peak, writes, known }.print(as_json);
    Ok(())
}

/// Seconds that the features of an image take, and how many numbers they are.
fn one_feature(images: &Images, args: &CommonArgs) -> Result<(f64, usize)> {
    let (map, [c, h, w]) = (images.map(args)?, images.shape());
    // A batch takes the memory of the run.
    map.features(&Tensor::zeros([args.draw.batch.unwrap_or(BATCH), c, h, w]))?;
    let image = Tensor::zeros([1, c, h, w]);
    let started = Instant::now();
    map.features(&image)?;
    Ok((started.elapsed().as_secs_f64(), map.dims()))
}
