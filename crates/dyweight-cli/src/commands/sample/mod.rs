//! `dyweight sample`, and the drawing of samples that other commands share.

mod draw;
mod noise;
mod output;
mod prompts;
mod setup;

use crate::args::{BudgetArgs, ModelArgs, ScheduleArgs, SolverArgs, check_batch, opened};
use crate::dry_run::{Forecast, Pace};
use crate::files::text;
use crate::progress::UnderWay;
use crate::ui;
use clap::Args;
use dyweight::denoiser::{Condition, Context};
use dyweight::error::{number, shown};
use dyweight::files::NamedPath;
use dyweight::models::{LoadedModel, ModelSpec, measured_rate};
use dyweight::sample::{State, sample_observed};
use dyweight::solver_file::Asked;
use dyweight::train::comm::Comm;
use dyweight::train::{Learned, Prompts, Work, in_parts, stacked};
use dyweight::{Result, Tensor};
use noise::NoiseSource;
use output::Output;
use serde_json::json;
use setup::Sampling;
use std::ops::Range;
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
    /// Class to show by number or, for fashion, by name (sneaker), or 'none' [drawn for each seed, where the model has classes]
    #[arg(long, value_name = "N|NAME|none")]
    class: Option<String>,
    /// Classifier-free guidance; every evaluation then costs two calls
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true)]
    guidance: Option<f64>,
    /// What to show
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["prompts", "class"], help_heading = "Prompts")]
    prompt: Option<String>,
    /// What guidance leads away from [the empty text]
    #[arg(long, value_name = "TEXT", help_heading = "Prompts")]
    negative: Option<String>,
    /// File of prompts, one per line; sample i shows line i, beginning again after the last
    #[arg(long, value_name = "FILE", conflicts_with = "class", help_heading = "Prompts")]
    prompts: Option<PathBuf>,
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
    pub batch: Option<usize>,
}

impl DrawArgs {
    /// The files that are read, beside the model's.
    pub fn files(&self) -> Vec<NamedPath<'_>> {
        let latents = self.latents.as_deref().map(|path| ("--latents", path));
        let weights = self.weights.as_deref().map(|name| ("--weights", Path::new(name)));
        let prompts = self.prompts.as_deref().map(|path| ("--prompts", path));
        latents.into_iter().chain(weights).chain(prompts).collect()
    }
}

/// Runs the command.
pub fn run(args: &SampleArgs, comm: &dyn Comm) -> Result<()> {
    ui::set_threads(args.threads, comm)?;
    output::prepare(args)?;
    let drawing = Drawing::open(&args.model, &args.draw)?;
    let setup = drawing.setup()?;
    let (model, noise) = (&drawing.model, &drawing.noise);
    ui::detail(|| format!("levels: {}", setup.sigmas().iter().map(|s| number(*s)).collect::<Vec<_>>().join(" ")));
    if args.dry_run {
        return if comm.is_root() { dry_run(args, &drawing, &setup) } else { Ok(()) };
    }
    // One process has the output; it says what is to be done.
    let mut output = if comm.is_root() { Some(Output::open(args, &drawing, &setup)?) } else { None };
    let started = Instant::now();
    let to_do = || Ok(output.as_mut().map_or((Vec::new(), false), |o| (o.missing(), o.keeps_states())));
    let (missing, keeps_states): (Vec<usize>, bool) = comm.broadcast(to_do)?;
    if missing.len() < noise.len() {
        ui::say(&format!("{} of {} samples are there already", noise.len() - missing.len(), noise.len()));
    }
    let sink = output.as_mut().map(|o| o as &mut dyn Sink);
    drawing.draw(&setup, &Wanted { indices: &missing, keeps_states }, comm, sink)?;
    let Some(mut output) = output else { return Ok(()) };
    output.decode(&setup)?;
    let seconds = started.elapsed().as_secs_f64();
    output.require_images()?;
    let files = output.finish(model, &setup)?;
    report(args, &setup, &Done { model: &model.name, samples: noise.len(), made: missing.len(), seconds, files });
    Ok(())
}

/// Says what would be done.
fn dry_run(args: &SampleArgs, drawing: &Drawing<'_>, setup: &Sampling) -> Result<()> {
    let (model, samples) = (&drawing.model, drawing.noise.len());
    let condition = |range: Range<usize>| drawing.condition(&vec![0; range.len()]);
    let work = Work { calls: samples * setup.nfe, gradients: 0 };
    // A model that says what a call costs is not asked for one: it may take minutes.
    let known = model.model.cost().map(|cost| (cost, measured_rate(model.precision())));
    let mut seconds = match &known {
        Some((cost, rate)) => cost.operations / rate * work.calls as f64,
        None => Pace::of(model, &condition, drawing.batch())?.seconds(work)?,
    };
    if let Some(decoder) = model.model.decoder().filter(|_| known.is_none()) {
        let started = Instant::now();
        decoder.decode(&drawing.noise.batch(&[0], model.model.shape())?)?;
        seconds += started.elapsed().as_secs_f64() * samples as f64;
    }
    let mut writes: Vec<String> = Output::place(args, drawing, setup)?.iter().map(|dir| shown(dir)).collect();
    writes.extend([&args.trajectory, &args.latent_out].into_iter().flatten().map(|file| shown(file)));
    let (solver, nfe, steps) = (setup.solver.label(), setup.nfe, setup.steps());
    let described = model.described();
    let what = format!("make {samples} samples of {described} with {solver}: {nfe} calls each, {steps} steps");
    Forecast { what, work, seconds, writes, known }.print(args.json);
    Ok(())
}

const DEFAULT_BATCH: usize = 64;
/// Of models whose samples are decoded: they are large.
const DEFAULT_LATENT_BATCH: usize = 4;

/// Takes samples as they are made.
pub trait Sink {
    /// Takes the finished samples `indices`, which stand behind their states if those are kept.
    fn take(&mut self, indices: &[usize], states: &[Tensor]) -> Result<()>;
}

/// Which samples, and whether their states too.
pub struct Wanted<'w> {
    pub indices: &'w [usize],
    pub keeps_states: bool,
}

/// A model, noise and a solver: samples to be drawn.
pub struct Drawing<'a> {
    args: &'a DrawArgs,
    pub model: LoadedModel,
    pub noise: NoiseSource,
    pub prompts: Option<Prompts>,
    learned: Option<Learned>,
}

impl<'a> Drawing<'a> {
    /// Opens what the arguments name, and refuses what does not go together.
    pub fn open(model: &ModelArgs, args: &'a DrawArgs) -> Result<Self> {
        let noise = NoiseSource::open(args)?;
        let spec = model.spec(noise.sample_shape())?;
        let model = opened(&ModelSpec { beta_table: args.schedule.beta_table.clone(), ..spec })?;
        check_batch(args.batch.unwrap_or(DEFAULT_BATCH), noise.len(), model.model.shape())?;
        let prompts = prompts::open(args, &*model.model)?;
        let learned = args.weights.as_deref().map(Learned::open).transpose()?;
        let mut drawing = Self { args, model, noise, prompts, learned };
        let calls = drawing.model.model.denoiser(&drawing.condition(&[0])?)?.info().calls;
        if let (Some(learned), Some(source)) = (drawing.learned.take(), args.weights.as_deref()) {
            let guidance = args.guidance.or(drawing.model.model.default_guidance());
            let asked = Asked { budget: args.budget.budget(), calls: Some(calls), guidance };
            drawing.learned = Some(learned.at(source, asked)?);
        }
        setup::solver(args, drawing.learned.as_ref(), drawing.model.model.is_bounded())?;
        Ok(drawing)
    }

    /// Strength of guidance.
    pub fn guidance(&self) -> Option<f64> {
        self.args.guidance
    }

    /// What some samples are conditioned on.
    fn condition(&self, indices: &[usize]) -> Result<Condition> {
        match &self.prompts {
            Some(prompts) => Ok(prompts.condition(indices.iter().copied(), self.args.guidance)),
            None => self.noise.condition(self.args, indices, &self.model),
        }
    }

    /// Samples per network call.
    fn batch(&self) -> usize {
        let decoded = self.model.model.decoder().is_some();
        self.args.batch.unwrap_or(if decoded { DEFAULT_LATENT_BATCH } else { DEFAULT_BATCH })
    }

    /// What the first samples show, where they were asked for classes.
    fn labels(&self, samples: usize) -> Result<Vec<String>> {
        let names = self.model.class_names();
        let named = |class: usize| names.get(class).map_or(format!("class {class}"), |name| name.to_string());
        let condition = self.condition(&(0..samples).collect::<Vec<_>>())?;
        let class = |context: &Context| if let Context::Class(class) = context { Some(named(*class)) } else { None };
        Ok(condition.contexts.iter().filter_map(class).collect())
    }

    /// Grid and extras.
    pub fn setup(&self) -> Result<Sampling> {
        let model = &*self.model.model;
        let calls = model.denoiser(&self.condition(&[0])?)?.info().calls;
        Sampling::new(self.args, &self.model, calls, self.learned.as_ref())
    }

    /// Draws what is wanted, batch by batch. In every round each process makes a batch, and the one that has the sink takes
    /// them all.
    pub fn draw(
        &self,
        setup: &Sampling,
        wanted: &Wanted<'_>,
        comm: &dyn Comm,
        mut sink: Option<&mut dyn Sink>,
    ) -> Result<()> {
        let mut progress = ui::Progress::new("sampling", wanted.indices.len());
        let under_way = progress.under_way();
        for round in wanted.indices.chunks(self.batch().saturating_mul(comm.size())) {
            let mine = &round[comm.share(&(0..round.len()), 1)];
            let part = |range: Range<usize>| self.run(setup, &mine[range], wanted.keeps_states, &under_way);
            let own = || stacked(&in_parts(&*self.model.model, 0..mine.len(), mine.len().max(1), part)?);
            let parts = comm.gather(own)?;
            let mut rest = round;
            for states in parts {
                let Some(last) = states.last() else { continue };
                let (indices, behind) = rest.split_at(last.samples());
                rest = behind;
                if let Some(sink) = &mut sink {
                    sink.take(indices, &states)?;
                }
            }
            progress.add(round.len(), "");
        }
        progress.finish();
        Ok(())
    }

    /// The states of some samples that are to be kept, the samples themselves last.
    fn run(
        &self,
        setup: &Sampling,
        indices: &[usize],
        keeps_states: bool,
        under_way: &UnderWay,
    ) -> Result<Vec<Tensor>> {
        let (model, noise) = (&*self.model.model, &self.noise);
        let latents = noise.batch(indices, model.shape())?;
        let denoiser = model.denoiser(&self.condition(indices)?)?;
        let mut states = Vec::new();
        let mut observer = |state: &State<'_>| {
            if keeps_states {
                states.push(state.x.tensor().clone());
            }
            // The first is what a sample begins with.
            under_way.add(if state.index > 0 { indices.len() as f64 / setup.states() as f64 } else { 0.0 });
            ui::go_on()
        };
        let outcome = sample_observed(&*denoiser, &setup.plan(), &latents, &mut observer)?;
        debug_assert_eq!(outcome.nfe, setup.nfe, "the budget was found by counting the same calls");
        states.push(outcome.samples);
        Ok(states)
    }
}

struct Done<'d> {
    model: &'d str,
    samples: usize,
    made: usize,
    seconds: f64,
    files: Vec<PathBuf>,
}

fn report(args: &SampleArgs, setup: &Sampling, done: &Done<'_>) {
    let rate = done.made as f64 / done.seconds.max(1e-9);
    if args.json {
        ui::print_json(&json!({
            "model": done.model, "solver": setup.solver.label(), "samples": done.samples, "made": done.made, "nfe": setup.nfe,
            "steps": setup.steps(), "sigmas": setup.sigmas(), "afs": setup.afs,
            "denoise_to_zero": setup.denoise_to_zero, "seconds": done.seconds, "files": done.files.iter().map(|f| text(f)).collect::<Vec<_>>(),
        }));
        return;
    }
    ui::say(&format!(
        "{} samples of {} with {}: {} network calls each, {} steps, {} ({rate:.0}/s)",
        done.samples,
        done.model,
        setup.solver.label(),
        setup.nfe,
        setup.steps(),
        ui::duration(done.seconds)
    ));
    done.files.iter().for_each(|f| ui::print_path(f));
}
