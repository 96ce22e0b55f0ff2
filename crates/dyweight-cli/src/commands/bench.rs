//! `dyweight bench`: what a model costs on this machine.

use crate::args::{ModelArgs, check_batch, unknown};
use crate::ui;
use clap::{Args, ValueEnum};
use dyweight::denoiser::{Condition, Differentiable, Levels, Model};
use dyweight::features::FeatureMap;
use dyweight::models::inception::{Inception, Resize};
use dyweight::models::{LoadedModel, instruction_set};
use dyweight::noise::Rng;
use dyweight::spec::Budget;
use dyweight::spec::budget::check_steps;
use dyweight::trail::Memory;
use dyweight::train::comm::Solo;
use dyweight::train::{Course, Loss, TrainSpec, Training};
use dyweight::{Error, Result, Tensor};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

/// What to measure how.
#[derive(Args)]
pub struct BenchArgs {
    #[command(flatten)]
    model: Option<ModelArgs>,
    /// Weights of Inception-v3 to measure instead of a model, on 3x32x32 images
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    inception: Option<PathBuf>,
    /// Samples per batch [8; 16 for train]
    #[arg(long)]
    batch: Option<usize>,
    /// Threads [all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// A network call, one with the gradient of its input, decoding a sample to an image, or one training iteration
    #[arg(long, value_enum, default_value = "forward")]
    what: BenchSubject,
    /// Measurements, of which the best counts [5; 1 for train]
    #[arg(long)]
    repeats: Option<usize>,
    /// Network calls of the student in a training iteration
    #[arg(long, default_value_t = 5)]
    nfe: usize,
    /// Network calls of the teacher in a training iteration
    #[arg(long, default_value_t = 35)]
    teacher_nfe: usize,
    /// What a training iteration keeps of a network call: keep or recompute
    #[arg(long, default_value = "recompute", value_name = "keep|recompute")]
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

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<()> {
    ui::set_threads(args.threads, &Solo)?;
    let train = args.what == BenchSubject::Train;
    let batch = args.batch.unwrap_or(if train { 16 } else { 8 });
    let repeats = args.repeats.unwrap_or(if train { 1 } else { 5 });
    if repeats == 0 {
        return Err(Error::BadValue { name: "repeats", value: "0".into(), expected: "at least 1".into() });
    }
    let started = Instant::now();
    if let Some(path) = &args.inception {
        check_batch(batch, batch, IMAGE)?;
        let map = Inception::open(path, IMAGE, Resize::default())?;
        let loaded = Loaded::since(started);
        let images = Rng::Native.latents(&(0..batch as u64).collect::<Vec<_>>(), IMAGE)?;
        let once = || match args.what {
            BenchSubject::Forward => map.features(&images).map(drop),
            BenchSubject::Gradient => {
                map.with_pullback(&images).and_then(|(value, pullback)| pullback(&value)).map(drop)
            }
            BenchSubject::Decode | BenchSubject::Train => Err(Error::Conflict {
                problem: "a feature network has no decoder and is not trained against".into(),
                hint: "measure --what forward or gradient".into(),
            }),
        };
        return measure(args, &Job { name: map.name(), batch, repeats, loaded }, &once);
    }
    let model = args.model.as_ref().ok_or_else(|| Error::Conflict {
        problem: "which model?".into(),
        hint: "give --model NAME|FILE, or --inception FILE".into(),
    })?;
    let model = model.spec(None)?.build()?;
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
        (BenchSubject::Decode, _) => decode(&*model.model, &noise),
        _ => call(&*denoiser, &noise),
    };
    measure(args, &Job { name: &model.name, batch, repeats, loaded }, &once)
}

fn decode(model: &dyn Model, noise: &Tensor) -> Result<()> {
    let decoder = model.decoder().ok_or_else(|| Error::Conflict {
        problem: "this model's samples are not decoded".into(),
        hint: "measure --what forward or gradient".into(),
    })?;
    decoder.decode(noise).map(drop)
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
        Self { seconds: started.elapsed().as_secs_f64(), bytes: peak_bytes() }
    }
}

/// Something to measure.
struct Job<'j> {
    name: &'j str,
    batch: usize,
    repeats: usize,
    loaded: Loaded,
}

fn measure(args: &BenchArgs, job: &Job<'_>, once: &dyn Fn() -> Result<()>) -> Result<()> {
    let Job { name, batch, repeats, ref loaded } = *job;
    // The first call fills caches and packs the weights that gradients need; a training iteration is long enough to pay
    // for that itself.
    if args.what != BenchSubject::Train {
        once()?;
    }
    let (seconds, processor) = best_of(repeats, once)?;
    report(
        args,
        &json!({
            "model": name, "what": name_of(args.what), "batch": batch, "threads": rayon::current_num_threads(),
            "instructions": instruction_set(), "seconds": seconds, "ms_per_image": 1e3 * seconds / batch as f64,
            "processor_seconds": processor,
            "load_seconds": loaded.seconds, "loaded_bytes": loaded.bytes, "peak_bytes": peak_bytes(), "repeats": repeats,
        }),
    );
    Ok(())
}

fn report(args: &BenchArgs, facts: &Value) {
    if args.json {
        return ui::print_json(facts);
    }
    let text = |key: &str| facts[key].as_str().unwrap_or_default().to_string();
    let number = |key: &str| facts[key].as_f64().unwrap_or(f64::NAN);
    let megabytes = |key: &str| facts[key].as_u64().map_or("unknown".into(), |b| format!("{} MB", b >> 20));
    ui::print(&format!(
        "{} {}, batch {}, {} threads, {}: {:.2} ms per image ({}); peak memory {}; loaded in {} with {}",
        text("model"),
        text("what"),
        facts["batch"],
        facts["threads"],
        text("instructions"),
        number("ms_per_image"),
        ui::duration(number("seconds")),
        megabytes("peak_bytes"),
        ui::duration(number("load_seconds")),
        megabytes("loaded_bytes"),
    ));
}

fn name_of(what: BenchSubject) -> String {
    what.to_possible_value().map_or(String::new(), |v| v.get_name().to_string())
}

/// The least time by the clock, and the least of all threads together where the system says: on a machine that others use, too, that
/// is the steadier of the two.
fn best_of(repeats: usize, once: &dyn Fn() -> Result<()>) -> Result<(f64, Option<f64>)> {
    let (mut best, mut processor) = (f64::INFINITY, None::<f64>);
    for _ in 0..repeats {
        let (started, before) = (Instant::now(), processor_seconds());
        once()?;
        best = best.min(started.elapsed().as_secs_f64());
        if let (Some(before), Some(after)) = (before, processor_seconds()) {
            processor = Some(processor.unwrap_or(f64::INFINITY).min(after - before));
        }
        if ui::stop_requested() {
            return Err(Error::Cancelled);
        }
    }
    Ok((best, processor))
}

/// Processor time the process has used, where the system says (Linux): to a hundredth of a second.
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything, user and system time are the 12th and 13th field.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
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
    match args.memory.as_str() {
        "keep" => Ok(Memory::Keep),
        "recompute" => Ok(Memory::Recompute),
        other => Err(unknown("memory policy", other, &["keep", "recompute"])),
    }
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
    let prepared = Course::new(model.model.clone(), model.identity(), budget, spec, Loss::L2).prepare()?;
    prepared.begin(&prepared.pairing()?)
}

/// The most memory the process has had at once, where the system says (Linux).
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
