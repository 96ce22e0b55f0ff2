//! What the arguments stand for: model, inputs and a solver ready to run, and whether they fit each other.

use super::{DrawArgs, inputs};
use crate::args::{ModelArgs, check_batch, opened};
use crate::dry_run::{Gradients, Pace, peak_by_cost};
use crate::progress::UnderWay;
use crate::ui;
use dyweight::comm::Comm;
use dyweight::denoiser::{Context, Cost};
use dyweight::learned::Learned;
use dyweight::models::{LoadedModel, ModelSpec, measured_rate};
use dyweight::sample::{Drawing, Inputs, OnModel, SampleSpec, Sampler, Who, misfits};
use dyweight::solver_file::Asked;
use dyweight::train::Work;
use dyweight::{Error, Result, option};
use std::ops::Range;
use std::time::Instant;

const DEFAULT_BATCH: usize = 64;
/// Of models whose samples are decoded: they are large.
const DEFAULT_LATENT_BATCH: usize = 4;

/// What a call costs, where the model says so, and the operations per second just measured.
pub type Known = Option<(Cost, f64)>;

/// States of a batch that are in memory at once: noise, state, slopes of former steps, sums.
const STATES: usize = 6;

/// What drawing takes.
pub struct Drawn {
    pub work: Work,
    pub seconds: f64,
    /// The most bytes held at once, without what is kept of samples.
    pub peak: u64,
    pub known: Known,
}

/// A model, inputs and a solver: samples to be drawn.
pub struct Setup {
    pub model: LoadedModel,
    pub inputs: Inputs,
    pub sampler: Sampler,
    /// Fingerprint of learned coefficients.
    pub coefficients: Option<String>,
    /// Network calls of an evaluation: 2 with guidance.
    pub calls: usize,
    /// Samples per network call.
    pub batch: usize,
}

impl Setup {
    /// Opens what the arguments name, and refuses what does not go together.
    pub fn open(model: &ModelArgs, args: &DrawArgs) -> Result<Self> {
        let noise = inputs::noise(args)?;
        let spec = ModelSpec { beta_table: args.schedule.beta_table.clone(), ..model.spec(noise.shape())? };
        let model = opened(&spec)?;
        check_batch(args.batch.unwrap_or(DEFAULT_BATCH), noise.count().unwrap_or(0), model.model.shape())?;
        let inputs = inputs::of(args, noise, &model)?;
        ui::warn_of_prompts(&inputs.show);
        let learned = args.weights.as_deref().map(Learned::open).transpose()?;
        let calls = model.model.denoiser(&inputs.condition(0..1))?.info().calls;
        let guidance = inputs.guidance.or(model.model.default_guidance());
        let asked = Asked { budget: args.budget.budget(), calls: Some(calls), guidance };
        let learned = learned.map(|learned| learned.at(asked)).transpose()?;
        let sampler = sampler(args, learned.as_ref(), &model, calls)?;
        let usual = if model.model.decoder().is_some() { DEFAULT_LATENT_BATCH } else { DEFAULT_BATCH };
        let coefficients = learned.as_ref().map(Learned::fingerprint);
        Ok(Self { model, inputs, sampler, coefficients, calls, batch: args.batch.unwrap_or(usual) })
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.inputs.noise.count().unwrap_or(0)
    }

    /// What drawing so many samples takes.
    pub fn forecast(&self, samples: usize) -> Result<Drawn> {
        let work = Work { calls: samples * self.sampler.nfe, gradients: 0 };
        let (model, batch) = (&*self.model.model, self.batch.min(samples));
        // States and slopes that a batch has at once.
        let states = (8 * STATES * batch * model.shape().iter().product::<usize>()) as u64;
        // A model that says what a call costs is not asked for one: it may take minutes.
        if let Some(cost) = model.cost() {
            let rate = measured_rate(self.model.precision());
            let (seconds, at_work) = (cost.operations / rate * work.calls as f64, model.at_work(batch * self.calls));
            return Ok(Drawn { work, seconds, peak: peak_by_cost(&cost, at_work) + states, known: Some((cost, rate)) });
        }
        let condition = |range: Range<usize>| Ok(self.inputs.condition(vec![0; range.len()]));
        let pace = Pace::of(&self.model, &condition, batch)?;
        let mut seconds = pace.seconds(work)?;
        if let Some(decoder) = self.model.model.decoder() {
            let started = Instant::now();
            decoder.decode(&self.inputs.latents([0])?)?;
            seconds += started.elapsed().as_secs_f64() * samples as f64;
        }
        Ok(Drawn { work, seconds, peak: pace.peak(batch, Gradients::None)? + states, known: None })
    }

    /// What the first samples show, where they were asked for classes.
    pub fn labels(&self, samples: usize) -> Vec<String> {
        let names = self.model.class_names();
        let named = |class: usize| names.get(class).map_or(format!("class {class}"), |name| name.to_string());
        let class = |context: &Context| if let Context::Class(class) = context { Some(named(*class)) } else { None };
        self.inputs.condition(0..samples).contexts.iter().filter_map(class).collect()
    }

    /// Draws the samples `wanted`, which rank 0 takes as they are made, behind their states if those are kept.
    pub fn draw(
        &self,
        wanted: &[usize],
        keeps_states: bool,
        comm: &dyn Comm,
        take: &mut dyweight::sample::Take<'_>,
    ) -> Result<()> {
        let Self { model, inputs, sampler, batch, .. } = self;
        let drawing = Drawing { model: &*model.model, inputs, sampler, batch: *batch, comm };
        let mut progress = ui::Progress::new("sampling", wanted.len());
        let under_way: UnderWay = progress.under_way();
        let states = sampler.states() as f64;
        drawing.draw(
            wanted,
            keeps_states,
            &|indices, state| {
                // The first is what a sample begins with.
                under_way.add(if state.index > 0 { indices.len() as f64 / states } else { 0.0 });
                if ui::stop_requested() { Err(Error::Cancelled) } else { Ok(()) }
            },
            &mut |indices, states| {
                take(indices, states)?;
                progress.add(indices.len(), "");
                Ok(())
            },
        )?;
        progress.finish();
        Ok(())
    }
}

/// The solver the arguments name, or learned coefficients are, on its grid.
fn sampler(args: &DrawArgs, learned: Option<&Learned>, model: &LoadedModel, calls: usize) -> Result<Sampler> {
    let spec = SampleSpec {
        budget: args.budget.budget(),
        schedule: args.schedule.clone(),
        afs: args.afs,
        denoise_to_zero: args.denoise_to_zero,
    };
    let on = OnModel { model: &*model.model, identity: model.identity(), calls };
    // Options are read with learned coefficients too: what is misspelt is said.
    let usual = learned.map_or("ipndm", |learned| learned.body.method());
    let handcrafted = args.solver.spec(args.solver.solver.as_deref().unwrap_or(usual))?;
    let Some(learned) = learned else {
        option::refuse(&[("strict", args.strict)], |strict| Error::needs(strict, "weights"))?;
        return spec.sampler(Who::Handcrafted(&handcrafted), &on);
    };
    require_method(args, &handcrafted.solver, usual)?;
    handcrafted.refuse_options_beyond(&[], usual)?;
    let sampler = spec.sampler(Who::Learned(learned), &on)?;
    let Some(file) = &learned.file else { return Ok(sampler) };
    let found = misfits(file, (on.model, &on.identity), args.asked.train.guidance, (sampler.afs, &sampler.grid));
    if let (true, Some(first)) = (args.strict, found.first()) {
        return Err(Error::conflict(format!("--strict: {first}"), "leave --strict out to sample all the same"));
    }
    found.iter().chain(&file.warnings()).for_each(|w| ui::warn(w));
    Ok(sampler)
}

/// An error if the arguments ask learned coefficients for another method, or another window.
fn require_method(args: &DrawArgs, name: &str, method: &str) -> Result<()> {
    if !name.eq_ignore_ascii_case(method) {
        return Err(Error::conflict(
            format!("weights belong to the solver {method}, not to {name}"),
            format!("leave --weights out, or use --solver {method}"),
        ));
    }
    match args.solver.order {
        Some(order) => Err(Error::bad_value("order", order, "the window is a property of the weights")),
        None => Ok(()),
    }
}
