//! `dyweight sample`, and the drawing of samples that other commands share.

mod draw;
mod noise;
mod output;
mod setup;

use crate::args::{BudgetArgs, ModelArgs, ScheduleArgs, SolverArgs};
use crate::ui;
use clap::Args;
use dyweight::sample::{State, sample};
use dyweight::solver::Solver;
use dyweight::spec::{Learned, LoadedModel};
use dyweight::{Error, Result, Tensor};
use noise::Noise;
use output::Output;
use serde_json::json;
use setup::Setup;
use std::ops::ControlFlow;
use std::path::PathBuf;
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
    /// Directory for the samples; a run that was interrupted there is continued
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    outdir: Option<PathBuf>,
    /// Also write the images as one contact sheet, grid.png [into ./samples]
    #[arg(long, help_heading = "Output")]
    grid: bool,
    /// Make the directory's samples anew with these settings
    #[arg(long, help_heading = "Output")]
    overwrite: bool,
    /// Safetensors file for all states
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    trajectory: Option<PathBuf>,
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
    /// Class to show, or 'none' [drawn for each seed, where the model has classes]
    #[arg(long, value_name = "N|none")]
    class: Option<String>,
    /// Classifier-free guidance; every evaluation then costs two calls
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true)]
    guidance: Option<f64>,
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

/// Runs the command.
pub fn run(args: &SampleArgs) -> Result<()> {
    ui::set_threads(args.threads)?;
    let drawing = Drawing::open(&args.model, &args.draw)?;
    let setup = drawing.setup()?;
    let (model, noise) = (&drawing.model, &drawing.noise);
    let mut output = Output::open(args, model, noise, &setup)?;
    let started = Instant::now();
    let missing = output.missing();
    if missing.len() < noise.len() {
        eprintln!("{} of {} samples are there already", noise.len() - missing.len(), noise.len());
    }
    drawing.draw(&setup, &missing, &mut output)?;
    let seconds = started.elapsed().as_secs_f64();
    output.require_images()?;
    let files = output.finish(model, &setup)?;
    report(args, &setup, &Done { model: &model.name, samples: noise.len(), made: missing.len(), seconds, files });
    Ok(())
}

const DEFAULT_BATCH: usize = 64;

/// Takes samples as they are made.
pub trait Sink {
    /// Sees a state of the samples `indices`.
    fn see(&mut self, _indices: &[usize], _state: &State<'_>) {}

    /// Takes the finished samples `indices`.
    fn take(&mut self, indices: &[usize], samples: &Tensor) -> Result<()>;
}

/// A model, noise and a solver: samples to be drawn.
pub struct Drawing<'a> {
    args: &'a DrawArgs,
    pub model: LoadedModel,
    pub noise: Noise,
    learned: Option<Learned>,
    solver: Box<dyn Solver>,
}

impl<'a> Drawing<'a> {
    /// Opens what the arguments name, and refuses what does not go together.
    pub fn open(model: &ModelArgs, args: &'a DrawArgs) -> Result<Self> {
        if args.batch == Some(0) {
            let expected = "at least one sample per batch".into();
            return Err(Error::BadValue { name: "batch", value: "0".into(), expected });
        }
        let noise = Noise::open(args)?;
        let model = model.spec(noise.sample_shape())?.build()?;
        let learned = args.weights.as_deref().map(Learned::open).transpose()?;
        let solver = setup::solver(args, learned.as_ref(), model.model.prediction())?;
        noise.condition(args, &[0], &*model.model)?;
        Ok(Self { args, model, noise, learned, solver })
    }

    /// Grid and extras.
    pub fn setup(&self) -> Result<Setup<'_>> {
        Setup::new(self.args, &self.model, &*self.solver, self.learned.as_ref())
    }

    /// Draws the samples `wanted`, batch by batch.
    pub fn draw(&self, setup: &Setup<'_>, wanted: &[usize], sink: &mut dyn Sink) -> Result<()> {
        let (model, noise) = (&*self.model.model, &self.noise);
        let mut progress = ui::Progress::new("sampling", wanted.len());
        for indices in wanted.chunks(self.args.batch.unwrap_or(DEFAULT_BATCH)) {
            let latents = noise.batch(indices, model.shape())?;
            let denoiser = model.bind(&noise.condition(self.args, indices, model)?)?;
            let mut observer = |state: &State<'_>| {
                sink.see(indices, state);
                if ui::stop_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let outcome = sample(&*denoiser, &setup.plan(), &latents, &mut observer)?;
            debug_assert_eq!(outcome.nfe, setup.nfe, "the budget was found by counting the same calls");
            sink.take(indices, &outcome.samples)?;
            progress.add(indices.len(), "");
        }
        progress.finish();
        Ok(())
    }
}

struct Done<'d> {
    model: &'d str,
    samples: usize,
    made: usize,
    seconds: f64,
    files: Vec<PathBuf>,
}

fn report(args: &SampleArgs, setup: &Setup<'_>, done: &Done<'_>) {
    let rate = done.made as f64 / done.seconds.max(1e-9);
    if args.json {
        ui::print_json(&json!({
            "model": done.model, "solver": setup.solver.label(), "samples": done.samples, "made": done.made, "nfe": setup.nfe,
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
        setup.nfe,
        setup.grid.steps(),
        ui::duration(done.seconds)
    );
    done.files.iter().for_each(|f| ui::print(&f.display().to_string()));
}
