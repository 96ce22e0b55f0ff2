//! A whole training run: plan, teacher, targets, files, and the solver file it ends in. The one place where training is
//! put together.

use crate::gain::Gain;
use crate::identity;
use crate::plan::{self, TRAINING, TrainPlan};
use crate::search::OnPairs;
use crate::session::{Files, History, Session, Watcher};
use crate::snapshot::Snapshot;
use crate::targets::{Targets, Teacher};
use crate::training::{Training, TrainingParts};
use crate::{ByParams, Loss, Supervision, TrainSpec};
use dyweight_core::denoiser::{Model, SharedModel};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::Variety;
use dyweight_core::solver::Initial;
use dyweight_core::tensor::Tensor;
use dyweight_sample::Stop;
use dyweight_sample::comm::{Comm, Solo};
use dyweight_sample::{Learned, Noise, Prompts, misfits, require_prediction};
use dyweight_solvers::Weights;
use dyweight_solvers::learned::LearnedSolver;
use dyweight_solvers::method::MethodParams;
use dyweight_solvers::solver_file::{Asked, ModelIdentity, SolverFile};
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What is to be learned, for which model.
#[derive(Clone)]
pub struct TrainConfig {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Its name and, where it has one, its fingerprint. Without a fingerprint nothing is cached, and nothing resumed.
    pub identity: ModelIdentity,
    /// What else decides the last bits of its answers, such as the way convolutions are computed.
    pub arithmetic: Option<String>,
    /// The options.
    pub spec: TrainSpec,
    /// The grid's rule.
    pub schedule: ScheduleSpec,
    /// Its length.
    pub budget: Budget,
    /// The endpoint's distance.
    pub loss: Loss,
    /// The processes that share the work.
    pub comm: Arc<dyn Comm>,
    /// Prompts that are encoded already: the same texts are not encoded again.
    pub prompts: Option<Arc<Prompts>>,
    /// Directory that keeps the teacher's results.
    pub cache: Option<PathBuf>,
    /// Where state and log go; nowhere if none.
    pub files: Option<Files>,
    /// Goes on from the state, where there is one.
    pub resume: bool,
    /// Time between two snapshots.
    pub between_snapshots: Option<Duration>,
    /// Ends a search and the first validation, before which there is no iteration to stop at.
    pub stop: Option<Stop>,
}

/// Everything that can be decided before the work.
pub struct Trainer {
    config: TrainConfig,
    /// What was decided.
    pub plan: TrainPlan,
    /// The teacher.
    pub teacher: Arc<Teacher>,
    /// Noise of the training pairs, where it is given.
    noise: Option<Tensor>,
    /// Names the run: two runs of the same text leave the same bits.
    identity: String,
    /// In what the run is not the one its start was learned for.
    pub warnings: Vec<String>,
}

/// Teacher's results for training and for validation.
#[derive(Clone)]
pub struct Dataset {
    pub(crate) training: Arc<Targets>,
    pub(crate) validation: Arc<Targets>,
}

/// What training leaves.
pub struct TrainOutcome {
    /// The solver.
    pub file: SolverFile,
    /// The parameters it stands for: the best ones seen, or the start's where variety was lost.
    pub params: Vec<f64>,
    /// The run at its end.
    pub run: Training,
    /// Its losses.
    pub history: History,
    /// Validation loss of iPNDM with the same window on the same grid; none in a plain run.
    pub baseline: Option<f64>,
    /// What a second stage has done to variety.
    pub variety: Option<Variety>,
    /// What it was worth against handcrafted solvers, where that was asked for.
    pub gain: Option<Gain>,
}

/// What is said of a wider span.
const UNCONFIRMED: &str = "a wider span is not recommended: with few pairs it is learned by heart, and no independent judge has found its samples better";

impl TrainConfig {
    /// Training alone and without files, by a loss that needs no feature network.
    pub fn of(model: &impl SharedModel, budget: Budget, spec: &TrainSpec) -> Result<Self> {
        let loss = plan::loss(spec, |name| {
            let hint = "use TrainConfig::new, and build the loss with a feature network";
            Err(Error::conflict(format!("the loss '{name}' needs a feature network"), hint))
        })?;
        Ok(Self::new(model.share(), model.identity(), budget, spec.clone(), loss))
    }

    /// Training alone and without files.
    pub fn new(model: Arc<dyn Model>, identity: ModelIdentity, budget: Budget, spec: TrainSpec, loss: Loss) -> Self {
        Self {
            model,
            identity,
            arithmetic: None,
            spec,
            schedule: ScheduleSpec::default(),
            budget,
            loss,
            comm: Arc::new(Solo),
            prompts: None,
            cache: None,
            files: None,
            resume: false,
            between_snapshots: None,
            stop: None,
        }
    }

    /// Trains from beginning to end, with every iteration shown.
    pub fn train(self, watch: &mut Watcher<'_>) -> Result<TrainOutcome> {
        let trainer = self.prepare()?;
        let dataset = trainer.dataset()?;
        let settled = trainer.settled(&dataset, &mut |_| {})?;
        let trainer = settled.map_or(trainer, |(trainer, _)| trainer);
        trainer.run(&dataset, watch)
    }

    /// Decides everything, each thing once; what cannot be is refused here, before any work.
    pub fn prepare(mut self) -> Result<Trainer> {
        let inputs = plan::inputs(&self.spec, &*self.model, self.prompts.as_ref())?;
        self.prompts = inputs.show.prompts().cloned();
        let plan = plan::plan_with(&self.spec, inputs, &*self.model, &self.schedule, (self.budget, self.loss.clone()))?;
        let teacher = Arc::new(plan::teacher(&self.spec, &*self.model, &plan)?);
        // A method that is searched for reads given noise itself.
        let by_gradients = self.spec.taught().is_ok_and(|m| m.learns_by_gradients());
        let noise = match by_gradients {
            true => plan::given_noise(&self.spec, self.model.shape(), &plan.recipe)?,
            false => None,
        };
        let mut warnings = self.misfits_of_the_start(&plan)?;
        warnings.extend(plan.inputs.show.prompts().and_then(|prompts| prompts.warning()));
        warnings.extend(self.spec.dyweight.span.as_ref().filter(|span| !span.is_none()).map(|_| UNCONFIRMED.into()));
        let identity = identity::of(&self, &plan, noise.as_ref())?;
        Ok(Trainer { config: self, plan, teacher, noise, identity, warnings })
    }

    /// In what this run is not the one that `--init` was learned for; a start of another prediction is refused.
    fn misfits_of_the_start(&self, plan: &TrainPlan) -> Result<Vec<String>> {
        let named = self.spec.taught()?.named_starts();
        let Some(source) = self.spec.init.as_deref().filter(|name| !named.contains(name)) else {
            return Ok(Vec::new());
        };
        let frame = &plan.student.frame;
        let asked =
            Asked { budget: Some(Budget::Steps(frame.grid.steps())), guidance: self.spec.guidance, calls: None };
        let Some(file) = Learned::open(source)?.at(asked)?.file else { return Ok(Vec::new()) };
        require_prediction(&file, &*self.model, &self.identity)?;
        let model = (&*self.model, &self.identity);
        let mut found = misfits(&file, model, self.spec.guidance, (frame.afs, &frame.grid));
        let window = file.body.weights().and_then(|w| w.weights.iter().map(Vec::len).max()).unwrap_or(0);
        if let Some(order) = self.spec.order.filter(|order| *order < window) {
            let what = "the oldest weight that is left takes those that are dropped, so that every step goes as far";
            found.push(format!("its window of {window} is cut to {order}: {what}"));
        }
        Ok(found.into_iter().map(|what| format!("`init = {source}`: {what}")).collect())
    }

    /// True if what an interrupted run has left is gone on with.
    pub(crate) fn can_resume(&self) -> bool {
        self.resume && self.identity.sha256.is_some()
    }
}

impl Trainer {
    /// What it was prepared from.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The same under the name of the run that it is a part of.
    pub(crate) fn known_as(mut self, identity: &str) -> Self {
        self.identity = identity.into();
        self
    }

    /// A short name of the run, by the content of what it is made from; none for a model without a fingerprint, which
    /// nobody knows again.
    pub fn name(&self) -> Option<String> {
        self.config.identity.sha256.as_ref().map(|_| identity::digest(&self.identity))
    }

    /// Names the run.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// True if its pairs serve every budget: the teacher does not follow the student's grid.
    pub(crate) fn shares_dataset(&self) -> bool {
        self.plan.supervision == Supervision::Endpoint
    }

    /// Pairs with the teacher's results, made as they are needed.
    pub fn dataset(&self) -> Result<Dataset> {
        Ok(Dataset { training: self.targets(TRAINING)?, validation: self.targets("validation")? })
    }

    pub(crate) fn targets(&self, purpose: &'static str) -> Result<Arc<Targets>> {
        let targets = self.targets_in_memory(purpose);
        Ok(Arc::new(match (&self.config.cache, self.cache_name()) {
            (Some(directory), Some(name)) => targets.cached_in(directory.clone(), &name)?,
            _ => targets,
        }))
    }

    /// What the teacher's results depend on besides pairs and teacher; none for a model without a fingerprint, whose
    /// results are not kept.
    fn cache_name(&self) -> Option<String> {
        let arithmetic = self.config.arithmetic.as_deref().unwrap_or_default();
        self.config.identity.sha256.as_ref().map(|sha256| format!("{sha256} {arithmetic}"))
    }

    /// Under which name the teacher's results are kept, where they are: runs that share it share them.
    pub(crate) fn teachers_name(&self) -> Option<String> {
        let name = self.cache_name().filter(|_| self.config.cache.is_some())?;
        Some(self.targets_in_memory(TRAINING).key(&name))
    }

    fn targets_in_memory(&self, purpose: &'static str) -> Targets {
        let TrainConfig { model, comm, stop, .. } = &self.config;
        let mut inputs = self.plan.inputs_for(purpose);
        if let Some(noise) = self.noise.as_ref().filter(|_| purpose == TRAINING) {
            inputs.noise = Noise::Given(noise.clone());
        }
        let (supervision, batch) = (self.plan.supervision, self.plan.recipe.micro_batch);
        Targets::new(model.clone(), inputs, self.teacher.clone(), supervision, batch)
            .shared_by(comm.clone())
            .stopped_by(stop.clone())
    }

    /// An error unless a state at `path` is one of this very run.
    pub fn check_state(&self, path: &Path) -> Result<()> {
        if self.is_open() {
            // Without a record of the search nobody knows yet how many parameters there are.
            return self.of_record()?.map_or(Ok(()), |settled| settled.check_state(path));
        }
        Snapshot::read(path, &self.identity, &self.plan.learnable.blocks()).map(drop)
    }

    /// Trains, or goes on training, with every iteration shown. Of several processes rank 0 alone has files.
    pub fn run(&self, dataset: &Dataset, watch: &mut Watcher<'_>) -> Result<TrainOutcome> {
        self.go_on(self.begin(dataset)?, watch)
    }

    /// The same from a run that was begun.
    pub fn go_on(&self, run: Training, watch: &mut Watcher<'_>) -> Result<TrainOutcome> {
        let baseline = self.baseline(&run)?;
        let session = Session::open(run, self.config.files.clone(), &self.identity, self.config.can_resume())?;
        let (run, history) = session.snapshots_every(self.config.between_snapshots).run(watch)?;
        let variety = self.variety(&run)?;
        let lost = variety.as_ref().is_some_and(Variety::is_lost);
        let params = if lost { self.plan.start.clone() } else { run.result().to_vec() };
        let mut file = self.solver_file(&run, &params, baseline)?;
        file.training.extend(variety.as_ref().map(|variety| ("variety".into(), crate::variety::facts(variety))));
        Ok(TrainOutcome { file, params, run, history, baseline, variety, gain: None })
    }

    /// The run before its first iteration, or before its files are opened.
    pub fn begin(&self, dataset: &Dataset) -> Result<Training> {
        let found = self.plan.learnable.search(&OnPairs(self))?;
        Training::new(TrainingParts {
            model: self.config.model.clone(),
            student: self.plan.student.clone(),
            learnable: found.unwrap_or_else(|| self.plan.learnable.clone()),
            start: self.plan.start.clone(),
            training: dataset.training.clone(),
            validation: dataset.validation.clone(),
            recipe: self.plan.recipe.clone(),
        })
    }

    /// Validation loss of iPNDM with the same window at the same budget, on the rule of the nominal grid.
    fn baseline(&self, run: &Training) -> Result<Option<f64>> {
        if run.guard.is_none() {
            return Ok(None);
        }
        let own = &self.plan.student.frame;
        let plan = &self.plan;
        let Some(frame) = own.of_single_calls(self.plan.calls())? else { return Ok(None) };
        let same_grid = frame.grid.steps() == own.grid.steps();
        let comparable = match plan.supervision {
            Supervision::Endpoint => true,
            // Step by step, validation looks at the end alone.
            Supervision::Path { .. } => same_grid || plan.student.stepwise.is_some(),
            Supervision::Near => false,
        };
        if !comparable {
            return Ok(None);
        }
        let rows = Initial::Ab.rows(frame.grid.steps(), plan.window.min(4));
        let ipndm = Weights { time_shift: false, ..Weights::new(rows, Vec::new()) };
        let params = ipndm.params();
        run.validation_loss_on(&frame, &ByParams(MethodParams::DyWeight(ipndm)), &params).map(Some)
    }

    /// The file of the solver that `params` stand for, with how they were found.
    pub fn solver_file(&self, run: &Training, params: &[f64], baseline: Option<f64>) -> Result<SolverFile> {
        let spec = &self.config.spec;
        let mut file = run.learnable().export(params, &self.plan.student.frame)?;
        file.guidance = spec.guidance;
        file.model = self.config.identity.clone();
        let recipe = run.recipe();
        let mut facts = json!({
            "teacher": self.plan.resolved.teacher.as_deref().unwrap_or("ipndm"),
            "loss": spec.loss.as_deref().unwrap_or("l2"),
            "init": spec.init.as_deref().unwrap_or(if spec.method_name() == "dyweight" { "ab" } else { "own" }),
            "iterations": run.iteration, "pairs_per_iteration": recipe.pairs,
            "lr": self.plan.resolved.lr, "seed": spec.seed.unwrap_or(0),
        });
        if let Some(optimiser) = spec.optimiser {
            facts["optimiser"] = json!(optimiser);
        }
        if let Some(distinct) = recipe.distinct {
            facts["pairs"] = json!(distinct);
        }
        if let Some((name, sha256)) = self.plan.student.loss.network() {
            facts["features"] = json!({ "name": name, "sha256": sha256 });
        }
        if let Some(guard) = &run.guard {
            facts["validation_loss"] = json!(guard.best_loss);
            facts["initial_loss"] = json!(guard.initial_loss);
            facts["rollbacks"] = json!(guard.rollbacks);
            if baseline.is_some() {
                facts["ipndm_loss"] = json!(baseline);
            }
        }
        if let Value::Object(facts) = facts {
            file.training = facts;
        }
        Ok(file)
    }

    /// Iterations of the whole run.
    pub fn iterations(&self) -> usize {
        self.plan.recipe.iterations()
    }
}
