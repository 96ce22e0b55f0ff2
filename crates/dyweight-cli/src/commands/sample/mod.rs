//! `dyweight sample`.

mod draw;
mod noise;
mod output;
mod setup;

use crate::args::{BudgetArgs, ModelArgs, ScheduleArgs, SolverArgs};
use crate::ui;
use clap::Args;
use dyweight::comm::Comm;
use dyweight::sample::{State, sample};
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
    batch: Option<usize>,
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

/// Runs the command.
pub fn run(args: &SampleArgs, comm: &dyn Comm) -> Result<()> {
    ui::set_threads(args.threads, comm)?;
    if args.batch == Some(0) {
        let expected = "at least one sample per batch".into();
        return Err(Error::BadValue { name: "batch", value: "0".into(), expected });
    }
    let noise = Noise::open(args)?;
    let model = args.model.spec(noise.sample_shape())?.build()?;
    let learned = args.weights.as_deref().map(Learned::open).transpose()?;
    let solver = setup::solver(args, learned.as_ref(), model.model.prediction())?;
    noise.condition(args, &[0], &*model.model)?;
    let setup = Setup::new(args, &model, &*solver, learned.as_ref())?;
    let mut output = if comm.is_first() { Some(Output::open(args, &model, &noise, &setup)?) } else { None };
    let started = Instant::now();
    let job = Job { args, model: &model, noise: &noise, setup: &setup, comm };
    let made = job.sample_all(output.as_mut())?;
    let seconds = started.elapsed().as_secs_f64();
    let Some(output) = output else { return Ok(()) };
    let files = output.finish(&model, &setup)?;
    report(args, &setup, &Done { model: &model.name, samples: noise.len(), made, seconds, files });
    Ok(())
}

const DEFAULT_BATCH: usize = 64;

/// What is to be sampled how.
struct Job<'j> {
    args: &'j SampleArgs,
    model: &'j LoadedModel,
    noise: &'j Noise,
    setup: &'j Setup<'j>,
    comm: &'j dyn Comm,
}

impl Job<'_> {
    /// Samples batch by batch what is not there yet; returns how many that were. In every round each process makes a batch, and the
    /// one that has the output takes them all.
    fn sample_all(&self, mut output: Option<&mut Output<'_>>) -> Result<usize> {
        let (noise, comm) = (self.noise, self.comm);
        let batch = self.args.batch.unwrap_or(DEFAULT_BATCH);
        let to_do = || Ok(output.as_mut().map_or((Vec::new(), false), |o| (o.missing(), o.keeps_states())));
        let (missing, keeps_states): (Vec<usize>, bool) = comm.from_first(to_do)?;
        if missing.len() < noise.len() {
            ui::say(&format!("{} of {} samples are there already", noise.len() - missing.len(), noise.len()));
        }
        let mut progress = ui::Progress::new("sampling", missing.len());
        for round in missing.chunks(batch.saturating_mul(comm.size())) {
            let mine = &round[comm.share(&(0..round.len()), 1)];
            let parts = comm.collect(|| self.sample_some(mine, keeps_states))?;
            let mut rest = round;
            for states in parts {
                let Some(last) = states.last() else { continue };
                let (indices, behind) = rest.split_at(last.samples());
                rest = behind;
                if let Some(output) = &mut output {
                    output.take(indices, &states)?;
                }
            }
            progress.add(round.len(), "");
        }
        progress.finish();
        Ok(missing.len())
    }

    /// The states of some samples that are to be kept, the samples themselves last.
    fn sample_some(&self, indices: &[usize], keeps_states: bool) -> Result<Vec<Tensor>> {
        if indices.is_empty() {
            return Ok(Vec::new());
        }
        let model = &*self.model.model;
        let latents = self.noise.batch(indices, model.shape())?;
        let denoiser = model.bind(&self.noise.condition(self.args, indices, model)?)?;
        let mut states = Vec::new();
        let mut observer = |state: &State<'_>| {
            if keeps_states {
                states.push(state.x.tensor().clone());
            }
            if ui::stop_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let outcome = sample(&*denoiser, &self.setup.plan(), &latents, &mut observer)?;
        debug_assert_eq!(outcome.nfe, self.setup.nfe, "the budget was found by counting the same calls");
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
    ui::say(&format!(
        "{} samples of {} with {}: {} network calls each, {} steps, {} ({rate:.0}/s)",
        done.samples,
        done.model,
        setup.solver.label(),
        setup.nfe,
        setup.grid.steps(),
        ui::duration(done.seconds)
    ));
    done.files.iter().for_each(|f| ui::print(&f.display().to_string()));
}
