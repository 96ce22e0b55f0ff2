//! `dyweight bench`: what a model costs on this machine, and how sure that is.

mod against;

use crate::args::{ModelOptions, also_config, check_batch, opened};
use crate::spread::Spread;
use crate::{machine, ui};
use clap::{Args, ValueEnum};
use dyweight::comm::Solo;
use dyweight::denoiser::{Condition, Decoder, Differentiable, Levels};
use dyweight::error::named;
use dyweight::features::FeatureMap;
use dyweight::models::clip::ClipFeatures;
use dyweight::models::inception::{Inception, Resize};
use dyweight::models::{LoadedModel, ModelSpec, Precision, instruction_set};
use dyweight::noise::Rng;
use dyweight::spec::Budget;
use dyweight::spec::budget::check_steps;
use dyweight::tape::Memory;
use dyweight::train::plan::TEACHER_NFE;
use dyweight::train::{Loss, TrainConfig, TrainSpec, Training};
use dyweight::{Error, Result, Tensor, option};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

const DEFAULT_NFE: usize = 5;
const DEFAULT_MEMORY: &str = "recompute";

/// What to measure how.
#[derive(Args)]
#[command(mut_arg("model_config", also_config))]
pub struct BenchArgs {
    /// Built-in name (see 'dyweight list models'), file or diffusers folder
    #[arg(long, value_name = "NAME|FILE|DIR", help_heading = "Model")]
    model: Option<String>,
    #[command(flatten, next_help_heading = "Model")]
    options: ModelOptions,
    /// Weights of Inception-v3 to measure instead of a model, on 3x32x32 images
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    inception: Option<PathBuf>,
    /// CLIP's image tower to measure instead of a model: a file, a folder, or random: and vit-b-32, vit-b-16, vit-l-14,
    /// vit-h-14, vit-g-14 or vit-bigg-14, on images of its own size
    #[arg(long, value_name = "FILE|DIR|random:NAME", conflicts_with_all = ["model", "inception"])]
    clip: Option<String>,
    /// Samples per batch [8; 16 for train]
    #[arg(long)]
    batch: Option<usize>,
    /// Threads [all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// A network call, one with the gradient of its input, decoding a sample to an image, or one training iteration
    #[arg(long, value_enum, default_value = "forward")]
    what: BenchSubject,
    /// Runs that are measured [as many as 3 seconds allow, 10 to 200; 3 for train]
    #[arg(long)]
    repeats: Option<usize>,
    /// Runs made before, which are not measured [1; 0 for train]
    #[arg(long, alias = "warmup", value_name = "N")]
    warm_runs: Option<usize>,
    /// Another program, run in turn with this one: a line of JSON with ms_per_image or seconds, by its own clock, or
    /// else the whole process is compared
    #[arg(long, value_name = "COMMAND", help_heading = "Against another program")]
    against: Option<String>,
    /// How often both are run
    #[arg(long, default_value_t = 5, value_name = "N", help_heading = "Against another program")]
    rounds: usize,
    /// Network calls of the student in a training iteration
    #[arg(long, help_heading = "Training iteration", default_value_t = DEFAULT_NFE)]
    nfe: usize,
    /// Network calls of the teacher in a training iteration
    #[arg(long, help_heading = "Training iteration", default_value_t = TEACHER_NFE)]
    teacher_nfe: usize,
    /// What a training iteration keeps of a network call: keep or recompute
    #[arg(long, help_heading = "Training iteration", default_value = DEFAULT_MEMORY, value_name = "keep|recompute")]
    memory: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum BenchSubject {
    Forward,
    Gradient,
    Decode,
    Train,
}

/// Nobody waits for more runs.
const MOST_RUNS: usize = 1_000_000;

/// An error for an option that changes nothing of what is measured.
fn refuse_idle(args: &BenchArgs) -> Result<()> {
    let train = args.what == BenchSubject::Train;
    let of_training = [
        ("nfe", args.nfe != DEFAULT_NFE && !train),
        ("teacher-nfe", args.teacher_nfe != TEACHER_NFE && !train),
        ("memory", args.memory != DEFAULT_MEMORY && !train),
    ];
    option::refuse(&of_training, |option| Error::needs(option, "what = train"))?;
    let options = serde_json::to_value(&args.options).unwrap_or_default();
    let given = options.as_object().and_then(|all| all.iter().find(|(_, value)| !value.is_null()));
    match given.filter(|_| args.model.is_none() && args.against.is_none()) {
        Some((option, _)) => Err(Error::needs(option, "model")),
        None => Ok(()),
    }
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<()> {
    ui::set_threads(args.threads, &Solo)?;
    refuse_idle(args)?;
    let train = args.what == BenchSubject::Train;
    let batch = args.batch.unwrap_or(if train { 16 } else { 8 });
    for (name, count) in [("repeats", args.repeats), ("rounds", Some(args.rounds))] {
        if let Some(count) = count.filter(|count| !(1..=MOST_RUNS).contains(count)) {
            return Err(Error::bad_value(name, count, format!("must lie between 1 and {MOST_RUNS}")));
        }
    }
    if let Some(command) = &args.against {
        return against::run(args, command);
    }
    let started = Instant::now();
    if let Some(path) = &args.inception {
        check_batch(batch, batch, IMAGE)?;
        let map = Inception::open(path, IMAGE, Resize::default())?;
        let loaded = Loaded::since(started);
        return features(args, &map, &Job { name: map.name(), precision: Precision::F32, batch, loaded });
    }
    if let Some(name) = &args.clip {
        let map = ClipFeatures::named(name)?;
        check_batch(batch, batch, map.shape())?;
        let loaded = Loaded::since(started);
        return features(args, &map, &Job { name, precision: Precision::F32, batch, loaded });
    }
    let model = args
        .model
        .as_ref()
        .ok_or_else(|| Error::conflict("which model?", "give --model NAME|FILE, --inception FILE or --clip FILE"))?;
    let spec = args.options.spec(model, None)?;
    if args.what == BenchSubject::Decode {
        return decoding(args, &spec, batch);
    }
    let model = opened(&spec)?;
    check_batch(batch, batch, model.model.shape())?;
    let loaded = Loaded::since(started);
    let noise = Rng::Native.latents(&(0..batch as u64).collect::<Vec<_>>(), model.model.shape())?;
    let classes = model.model.classes();
    let labels = (0..batch).filter(|_| classes > 0).map(|i| i % classes);
    let denoiser = model.model.denoiser(&Condition::classes(labels))?;
    // A wrong word is wrong even where nothing is trained.
    memory(args)?;
    let run = RefCell::new((args.what == BenchSubject::Train).then(|| training(&model, batch, args)).transpose()?);
    let once = || match (args.what, &mut *run.borrow_mut()) {
        (BenchSubject::Train, Some(run)) => run.advance().map(drop),
        (BenchSubject::Gradient, _) => gradient(&*denoiser, &noise),
        _ => call(&*denoiser, &noise),
    };
    measure(args, &Job { name: &model.name, precision: model.precision(), batch, loaded }, &once)
}

/// A feature network on images of its shape.
fn features(args: &BenchArgs, map: &dyn FeatureMap, job: &Job<'_>) -> Result<()> {
    let images = Rng::Native.latents(&(0..job.batch as u64).collect::<Vec<_>>(), map.shape())?;
    let once = || match args.what {
        BenchSubject::Forward => map.features(&images).map(drop),
        BenchSubject::Gradient => map.with_pullback(&images).and_then(|(value, pullback)| pullback(&value)).map(drop),
        BenchSubject::Decode | BenchSubject::Train => Err(Error::conflict(
            "a feature network has no decoder and is not trained against",
            "measure --what forward or gradient",
        )),
    };
    measure(args, job, &once)
}

/// The decoder alone: `sample` lets go of the denoiser before it decodes.
fn decoding(args: &BenchArgs, spec: &ModelSpec, batch: usize) -> Result<()> {
    let started = Instant::now();
    let decoder = spec
        .decoder()?
        .ok_or_else(|| Error::conflict("this model's samples are not decoded", "measure --what forward or gradient"))?;
    check_batch(batch, batch, decoder.latents())?;
    let loaded = Loaded::since(started);
    let latents = Rng::Native.latents(&(0..batch as u64).collect::<Vec<_>>(), decoder.latents())?;
    let job = Job { name: &spec.model, precision: Precision::F32, batch, loaded };
    measure(args, &job, &|| decoder.decode(&latents).map(drop))
}

/// Small images, as the networks of the paper make.
const IMAGE: [usize; 3] = [3, 32, 32];

/// What opening a file took.
struct Loaded {
    seconds: f64,
    bytes: Option<u64>,
}

impl Loaded {
    fn since(started: Instant) -> Self {
        Self { seconds: started.elapsed().as_secs_f64(), bytes: machine::peak_bytes() }
    }
}

/// Something to measure.
struct Job<'j> {
    name: &'j str,
    precision: Precision,
    batch: usize,
    loaded: Loaded,
}

/// Unless it is said how often: at least, at most, and for how many seconds.
const USUAL: (usize, usize, f64) = (10, 200, 3.0);
/// The same of training iterations, which are long.
const DEFAULT_TRAINING: (usize, usize, f64) = (3, 3, 0.0);

fn measure(args: &BenchArgs, job: &Job<'_>, once: &dyn Fn() -> Result<()>) -> Result<()> {
    let train = args.what == BenchSubject::Train;
    // The first call fills caches and packs the weights that gradients need; a training iteration is long enough to pay
    // for that itself.
    let warm_runs = args.warm_runs.unwrap_or(usize::from(!train));
    let (least, most, seconds) = match args.repeats {
        Some(repeats) => (repeats, repeats, 0.0),
        None if train => DEFAULT_TRAINING,
        None => USUAL,
    };
    let mut progress = ui::Progress::new("measuring", warm_runs + least);
    // On a machine that others use, too, the time of all threads together is the steadier of the two.
    let (mut times, mut processor, mut made) = (Spread::default(), None::<f64>, 0);
    while times.count() < least || (times.count() < most && times.total() < seconds) {
        let is_warm = made >= warm_runs;
        let (started, before) = (Instant::now(), machine::processor_seconds());
        once()?;
        made += 1;
        if is_warm {
            times.add(started.elapsed().as_secs_f64());
            if let (Some(before), Some(after)) = (before, machine::processor_seconds()) {
                processor = Some(processor.unwrap_or(f64::INFINITY).min(after - before));
            }
        }
        // Beyond the least number it is the clock that decides.
        if times.count() <= least {
            progress.add(1, "");
        }
        ui::go_on()?;
    }
    progress.finish();
    let mut facts = facts(args, job, &times, warm_runs);
    facts["processor_seconds"] = json!(processor);
    if args.json {
        ui::print_json(&facts);
    } else {
        report(&facts, &times, &job.loaded);
    }
    Ok(())
}

/// Everything about a measurement. `seconds` and `ms_per_image` are of the fastest run, as programs in `benches/peers`
/// print theirs; the rest says how far the others were from it.
fn facts(args: &BenchArgs, job: &Job<'_>, times: &Spread, warm_runs: usize) -> Value {
    json!({
        "model": job.name, "what": name_of(args.what), "batch": job.batch, "threads": rayon::current_num_threads(),
        "instructions": instruction_set(), "precision": job.precision.name(), "seconds": times.fastest(), "ms_per_image": 1e3 * times.fastest() / job.batch as f64,
        "mean_ms_per_image": 1e3 * times.mean() / job.batch as f64, "spread": times.facts(), "warm_runs": warm_runs,
        "load_seconds": job.loaded.seconds, "loaded_bytes": job.loaded.bytes, "peak_bytes": machine::peak_bytes(),
        "machine": machine::described(), "load": machine::load(), "version": env!("CARGO_PKG_VERSION"),
    })
}

fn report(facts: &Value, times: &Spread, loaded: &Loaded) {
    let text = |key: &str| facts[key].as_str().unwrap_or_default();
    let megabytes = |bytes: Option<u64>| bytes.map_or("unknown".into(), |b| format!("{} MB", b >> 20));
    let (batch, threads) = (&facts["batch"], &facts["threads"]);
    let (what, precision) = (text("what"), text("precision"));
    ui::print(&format!("{}, {what} in {precision}, batch {batch} on {threads} threads", text("model")));
    let per_image = facts["mean_ms_per_image"].as_f64().unwrap_or(f64::NAN);
    spread_lines(times).iter().for_each(|line| ui::print(line));
    ui::print(&format!("  per image          {per_image:.2} ms"));
    let (peak, opened) = (megabytes(facts["peak_bytes"].as_u64()), ui::duration(loaded.seconds));
    ui::print(&format!("  memory             {peak} at most; opened in {opened} with {}", megabytes(loaded.bytes)));
    ui::print(&format!("  machine            {}", text("machine")));
    ui::print(&format!("  program            dyweight {}", text("version")));
    warn_of(times);
}

/// Mean and spread, the range, the count.
fn spread_lines(times: &Spread) -> [String; 2] {
    let [mean, deviation, least, most] = [times.mean(), times.deviation(), times.fastest(), times.slowest()].map(short);
    let runs = if times.count() == 1 { "1 run".into() } else { format!("{} runs", times.count()) };
    [
        format!("  time (mean ± σ)    {mean} ± {deviation}"),
        format!("  range (min … max)  {least} … {most}   {runs}, median {}", short(times.median())),
    ]
}

/// Seconds with three digits or so.
fn short(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", 1e6 * s),
        s if s < 1.0 => format!("{:.2} ms", 1e3 * s),
        s => format!("{s:.3} s"),
    }
}

/// Says what makes the numbers doubtful.
fn warn_of(times: &Spread) {
    let (outliers, count) = (times.outliers(), times.count());
    if outliers > 0 {
        ui::warn(&format!(
            "{outliers} of {count} runs were outliers: something else was going on; the median is the safer number"
        ));
    }
    if count < 3 {
        ui::warn("of fewer than three runs nobody knows the spread: raise --repeats");
    }
    let cores = machine::cores() as f64;
    if let Some(load) = machine::load().filter(|load| *load > cores + 0.5) {
        ui::warn(&format!("the machine is busy: {load:.1} programs want its {cores} cores"));
    }
}

fn name_of(what: BenchSubject) -> String {
    what.to_possible_value().map_or(String::new(), |v| v.get_name().to_string())
}

/// A level in the middle of a run.
const LEVEL: f64 = 1.0;

fn call(model: &dyn Differentiable, x: &Tensor) -> Result<()> {
    model.predict(x, &Levels::One(LEVEL)).map(drop)
}

fn gradient(model: &dyn Differentiable, x: &Tensor) -> Result<()> {
    let (value, pullback) = model.with_pullback(x, &Levels::One(LEVEL))?;
    pullback(&value).map(drop)
}

fn memory(args: &BenchArgs) -> Result<Memory> {
    named("memory policy", &args.memory, &[("keep", Memory::Keep), ("recompute", Memory::Recompute)])
}

/// Iterations of learning DyWeight's coefficients, as `train` makes them: teacher without, student with gradient.
fn training(model: &LoadedModel, batch: usize, args: &BenchArgs) -> Result<Training> {
    check_steps("teacher-nfe", args.teacher_nfe)?;
    let spec = TrainSpec {
        batch: Some(batch),
        iters: Some(100_000_000),
        memory: Some(memory(args)?),
        plain: Some(true),
        afs: Some(false),
        teacher_nfe: Some(args.teacher_nfe),
        ..TrainSpec::default()
    };
    let budget = Budget::Nfe(args.nfe);
    let trainer = TrainConfig::new(model.model.clone(), model.identity(), budget, spec, Loss::L2).prepare()?;
    trainer.begin(&trainer.dataset()?)
}
