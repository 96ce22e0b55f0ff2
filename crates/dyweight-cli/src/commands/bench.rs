//! `dyweight bench`: what a model costs on this machine.

use crate::args::{ModelArgs, unknown};
use crate::ui;
use clap::{Args, ValueEnum};
use dyweight::coeff::Coeff;
use dyweight::comm::Solo;
use dyweight::denoiser::{Condition, Differentiable, Levels};
use dyweight::models::features::FeatureMap;
use dyweight::models::inception::{Inception, Resize};
use dyweight::models::instruction_set;
use dyweight::noise::Rng;
use dyweight::path::{Memory, Path, Seed};
use dyweight::sample::{Plan, integrate, sample};
use dyweight::schedule::Grid;
use dyweight::solver::{DyWeight, Initial, Ipndm};
use dyweight::spec::ScheduleSpec;
use dyweight::{Error, Result, Tensor};
use serde_json::{Value, json};
use std::ops::ControlFlow;
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
    /// A network call, one with the gradient of its input, or one training iteration
    #[arg(long, value_enum, default_value = "forward")]
    what: What,
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
enum What {
    Forward,
    Gradient,
    Train,
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<()> {
    ui::set_threads(args.threads, &Solo)?;
    let train = args.what == What::Train;
    let batch = positive("batch", args.batch.unwrap_or(if train { 16 } else { 8 }))?;
    let repeats = positive("repeats", args.repeats.unwrap_or(if train { 1 } else { 5 }))?;
    let started = Instant::now();
    if let Some(path) = &args.inception {
        let map = Inception::open(path, IMAGE, Resize::default())?;
        let loaded = Loaded::since(started);
        let images = Rng::Native.latents(&(0..batch as u64).collect::<Vec<_>>(), IMAGE)?;
        let once = || match args.what {
            What::Forward => map.features(&images).map(drop),
            What::Gradient => map.with_pullback(&images).and_then(|(value, pullback)| pullback(&value)).map(drop),
            What::Train => Err(Error::Conflict {
                problem: "a feature network is not trained against".into(),
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
    let loaded = Loaded::since(started);
    let noise = Rng::Native.latents(&(0..batch as u64).collect::<Vec<_>>(), model.model.shape())?;
    let classes = model.model.classes();
    let labels = (classes > 0).then(|| (0..batch).map(|i| i % classes).collect());
    let denoiser = model.model.bind(&Condition { labels, guidance: None })?;
    let iteration = Iteration::new(&*denoiser, args)?;
    let once = || match args.what {
        What::Forward => call(&*denoiser, &noise),
        What::Gradient => gradient(&*denoiser, &noise),
        What::Train => iteration.run(&noise),
    };
    measure(args, &Job { name: &model.name, batch, repeats, loaded }, &once)
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
    if args.what != What::Train {
        once()?;
    }
    let seconds = best_of(repeats, once)?;
    report(
        args,
        &json!({
            "model": name, "what": name_of(args.what), "batch": batch, "threads": rayon::current_num_threads(),
            "instructions": instruction_set(), "seconds": seconds, "ms_per_image": 1e3 * seconds / batch as f64,
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

fn name_of(what: What) -> String {
    what.to_possible_value().map_or(String::new(), |v| v.get_name().to_string())
}

fn positive(name: &'static str, value: usize) -> Result<usize> {
    if value > 0 { Ok(value) } else { Err(Error::BadValue { name, value: "0".into(), expected: "at least 1".into() }) }
}

fn best_of(repeats: usize, once: &dyn Fn() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..repeats {
        let started = Instant::now();
        once()?;
        best = best.min(started.elapsed().as_secs_f64());
        if ui::stop_requested() {
            return Err(Error::Cancelled);
        }
    }
    Ok(best)
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

/// One iteration of learning DyWeight's coefficients: teacher without, student with gradient, squared error of the ends.
struct Iteration<'m> {
    model: &'m dyn Differentiable,
    memory: Memory,
    teacher: Grid,
    student: Grid,
}

/// Slopes a student's step combines.
const WINDOW: usize = 3;

impl<'m> Iteration<'m> {
    fn new(model: &'m dyn Differentiable, args: &BenchArgs) -> Result<Self> {
        let memory = match args.memory.as_str() {
            "keep" => Memory::Keep,
            "recompute" => Memory::Recompute,
            other => return Err(unknown("memory policy", other, &["keep", "recompute"])),
        };
        let schedule = ScheduleSpec::default().build(model.prediction())?;
        let grid = |name, steps| schedule.grid(positive(name, steps)?, model.sigma_range());
        let (teacher, student) = (grid("teacher-nfe", args.teacher_nfe)?, grid("nfe", args.nfe)?);
        Ok(Self { model, memory, teacher, student })
    }

    fn run(&self, noise: &Tensor) -> Result<()> {
        let teacher = Ipndm::new(4)?;
        let target =
            sample(self.model, &Plan::new(&teacher, &self.teacher), noise, &mut |_| ControlFlow::Continue(()))?;
        let rows = Initial::Ab.rows(self.student.steps(), WINDOW);
        let mut parameters = 0;
        let mut parameter = |value: f64| {
            parameters += 1;
            Coeff::parameter(value, parameters - 1)
        };
        let weights = rows.iter().map(|row| row.iter().map(|w| parameter(*w)).collect()).collect();
        let scales = rows.iter().map(|_| parameter(1.0)).collect();
        let student = DyWeight::new(weights, scales)?;
        let plan = Plan::new(&student, &self.student);
        let mut path = Path::recording(self.model, self.memory);
        let end = integrate(&mut path, &plan, noise.clone(), &mut |_| ControlFlow::Continue(()))?;
        let mut cotangent = end.tensor().clone();
        cotangent.data_mut().iter_mut().zip(target.samples.data()).for_each(|(x, t)| *x = 2.0 * (*x - t));
        path.gradients(vec![Seed { sample: end, cotangent }], parameters).map(drop)
    }
}

/// The most memory the process has had at once, where the system says (Linux).
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
