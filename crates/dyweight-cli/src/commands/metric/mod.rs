//! `dyweight metric`: distances of sets of images and how well images fit their prompts, each with its standard error.

mod bench;
mod dry_run;
mod folder;
mod images;
mod pairing;
mod prompted;
mod report;
mod teacher;

use super::sample::DrawArgs;
use crate::args::{FeatureArgs, ModelOptions, also_config};
use crate::files::text;
use crate::ui;
use clap::{Args, Subcommand};
use dyweight::comm::Solo;
use dyweight::files::{Fingerprint, OutputGuard};
use dyweight::metrics::frechet::{Reference, Statistics};
use dyweight::metrics::{BUILT_IN_REFERENCE, statistics};
use dyweight::metrics::{Estimate, Features, FieldCount, Origin, Provenance, kid, precision_recall};
use dyweight::models::ScoreKind;
use dyweight::{Error, Result};
use images::{Images, Measured};
use report::Report;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What to measure.
#[derive(Args)]
pub struct MetricArgs {
    #[command(subcommand)]
    what: MetricCommand,
}

#[derive(Subcommand)]
enum MetricCommand {
    /// Fréchet distance to a reference; FID with Inception's features
    Fid(Box<PairArgs>),
    /// Mean and covariance of features, as a reference for others
    Stats(Box<StatsArgs>),
    /// Kernel distance of two sets, unbiased
    Kid(Box<PairArgs>),
    /// Precision and recall of images against a reference of real ones
    Pr(Box<PairArgs>),
    /// Distance to a teacher's samples from the same noise: RMSE and PSNR
    Teacher(teacher::TeacherArgs),
    /// CLIP score: 100 times the cosine of an image's and its prompt's features
    Clip(Box<prompted::PromptedArgs>),
    /// HPSv2 score of images and their prompts: the same cosine, of a network trained on people's choices
    Hps(Box<prompted::PromptedArgs>),
    /// ImageReward of images and their prompts
    ImageReward(Box<prompted::PromptedArgs>),
    /// Time of a covariance and the trace of a matrix root
    Bench(bench::MetricBenchArgs),
}

/// Two sets to compare.
#[derive(Args)]
struct PairArgs {
    /// A folder of PNG files, 'sampler' (with --model), or for fid an .npz of statistics
    #[arg(value_name = "IMAGES")]
    first: String,
    /// As the first; for fid also the built-in reference 'fashion'
    #[arg(value_name = "REFERENCE")]
    second: String,
    #[command(flatten)]
    common: CommonArgs,
    /// JSON file for the result
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Say what would be done, how many calls and how long it takes; do nothing
    #[arg(long, help_heading = "Output")]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// A set to describe.
#[derive(Args)]
struct StatsArgs {
    /// A folder of PNG files, or 'sampler' (with --model)
    #[arg(value_name = "IMAGES")]
    images: String,
    #[command(flatten)]
    common: CommonArgs,
    /// File for 'mu' and 'sigma'
    #[arg(long, value_name = "FILE.npz", help_heading = "Output")]
    out: PathBuf,
    /// Say what would be done, how many calls and how long it takes; do nothing
    #[arg(long, help_heading = "Output")]
    dry_run: bool,
    /// What to call the images in the file [IMAGES]
    #[arg(long, help_heading = "Output")]
    name: Option<String>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What all sets share.
#[derive(Args)]
#[command(mut_arg("model_config", also_config))]
pub struct CommonArgs {
    #[command(flatten)]
    features: FeatureArgs,
    /// Use the first N images of each set, and refuse sets with fewer [all]
    #[arg(long, value_name = "N", help_heading = "Images")]
    num: Option<usize>,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long, help_heading = "Images")]
    threads: Option<usize>,
    /// Model of the sampler: a built-in name or a file
    #[arg(long, value_name = "NAME|FILE", help_heading = "Sampler")]
    model: Option<String>,
    #[command(flatten, next_help_heading = "Sampler")]
    options: ModelOptions,
    #[command(flatten)]
    draw: DrawArgs,
}

/// Runs the command.
pub fn run(args: &MetricArgs) -> Result<()> {
    match &args.what {
        MetricCommand::Fid(args) => fid(args),
        MetricCommand::Stats(args) => stats(args),
        MetricCommand::Kid(args) => {
            pair(args, "kid", &|samples, reference| Ok(vec![("kid", kid(samples, reference)?)]))
        }
        MetricCommand::Pr(args) => pair(args, "precision-recall", &|samples, reference| {
            let found = precision_recall(reference, samples)?;
            Ok(vec![("precision", found.precision), ("recall", found.recall)])
        }),
        MetricCommand::Teacher(args) => teacher::run(args),
        MetricCommand::Clip(args) => prompted::run(args, ScoreKind::Clip),
        MetricCommand::Hps(args) => prompted::run(args, ScoreKind::Hps),
        MetricCommand::ImageReward(args) => prompted::run(args, ScoreKind::ImageReward),
        MetricCommand::Bench(args) => bench::run(args),
    }
}

impl CommonArgs {
    /// Refuses what cannot be meant, before anything is opened.
    fn prepare(&self, sets: &[&String], out: Option<&Path>) -> Result<()> {
        ui::set_threads(self.threads, &Solo)?;
        if self.draw.batch == Some(0) {
            return Err(Error::bad_value("batch", "0", "at least one image per batch"));
        }
        if self.model.is_some() && !sets.iter().any(|s| *s == "sampler") {
            return Err(Error::conflict(
                "a model was given, but no images are to be sampled",
                "write 'sampler' in the place of its images, or leave --model out",
            ));
        }
        if !sets.iter().any(|s| *s == "sampler") {
            let of_model = serde_json::to_value(&self.options).unwrap_or_default();
            let of_model = of_model.as_object().and_then(|all| all.iter().find(|(_, value)| !value.is_null()));
            if let Some(option) = self.draw.given().or(of_model.map(|(key, _)| key.clone())) {
                return Err(Error::no_effect(&option, "no images are to be sampled: write 'sampler' in their place"));
            }
        }
        // Folders of images are looked through when they are opened: what is none of their images may be replaced.
        let files = sets.iter().map(|set| Path::new(set.as_str())).filter(|set| !set.is_dir());
        let mut inputs: Vec<_> = files.map(|set| ("the input", set)).collect();
        inputs.extend(self.model.iter().map(|model| ("--model", Path::new(model))));
        inputs.extend(self.options.files());
        inputs.extend(self.features.files());
        inputs.extend(self.draw.files());
        out.iter().fold(OutputGuard::new(inputs), |guard, path| guard.file("--out", path)).check()
    }
}

/// True of a file of statistics; formats are told by content.
fn is_archive(name: &str) -> bool {
    let mut start = [0; 2];
    let path = Path::new(name);
    path.is_file() && File::open(path).and_then(|mut f| f.read_exact(&mut start)).is_ok() && start == *b"PK"
}

/// Statistics by name, file or images; those built in as `features` sees them.
fn open_reference(args: &PairArgs, features: &str) -> Result<Statistics> {
    if is_folder(&args.second) {
        return Images::open(&args.second, &args.common, args.out.as_deref())?
            .measure(&args.common)?
            .statistics(&args.second);
    }
    statistics(&args.second, features)
}

/// True of images as a reference; a built-in name goes before a folder that is called so.
fn is_folder(name: &str) -> bool {
    name != BUILT_IN_REFERENCE && Path::new(name).is_dir()
}

fn fid(args: &PairArgs) -> Result<()> {
    args.common.prepare(&[&args.first, &args.second], args.out.as_deref())?;
    if is_archive(&args.first) {
        let own = Statistics::read(Path::new(&args.first))?;
        let (source, dims) = (own.source.clone(), own.mu.len());
        let reference = Reference::new(open_reference(args, source.features.as_deref().unwrap_or_default())?)?;
        if args.dry_run {
            return dry_run::say(&[], &args.common, args.out.as_deref(), args.json);
        }
        let value = reference.distance(&own)?;
        let count = source.count.unwrap_or(0);
        // Statistics do not say how their samples scatter.
        let estimate = Estimate::new(value, f64::NAN, count);
        return finish_fid(args, source, &reference, (estimate, dims));
    }
    let images = Images::open(&args.first, &args.common, args.out.as_deref())?;
    let (known, source) = (images.map(&args.common)?, images.source(&args.common)?);
    if args.dry_run {
        let other = is_folder(&args.second).then(|| Images::open(&args.second, &args.common, args.out.as_deref()));
        let Some(other) = other.transpose()? else {
            statistics(&args.second, known.name())?;
            return dry_run::say(&[&images], &args.common, args.out.as_deref(), args.json);
        };
        return dry_run::say(&[&images, &other], &args.common, args.out.as_deref(), args.json);
    }
    let reference = open_reference(args, known.name())?;
    if let Some(problem) = reference.source.conflict(&source) {
        let hint = "make statistics of the reference with these features: dyweight metric stats";
        return Err(Error::conflict(format!("the reference cannot be used here: {problem}"), hint));
    }
    if reference.mu.len() != known.dims() {
        let what = format!("features of the reference '{}'", args.second);
        return Err(Error::Shape { what, expected: vec![known.dims()], found: vec![reference.mu.len()] });
    }
    let reference = Reference::new(reference)?;
    let Measured { features, source } = images.measure(&args.common)?;
    let estimate = reference.estimate(&features)?;
    finish_fid(args, source, &reference, (estimate, features.dims()))
}

fn finish_fid(
    args: &PairArgs,
    samples: Origin,
    reference: &Reference,
    (estimate, dims): (Estimate, usize),
) -> Result<()> {
    let against = &reference.statistics().source;
    let mut warnings = match samples.count {
        Some(count) => FieldCount::warnings(count, dims),
        None => vec![format!("{} does not say how many samples it is of", args.first)],
    };
    if samples.features.is_none() || against.features.is_none() {
        warnings.push("not all statistics say which features they are of: that they are the same is up to you".into());
    }
    // Only Inception's features make it the number the field calls FID.
    let inception = samples.features.as_deref().is_some_and(|f| f.starts_with("inception"));
    let metric = if inception { "fid" } else { "frechet" };
    let provenance = Provenance {
        metric: metric.into(),
        samples,
        reference: against.clone(),
        reference_sha256: Some(reference.statistics().fingerprint()),
    };
    Report { values: vec![(metric, estimate)], provenance, warnings }.give(args.out.as_deref(), args.json)
}

fn stats(args: &StatsArgs) -> Result<()> {
    args.common.prepare(&[&args.images], Some(&args.out))?;
    let images = Images::open(&args.images, &args.common, Some(&args.out))?;
    if args.dry_run {
        return dry_run::say(&[&images], &args.common, Some(&args.out), args.json);
    }
    let measured = images.measure(&args.common)?;
    let (count, dims) = (measured.features.len(), measured.features.dims());
    let statistics = measured.statistics(args.name.as_deref().unwrap_or(&args.images))?;
    statistics.write(&args.out)?;
    FieldCount::warnings(count, dims).iter().take(usize::from(count < 2 * dims)).for_each(|w| ui::warn(w));
    if args.json {
        let facts = serde_json::json!({
            "file": text(&args.out), "count": count, "dims": dims, "source": statistics.source,
            "sha256": statistics.fingerprint(),
        });
        ui::print_json(&facts);
    } else {
        let features = statistics.source.features.as_deref().unwrap_or("unnamed features");
        ui::say(&format!("{count} images, {dims} features ({features})"));
        ui::print_path(&args.out);
    }
    Ok(())
}

type Measurement<'m> = &'m dyn Fn(&Features, &Features) -> Result<Vec<(&'static str, Estimate)>>;

/// A metric of two sets of features.
fn pair(args: &PairArgs, metric: &str, measure: Measurement<'_>) -> Result<()> {
    args.common.prepare(&[&args.first, &args.second], args.out.as_deref())?;
    let [first, second] = [&args.first, &args.second].map(|name| Images::open(name, &args.common, args.out.as_deref()));
    let (first, second) = (first?, second?);
    // Both are opened before either is measured: a wrong name must not cost an hour.
    second.map(&args.common)?;
    if args.dry_run {
        return dry_run::say(&[&first, &second], &args.common, args.out.as_deref(), args.json);
    }
    let (first, second) = (first.measure(&args.common)?, second.measure(&args.common)?);
    let values = measure(&first.features, &second.features)?;
    let mut warnings = Vec::new();
    if metric == "precision-recall" && first.features.len() != second.features.len() {
        let (a, b) = (first.features.len(), second.features.len());
        warnings.push(format!("{a} and {b} images: precision and recall depend on both numbers, use --num"));
    }
    let (samples, reference) = (first, second);
    let rows = reference.features.rows().iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let reference_sha256 = Some(Fingerprint::default().add(&rows).text());
    let (samples, reference) = (samples.source, reference.source);
    let provenance = Provenance { metric: metric.into(), samples, reference, reference_sha256 };
    Report { values, provenance, warnings }.give(args.out.as_deref(), args.json)
}
