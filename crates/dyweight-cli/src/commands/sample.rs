//! `dyweight sample`.

use crate::args::{BudgetArgs, ModelArgs, ScheduleArgs, SolverArgs, unknown};
use crate::ui;
use clap::Args;
use dyweight::checkpoint::{SolverFile, StoredTensor, TensorFile};
use dyweight::denoiser::{Condition, Prediction};
use dyweight::noise::Rng;
use dyweight::sample::{Outcome, Plan, State, sample};
use dyweight::schedule::Grid;
use dyweight::solver::Solver;
use dyweight::spec::budget::Setting;
use dyweight::spec::{Budget, Learned, LoadedModel, Seeds};
use dyweight::{Error, Result, Tensor};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Everything `sample` can be told.
#[derive(Args)]
pub struct SampleArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    solver: SolverArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Learned coefficients: a solver file, preset:NAME, or a safetensors file with 'weights'
    #[arg(long, value_name = "FILE|preset:NAME")]
    weights: Option<String>,
    /// Refuse coefficients learned for another model, schedule or guidance
    #[arg(long)]
    strict: bool,
    /// Answer the first evaluation analytically, saving one call
    #[arg(long)]
    afs: bool,
    /// Replace the result by its denoised prediction, costing one call
    #[arg(long, alias = "denoise_to_zero")]
    denoise_to_zero: bool,
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Seeds, one sample each: 0-63 or 1,2,5-9
    #[arg(long, default_value = "0-15", conflicts_with = "latents", help_heading = "Samples")]
    seeds: String,
    /// Noise stream of a seed: native or torch (PyTorch's CPU generator)
    #[arg(long, default_value = "native", value_name = "native|torch", help_heading = "Samples")]
    rng: String,
    /// Unit noise from the tensor 'latents' [n,c,h,w] of a safetensors file
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    latents: Option<PathBuf>,
    /// Samples per batch; changes nothing but speed and memory
    #[arg(long, help_heading = "Samples")]
    batch: Option<usize>,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long, help_heading = "Samples")]
    threads: Option<usize>,
    /// Directory for the samples and their picture
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    outdir: Option<PathBuf>,
    /// Safetensors file for all states
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    trajectory: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the command.
pub fn run(args: &SampleArgs) -> Result<()> {
    ui::set_threads(args.threads)?;
    let noise = Noise::open(args)?;
    let model = args.model.spec(noise.sample_shape())?.build()?;
    let learned = args.weights.as_deref().map(Learned::open).transpose()?;
    let solver = solver(args, learned.as_ref(), model.model.prediction())?;
    let setup = Setup::new(args, &model, &*solver, learned.as_ref())?;
    let mut output = Output::open(args, &model, noise.len(), &setup)?;
    let started = Instant::now();
    let nfe = setup.sample_all(args, &model, &noise, &mut output)?;
    let seconds = started.elapsed().as_secs_f64();
    let files = output.finish(&model, &setup, nfe)?;
    report(args, &setup, &Done { model: &model.name, samples: noise.len(), nfe, seconds, files });
    Ok(())
}

fn solver(args: &SampleArgs, learned: Option<&Learned>, prediction: Prediction) -> Result<Box<dyn Solver>> {
    let name = args.solver.solver.as_deref().unwrap_or(if learned.is_some() { "dyweight" } else { "ipndm" });
    let spec = args.solver.spec(name)?;
    match learned {
        Some(learned) if name == "dyweight" => {
            if let Some(order) = args.solver.order {
                let expected = "the window is a property of the weights".into();
                return Err(Error::BadValue { name: "order", value: order.to_string(), expected });
            }
            Ok(Box::new(learned.solver()?))
        }
        Some(_) => Err(Error::Conflict {
            problem: format!("weights belong to the solver dyweight, not to {name}"),
            hint: "leave --weights out, or use --solver dyweight".into(),
        }),
        None => spec.build(prediction),
    }
}

/// Where the unit noise comes from.
enum Noise {
    Seeds { seeds: Vec<u64>, rng: Rng },
    Given(Tensor),
}

impl Noise {
    fn open(args: &SampleArgs) -> Result<Self> {
        let rng = match args.rng.as_str() {
            "native" => Rng::Native,
            "torch" => Rng::Torch,
            other => return Err(unknown("noise stream", other, &["native", "torch"])),
        };
        match &args.latents {
            Some(path) => Ok(Noise::Given(read_batch(path, "latents")?)),
            None => Ok(Noise::Seeds { seeds: Seeds::parse(&args.seeds)?.iter().collect(), rng }),
        }
    }

    fn len(&self) -> usize {
        match self {
            Noise::Seeds { seeds, .. } => seeds.len(),
            Noise::Given(latents) => latents.samples(),
        }
    }

    fn sample_shape(&self) -> Option<[usize; 3]> {
        match self {
            Noise::Seeds { .. } => None,
            Noise::Given(latents) => {
                let [_, c, h, w] = latents.shape();
                Some([c, h, w])
            }
        }
    }

    fn batch(&self, range: std::ops::Range<usize>, shape: [usize; 3]) -> Result<Tensor> {
        match self {
            Noise::Seeds { seeds, rng } => rng.latents(&seeds[range], shape),
            Noise::Given(latents) => Ok(latents.slice(range)),
        }
    }
}

/// A `[n, c, h, w]` batch of finite numbers from a file.
fn read_batch(path: &Path, name: &str) -> Result<Tensor> {
    let file = TensorFile::read(path)?;
    let tensor = file.tensor(name).map_err(|p| Error::malformed(path, p))?;
    let what = format!("tensor '{name}' in {}", path.display());
    let Ok(shape) = <[usize; 4]>::try_from(tensor.shape()) else {
        return Err(Error::Shape { what, expected: vec![1, 1, 1, 1], found: tensor.shape().to_vec() });
    };
    if shape.contains(&0) {
        return Err(Error::Shape { what, expected: vec![1, 1, 1, 1], found: shape.to_vec() });
    }
    let batch = Tensor::new(shape, tensor.to_f64())?;
    batch.require_finite(&what)?;
    Ok(batch)
}

/// Everything decided before the first network call.
struct Setup<'s> {
    solver: &'s dyn Solver,
    grid: Grid,
    afs: bool,
    denoise_to_zero: bool,
}

impl<'s> Setup<'s> {
    fn new(args: &SampleArgs, model: &LoadedModel, solver: &'s dyn Solver, learned: Option<&Learned>) -> Result<Self> {
        let file = learned.and_then(|l| l.file.as_ref());
        let afs = args.afs || file.is_some_and(|f| f.afs);
        let (schedule, range) = match file {
            // What the command line does not say is as it was learned.
            Some(file) if args.schedule.is_default() => (file.schedule.clone(), (file.sigma_min, file.sigma_max)),
            _ => {
                let spec = args.schedule.spec();
                let schedule = spec.build(model.model.prediction())?;
                let range = spec.range(&schedule, model.model.sigma_range());
                (schedule, range)
            }
        };
        let budget = match (args.budget.budget(), learned) {
            (None, Some(learned)) => Budget::Steps(learned.steps()),
            (Some(Budget::Nfe(_)), Some(learned)) => Budget::Steps(learned.steps()),
            (Some(budget), _) => budget,
            (None, None) => match schedule.fixed_steps() {
                Some(steps) => Budget::Steps(steps),
                None => return Err(no_budget()),
            },
        };
        let prediction = model.model.prediction();
        let denoise_to_zero = args.denoise_to_zero;
        let setting = Setting { solver, schedule: &schedule, range, afs, denoise_to_zero, prediction, calls: 1 };
        let grid = setting.grid(budget)?;
        let made = setting.count(&grid)?;
        if let Some(wanted) = args.budget.nfe.filter(|n| *n != made) {
            return Err(Error::NoSuchBudget { solver: solver.label(), nfe: wanted, near: vec![made] });
        }
        if let Some(file) = file {
            check_fit(args.strict, file, model, &grid)?;
        }
        Ok(Self { solver, grid, afs, denoise_to_zero })
    }

    fn plan(&self) -> Plan<'_> {
        Plan::new(self.solver, &self.grid).afs(self.afs).denoise_to_zero(self.denoise_to_zero)
    }

    fn states(&self) -> usize {
        self.grid.steps() + 1 + usize::from(self.denoise_to_zero)
    }

    /// Samples batch by batch; returns the calls each sample cost.
    fn sample_all(&self, args: &SampleArgs, model: &LoadedModel, noise: &Noise, output: &mut Output) -> Result<usize> {
        let batch = args.batch.unwrap_or(DEFAULT_BATCH);
        if batch == 0 {
            let expected = "at least one sample per batch".into();
            return Err(Error::BadValue { name: "batch", value: "0".into(), expected });
        }
        let mut progress = ui::Progress::new("sampling", noise.len());
        let mut nfe = 0;
        for start in (0..noise.len()).step_by(batch) {
            let range = start..(start + batch).min(noise.len());
            let latents = noise.batch(range.clone(), model.model.shape())?;
            let denoiser = model.model.bind(&Condition::default())?;
            let outcome = self.sample_batch(&*denoiser, &latents, start, output)?;
            nfe = outcome.nfe;
            output.take(start, &outcome.samples);
            progress.add(range.len(), "");
        }
        progress.finish();
        Ok(nfe)
    }

    fn sample_batch(
        &self,
        denoiser: &dyn dyweight::denoiser::Denoiser,
        latents: &Tensor,
        start: usize,
        output: &mut Output,
    ) -> Result<Outcome> {
        let mut observer = |state: &State<'_>| {
            output.see(start, state);
            if ui::stop_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        sample(denoiser, &self.plan(), latents, &mut observer)
    }
}

const DEFAULT_BATCH: usize = 64;

fn no_budget() -> Error {
    Error::Conflict {
        problem: "how many steps?".into(),
        hint: "give --nfe (network calls) or --steps (intervals of the grid)".into(),
    }
}

/// Coefficients used on something they were not learned for.
fn check_fit(strict: bool, file: &SolverFile, model: &LoadedModel, grid: &Grid) -> Result<()> {
    let mut found = file.warnings();
    let learned_for = &file.model;
    match &learned_for.sha256 {
        Some(sha) if *sha != model.sha256 => {
            found.push(format!(
                "the solver was learned for '{}', whose weights are not those of '{}'",
                learned_for.name, model.name
            ));
        }
        None if learned_for.name != model.name => {
            found.push(format!("the solver was learned for '{}', not for '{}'", learned_for.name, model.name));
        }
        _ => {}
    }
    if file.prediction != model.model.prediction() {
        found.push("the solver was learned for another kind of prediction".into());
    }
    if file.grid().is_ok_and(|learned| learned != *grid) {
        found.push("the grid is not the one the solver was learned on".into());
    }
    if let (true, Some(first)) = (strict, found.first()) {
        return Err(Error::Conflict {
            problem: format!("--strict: {first}"),
            hint: "leave --strict out to sample all the same".into(),
        });
    }
    found.iter().for_each(|w| ui::warn(w));
    Ok(())
}

/// What is kept of the run, and where it goes.
struct Output {
    outdir: Option<PathBuf>,
    trajectory: Option<PathBuf>,
    /// All states, `[states, n, …]`, while anyone wants them.
    states: Vec<f64>,
    samples: Vec<f64>,
    shape: [usize; 4],
}

/// States are kept in memory until they are written.
const MOST_TRAJECTORY_NUMBERS: usize = 1 << 29;

impl Output {
    /// Refuses what could not be written before anything is computed.
    fn open(args: &SampleArgs, model: &LoadedModel, samples: usize, setup: &Setup<'_>) -> Result<Self> {
        let [c, h, w] = model.model.shape();
        let shape = [samples, c, h, w];
        let numbers = shape.iter().product::<usize>();
        let drawn = args.outdir.is_some() && model.model.shape() == PLANE;
        let all_states = numbers * setup.states();
        if args.trajectory.is_some() && all_states > MOST_TRAJECTORY_NUMBERS {
            let expected = format!("{all_states} numbers are more than {MOST_TRAJECTORY_NUMBERS}; use fewer seeds");
            return Err(Error::BadValue { name: "trajectory", value: samples.to_string() + " samples", expected });
        }
        if let Some(dir) = &args.outdir {
            std::fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, e))?;
        }
        for path in args.trajectory.iter() {
            TensorFile::default().write(path)?;
            std::fs::remove_file(path).map_err(|e| Error::io("write", path, e))?;
        }
        let keep = args.trajectory.is_some() || drawn;
        Ok(Self {
            outdir: args.outdir.clone(),
            trajectory: args.trajectory.clone(),
            states: if keep { vec![0.0; all_states] } else { Vec::new() },
            samples: vec![0.0; numbers],
            shape,
        })
    }

    fn see(&mut self, start: usize, state: &State<'_>) {
        if self.states.is_empty() {
            return;
        }
        let per_sample: usize = self.shape[1..].iter().product();
        let at = (state.index * self.shape[0] + start) * per_sample;
        let data = state.x.tensor().data();
        self.states[at..at + data.len()].copy_from_slice(data);
    }

    fn take(&mut self, start: usize, samples: &Tensor) {
        let at = start * samples.sample_len();
        self.samples[at..at + samples.data().len()].copy_from_slice(samples.data());
    }

    /// Writes what was asked for; returns the files.
    fn finish(self, model: &LoadedModel, setup: &Setup<'_>, nfe: usize) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        if let Some(path) = &self.trajectory {
            let shape = [&[setup.states()][..], &self.shape].concat();
            let mut file = TensorFile::default();
            file.metadata.insert("nfe".into(), nfe.to_string());
            file.metadata.insert("solver".into(), setup.solver.label());
            insert(&mut file, path, "trajectory", &shape, &self.states)?;
            insert(&mut file, path, "sigmas", &[setup.grid.sigmas().len()], setup.grid.sigmas())?;
            file.write(path)?;
            files.push(path.clone());
        }
        if let Some(dir) = &self.outdir {
            let path = dir.join("samples.safetensors");
            let mut file = TensorFile::default();
            file.metadata.insert("nfe".into(), nfe.to_string());
            file.metadata.insert("model".into(), model.name.clone());
            file.metadata.insert("solver".into(), setup.solver.label());
            insert(&mut file, &path, "samples", &self.shape, &self.samples)?;
            file.write(&path)?;
            files.push(path);
        }
        Ok(files)
    }
}

/// Samples that can be drawn as points.
const PLANE: [usize; 3] = [2, 1, 1];

fn insert(file: &mut TensorFile, path: &Path, name: &str, shape: &[usize], values: &[f64]) -> Result<()> {
    let tensor = StoredTensor::from_f64(shape, values).map_err(|p| Error::malformed(path, p))?;
    file.tensors.insert(name.into(), tensor);
    Ok(())
}

struct Done<'d> {
    model: &'d str,
    samples: usize,
    nfe: usize,
    seconds: f64,
    files: Vec<PathBuf>,
}

fn report(args: &SampleArgs, setup: &Setup<'_>, done: &Done<'_>) {
    let rate = done.samples as f64 / done.seconds.max(1e-9);
    if args.json {
        ui::print_json(&json!({
            "model": done.model, "solver": setup.solver.label(), "samples": done.samples, "nfe": done.nfe,
            "steps": setup.grid.steps(), "sigmas": setup.grid.sigmas(), "afs": setup.afs,
            "denoise_to_zero": setup.denoise_to_zero, "seconds": done.seconds, "files": done.files,
        }));
        return;
    }
    eprintln!(
        "{} samples of {} with {}: {} network calls each, {} steps, {} ({rate:.0}/s)",
        done.samples,
        done.model,
        setup.solver.label(),
        done.nfe,
        setup.grid.steps(),
        ui::duration(done.seconds)
    );
    done.files.iter().for_each(|f| ui::print(&f.display().to_string()));
}
