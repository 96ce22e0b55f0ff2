//! Solvers ready for use, learned or handcrafted: read, written, sampled with.

use crate::denoiser::SharedModel;
use crate::error::{Error, Result};
use crate::learned::Learned;
use crate::noise::Rng;
use crate::sample::{Drawing, Inputs, Noise, OnModel, SampleSpec, Sampler, Show, State, Who};
use crate::solver_file::{Asked, SolverFile};
use crate::spec::{Budget, SolverSpec};
use crate::{Tensor, comm, files};
use std::path::Path;

/// A solver and its grid, for any model that predicts what it was made for.
#[derive(Clone, Debug)]
pub struct Solver {
    method: Method,
    spec: SampleSpec,
}

#[derive(Clone, Debug)]
enum Method {
    Learned(Box<Learned>),
    Handcrafted(SolverSpec),
}

/// What else may be said of samples.
#[derive(Clone, Default)]
pub struct SampleOptions<'o> {
    /// What they show; by default a class drawn for each, of a model that has classes.
    pub show: Show,
    /// Strength of guidance.
    pub guidance: Option<f64>,
    /// Samples per network call: 64, or 4 of a model whose samples are decoded.
    pub batch: Option<usize>,
    /// Sees every state of some samples; an error ends the work.
    pub progress: Option<&'o dyweight_sample::Watch<'o>>,
}

impl From<SolverFile> for Solver {
    fn from(file: SolverFile) -> Self {
        Learned::of("a learned solver", file).into()
    }
}

impl From<Learned> for Solver {
    fn from(learned: Learned) -> Self {
        Self { method: Method::Learned(Box::new(learned)), spec: SampleSpec::default() }
    }
}

impl Solver {
    /// Reads a learned solver.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Learned::read(path.as_ref()).map(Self::from)
    }

    /// Coefficients that were released with a paper; `dyweight list presets` has their names.
    pub fn preset(name: &str) -> Result<Self> {
        Ok(crate::presets::find(name)?.1.into())
    }

    /// A handcrafted solver by its name, at the order that people mean by it: `"euler"`, `"ipndm"`, `"dpmpp:3+afs"` and
    /// others.
    pub fn named(name: &str, budget: Budget) -> Result<Self> {
        Self::handcrafted(SolverSpec::named(name), SampleSpec { budget: Some(budget), ..SampleSpec::default() })
    }

    /// A handcrafted solver with all its options.
    pub fn handcrafted(solver: SolverSpec, spec: SampleSpec) -> Result<Self> {
        crate::spec::Term::beside(&solver, &spec.schedule, spec.afs)?.0.build(false)?;
        Ok(Self { method: Method::Handcrafted(solver), spec })
    }

    /// The same at another budget: a handcrafted solver, or one that was learned for a range of budgets.
    pub fn at(mut self, budget: Budget) -> Self {
        self.spec.budget = Some(budget);
        self
    }

    /// Writes a learned solver, all or nothing.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let Some(file) = self.file() else {
            let problem = format!("{} has nothing that was learned", self.name());
            return Err(Error::conflict(problem, "its name is all there is to keep"));
        };
        files::atomic::write(path.as_ref(), &file.to_bytes())
    }

    /// What is learned, and what is known of it; none of a handcrafted solver.
    pub fn file(&self) -> Option<&SolverFile> {
        match &self.method {
            Method::Learned(learned) => learned.file.as_ref(),
            Method::Handcrafted(_) => None,
        }
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match &self.method {
            Method::Learned(learned) => learned.body.method().into(),
            Method::Handcrafted(solver) => solver.solver.clone(),
        }
    }

    /// Samples `[n, c, h, w]` of a model, one for each seed. The same seed gives the same bits whatever else is drawn
    /// with it.
    pub fn sample(&self, model: &impl SharedModel, seeds: impl IntoIterator<Item = u64>) -> Result<Tensor> {
        self.sample_with(model, seeds, &SampleOptions::default())
    }

    /// The same with options.
    pub fn sample_with(
        &self,
        model: &impl SharedModel,
        seeds: impl IntoIterator<Item = u64>,
        options: &SampleOptions<'_>,
    ) -> Result<Tensor> {
        let (identity, model) = (model.identity(), model.share());
        let noise = Noise::Seeds { seeds: seeds.into_iter().collect(), rng: Rng::Native };
        let (shape, classes) = (model.shape(), model.classes());
        let inputs = Inputs { noise, shape, classes, show: options.show.clone(), guidance: options.guidance };
        let wanted: Vec<usize> = (0..inputs.noise.count().unwrap_or(0)).collect();
        let Some(first) = wanted.first() else { return Ok(Tensor::zeros([0, shape[0], shape[1], shape[2]])) };
        let calls = model.denoiser(&inputs.condition([*first]))?.info().calls;
        let sampler = self.on(&OnModel { model: &*model, identity, calls }, options.guidance)?;
        let batch = options.batch.unwrap_or(if model.decoder().is_some() { 4 } else { 64 }).max(1);
        let drawing = Drawing { model: &*model, inputs: &inputs, sampler: &sampler, batch, comm: &comm::Solo };
        let watch = |indices: &[usize], state: &State<'_>| options.progress.map_or(Ok(()), |see| see(indices, state));
        let mut parts = Vec::new();
        drawing.draw(&wanted, false, &watch, &mut |_, states| {
            parts.extend(states.last().cloned());
            Ok(())
        })?;
        Tensor::concat(&parts)
    }

    /// The solver on the grid of a model, with the calls it makes.
    pub fn on(&self, model: &OnModel<'_>, guidance: Option<f64>) -> Result<Sampler> {
        match &self.method {
            Method::Handcrafted(solver) => self.spec.sampler(Who::Handcrafted(solver), model),
            Method::Learned(learned) => {
                let asked = Asked { budget: self.spec.budget, calls: Some(model.calls), guidance };
                self.spec.sampler(Who::Learned(&learned.as_ref().clone().at(asked)?), model)
            }
        }
    }
}
