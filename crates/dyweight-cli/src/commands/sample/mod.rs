//! `dyweight sample`, and the drawing of samples that other commands share.

mod draw;
mod inputs;
mod output;
mod setup;

pub use setup::{Drawn, Setup};

use crate::args::{BudgetArgs, Conditions, ModelArgs, Picked, SolverArgs};
use crate::dry_run::Forecast;
use crate::files::text;
use crate::ui;
use clap::Args;
use dyweight::comm::Comm;
use dyweight::error::{counted, number, shown};
use dyweight::files::NamedPath;
use dyweight::spec::ScheduleSpec;
use dyweight::{Result, Tensor};
use output::Output;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Everything `sample` can be told.
#[derive(Args)]
pub struct SampleArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    draw: DrawArgs,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long, help_heading = "Samples")]
    threads: Option<usize>,
    /// Directory for the samples; a run that was interrupted there is continued [samples, or samples-2, …]
    #[arg(long = "out", alias = "outdir", value_name = "DIR", help_heading = "Output")]
    outdir: Option<PathBuf>,
    /// Say what would be done, how many calls and how long it takes; do nothing
    #[arg(long, help_heading = "Output")]
    dry_run: bool,
    /// Also write the images as one contact sheet, grid.png, with the names of their classes
    #[arg(long, help_heading = "Output")]
    grid: bool,
    /// Make the directory's samples anew with these settings
    #[arg(long, help_heading = "Output")]
    overwrite: bool,
    /// Safetensors file for all states
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    trajectory: Option<PathBuf>,
    /// Safetensors file for the latents ('latents' [n,c,h,w]) of a latent diffusion model, before they are decoded
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    latent_out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

const DEFAULT_SEEDS: &str = "0-15";
const DEFAULT_RNG: &str = "native";

/// How samples of a model are drawn.
#[derive(Args)]
pub struct DrawArgs {
    #[command(flatten)]
    solver: SolverArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Learned coefficients: a solver file, preset:NAME, or a safetensors file with a method's numbers
    #[arg(long, value_name = "FILE|PRESET")]
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
    /// What to show
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["prompts", "class"], help_heading = "Conditions")]
    prompt: Option<String>,
    #[command(flatten)]
    asked: Picked<Conditions>,
    #[command(flatten)]
    schedule: ScheduleSpec,
    /// Seeds, one sample each: 0-63 or 1,2,5-9
    #[arg(long, default_value = DEFAULT_SEEDS, conflicts_with = "latents", help_heading = "Samples")]
    seeds: String,
    /// Noise stream of a seed: native or torch (PyTorch's CPU generator)
    #[arg(long, default_value = DEFAULT_RNG, value_name = "native|torch", help_heading = "Samples")]
    rng: String,
    /// Unit noise from the tensor 'latents' [n,c,h,w] of a safetensors file
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    latents: Option<PathBuf>,
    /// Samples per batch; changes nothing but speed and memory
    #[arg(long, help_heading = "Samples")]
    pub batch: Option<usize>,
}

impl DrawArgs {
    /// The first option that was given, but for the number of a batch.
    pub fn given(&self) -> Option<String> {
        let Self { solver, budget, asked, schedule, .. } = self;
        let key = |options: serde_json::Value| {
            options.as_object()?.iter().find(|(_, value)| !value.is_null()).map(|(key, _)| key.clone())
        };
        let words = [
            ("solver", solver.solver.is_some()),
            ("nfe", budget.nfe.is_some()),
            ("steps", budget.steps.is_some()),
            ("weights", self.weights.is_some()),
            ("strict", self.strict),
            ("afs", self.afs),
            ("denoise-to-zero", self.denoise_to_zero),
            ("prompt", self.prompt.is_some()),
            ("seeds", self.seeds != DEFAULT_SEEDS),
            ("rng", self.rng != DEFAULT_RNG),
            ("latents", self.latents.is_some()),
        ];
        let word = words.into_iter().find(|(_, given)| *given).map(|(option, _)| option.to_string());
        let of_solver = || solver.given().first().and_then(|text| text.split(' ').next().map(String::from));
        word.or_else(of_solver)
            .or_else(|| key(serde_json::to_value(&asked.train).unwrap_or_default()))
            .or_else(|| key(serde_json::to_value(schedule).unwrap_or_default()))
    }

    /// The files that are read, beside the model's.
    pub fn files(&self) -> Vec<NamedPath<'_>> {
        let latents = self.latents.as_deref().map(|path| ("--latents", path));
        let weights = self.weights.as_deref().map(|name| ("--weights", Path::new(name)));
        let prompts = self.asked.train.prompts.as_deref().map(|path| ("--prompts", path));
        latents.into_iter().chain(weights).chain(prompts).collect()
    }
}

/// Runs the command.
pub fn run(args: &SampleArgs, comm: &dyn Comm) -> Result<()> {
    ui::set_threads(args.threads, comm)?;
    output::prepare(args)?;
    let setup = Setup::open(&args.model, &args.draw)?;
    ui::detail(|| {
        format!("levels: {}", setup.sampler.sigmas().iter().map(|s| number(*s)).collect::<Vec<_>>().join(" "))
    });
    if args.dry_run {
        return if comm.is_root() { dry_run(args, &setup) } else { Ok(()) };
    }
    // One process has the output; it says what is to be done.
    let mut output = if comm.is_root() { Some(Output::open(args, &setup)?) } else { None };
    let started = Instant::now();
    let to_do = || Ok(output.as_mut().map_or((Vec::new(), false), |o| (o.missing(), o.keeps_states())));
    let (missing, keeps_states): (Vec<usize>, bool) = comm.broadcast(to_do)?;
    if missing.len() < setup.samples() {
        ui::say(&format!("{} of {} samples are there already", setup.samples() - missing.len(), setup.samples()));
    }
    let mut take = |indices: &[usize], states: &[Tensor]| output.as_mut().map_or(Ok(()), |o| o.take(indices, states));
    setup.draw(&missing, keeps_states, comm, &mut take)?;
    let Some(mut output) = output else { return Ok(()) };
    output.decode()?;
    let seconds = started.elapsed().as_secs_f64();
    output.require_images()?;
    let files = output.finish()?;
    report(args, &setup, &Done { made: missing.len(), seconds, files });
    Ok(())
}

/// Says what would be done.
fn dry_run(args: &SampleArgs, setup: &Setup) -> Result<()> {
    let (model, samples, nfe) = (&setup.model, setup.samples(), setup.sampler.nfe);
    let Drawn { work, seconds, peak, known } = setup.forecast(samples)?;
    let mut writes: Vec<String> = Output::place(args, setup)?.iter().map(|dir| shown(dir)).collect();
    writes.extend([&args.trajectory, &args.latent_out].into_iter().flatten().map(|file| shown(file)));
    let (solver, steps) = (setup.sampler.solver.label(), setup.sampler.steps());
    let described = model.described();
    let (calls, steps) = (ui::calls(nfe, setup.calls), counted(steps, "step"));
    let what = format!("make {} of {described} with {solver}: {calls} each, {steps}", counted(samples, "sample"));
    let peak = peak + Output::held(args, setup)?;
    Forecast { what, work, seconds, peak, writes, known }.print(args.json);
    Ok(())
}

struct Done {
    made: usize,
    seconds: f64,
    files: Vec<PathBuf>,
}

fn report(args: &SampleArgs, setup: &Setup, done: &Done) {
    let (sampler, model, samples) = (&setup.sampler, &setup.model.name, setup.samples());
    let (solver, nfe, steps) = (sampler.solver.label(), sampler.nfe, sampler.steps());
    if args.json {
        ui::print_json(&json!({
            "model": model, "solver": solver, "samples": samples, "made": done.made, "nfe": nfe,
            "steps": steps, "sigmas": sampler.sigmas(), "afs": sampler.afs,
            "denoise_to_zero": sampler.denoise_to_zero, "seconds": done.seconds,
            "files": done.files.iter().map(|f| text(f)).collect::<Vec<_>>(),
        }));
        return;
    }
    let (rate, time) = (done.made as f64 / done.seconds.max(1e-9), ui::duration(done.seconds));
    ui::say(&format!(
        "{} of {model} with {solver}: {} each, {}, {time} ({rate:.0}/s)",
        counted(samples, "sample"),
        ui::calls(nfe, setup.calls),
        counted(steps, "step")
    ));
    done.files.iter().for_each(|f| ui::print_path(f));
}
