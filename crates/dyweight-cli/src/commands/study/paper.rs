//! The paper's experiments.

use crate::args::{
    ModelArgs, ModelOptions, Pick, Picked, ReferenceArgs, ScorerArgs, also_config, check_batch, on, opened,
};
use crate::benchmark::{self, OutputArgs, TrainSeedsArgs};
use crate::ui;
use clap::Args;
use dyweight::comm::Comm;
use dyweight::error::named;
use dyweight::spec::Seeds;
use dyweight::spec::budget::check_steps;
use dyweight::study::benchmark::View;
use dyweight::study::paper::{RivalSetup, StudySetup, named as study_named};
use dyweight::train::plan::show;
use dyweight::train::{CountParallel, SpanSpec, TrainSpec};
use dyweight::{Error, Result};
use std::sync::Arc;

/// What every one of them can be told.
#[derive(Args)]
#[command(mut_arg("model_config", also_config), mut_arg("seed", |arg| arg.conflicts_with("train_seeds")))]
pub struct PaperArgs {
    /// Built-in name (see 'dyweight list models') or file
    #[arg(long, value_name = "NAME|FILE", default_value = "fashion")]
    model: String,
    #[command(flatten, next_help_heading = "Model")]
    options: ModelOptions,
    /// A look instead of a result: minutes
    #[arg(long)]
    quick: bool,
    /// Network calls [3,5,7,9; 3,5 with --quick; beyond: 2,3,5,7,9 and 2,3]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', num_args = 1)]
    nfe: Option<Vec<usize>>,
    /// Seeds to judge on [0-1999; fewer with --quick]
    #[arg(long, help_heading = "Judging")]
    seeds: Option<String>,
    /// Network calls of the teacher that judges [35]
    #[arg(long, value_name = "N", help_heading = "Judging")]
    teacher_nfe: Option<usize>,
    /// Samples per batch; changes nothing but speed and memory [64]
    #[arg(long, help_heading = "Judging")]
    batch: Option<usize>,
    /// Solver files of learned rivals, for the study main; may be given several times
    #[arg(long = "weights", alias = "solver-file", value_name = "FILE|PRESET", help_heading = "Rivals")]
    pub solver_file: Vec<String>,
    #[command(flatten)]
    training: Picked<Studied>,
    #[command(flatten)]
    train_seeds: TrainSeedsArgs,
    #[command(flatten)]
    reference: ReferenceArgs,
    #[command(flatten)]
    scorers: ScorerArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What of training all of them can be told.
struct Studied;

impl Pick for Studied {
    const OPTIONS: &'static [(&'static str, &'static str)] = &[
        ("class", "class"),
        ("prompts", "prompts"),
        ("negative", "negative"),
        ("guidance", "guidance"),
        ("iters", "iters"),
        ("batch", "train-batch"),
        ("pairs", "pairs"),
        ("lr", "lr"),
        ("optimiser", "optimiser"),
        ("loss", "loss"),
        ("validation", "validation"),
        ("validate-every", "validate-every"),
        ("seed", "seed"),
    ];
}

/// What the study of wider spans can be told besides.
#[derive(Args)]
pub struct BeyondArgs {
    #[command(flatten)]
    pub paper: PaperArgs,
    /// A span that takes part, as 'dyweight train --span' has it; may be given several times [every switch alone, and
    /// combinations]
    #[arg(long, value_name = "LIST")]
    pub span: Vec<SpanSpec>,
}

/// What the study of learned rivals can be told besides.
#[derive(Args)]
pub struct RivalArgs {
    #[command(flatten)]
    pub paper: PaperArgs,
    /// Methods that take part (see 'dyweight list methods') [all]
    #[arg(long, value_name = "NAME,NAME,…", value_delimiter = ',', num_args = 1)]
    methods: Vec<String>,
    /// equal: the same pairs and teacher for all; paper: each with its authors' teacher
    #[arg(long, value_name = "equal|paper", default_value = "equal")]
    recipe: String,
    /// Train each method at its authors' rate, instead of at the best of three, found on other seeds
    #[arg(long)]
    authors_rates: bool,
    #[command(flatten)]
    counted: Picked<Counted>,
}

/// How their calls are counted.
struct Counted;

impl Pick for Counted {
    const OPTIONS: &'static [(&'static str, &'static str)] = &[("count-parallel", "count-parallel")];
}

impl RivalArgs {
    /// The library's description.
    pub fn setup(&self) -> Result<RivalSetup> {
        let known: Vec<&str> = dyweight::train::method::list().iter().map(|(name, ..)| *name).collect();
        if let Some(name) = self.methods.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::unknown_name("method", name, known));
        }
        let paper = named("recipe", &self.recipe, &[("equal", false), ("paper", true)])?;
        let once = self.counted.train.count_parallel == Some(CountParallel::Once);
        let (methods, authors_rates) = (self.methods.clone(), self.authors_rates);
        Ok(RivalSetup { methods, paper, authors_rates, once, files: Vec::new() })
    }
}

impl PaperArgs {
    fn setup(&self) -> Result<StudySetup> {
        let model = Arc::new(opened(&self.options.spec(&self.model, None)?)?);
        let (reference, shape) = (self.reference.open(&model)?, model.model.shape());
        let mut setup = StudySetup::new(model, self.quick)?;
        setup.reference = reference;
        if self.training.train.is_gauss_newton() {
            // What a quick look says of descent by gradients.
            let (batch, iters, validation, validate_every) = (None, None, None, None);
            setup.train = TrainSpec { recipe: None, batch, iters, validation, validate_every, ..setup.train };
        }
        setup.train = on(self.training.over(&setup.train)?, &setup.model)?;
        setup.show = show(&setup.train, &*setup.model.model, None)?;
        ui::warn_of_prompts(&setup.show);
        setup.guidance = setup.train.guidance;
        setup.scorers = self.scorers.open()?;
        if let Some(budgets) = &self.nfe {
            setup.budgets.clone_from(budgets);
        }
        if let Some(seeds) = &self.seeds {
            setup.seeds = Seeds::parse(seeds)?;
        }
        benchmark::check_count(&setup.seeds)?;
        setup.train_seeds = self.train_seeds.seeds()?;
        if let Some(calls) = self.teacher_nfe {
            check_steps("teacher-nfe", calls)?;
            (setup.teacher_nfe, setup.train.teacher_nfe) = (calls, Some(calls));
        }
        setup.batch = check_batch(self.batch.unwrap_or(setup.batch), setup.seeds.len(), shape)?;
        let train = &mut setup.train;
        if train.loss.as_deref() == Some("clip") {
            train.clip_model = self.scorers.clip.clone();
        }
        let given = &self.training.train;
        if let (Some(iterations), None) = (given.iters, given.validate_every) {
            train.validate_every = train.validate_every.map(|every| every.min((iterations / 4).max(1)));
        }
        Ok(setup)
    }
}

/// Runs the study of that name.
pub fn run(name: &str, args: &PaperArgs, besides: impl FnOnce(&mut StudySetup), comm: &Arc<dyn Comm>) -> Result<()> {
    ui::set_threads(args.output.threads, &**comm)?;
    let study = study_named(name)?;
    let (model, usual) =
        (ModelArgs { model: args.model.clone(), options: args.options.clone() }, format!("study-{name}"));
    let out = args
        .output
        .directory_apart_from(&usual, &[model.files(), args.reference.files(), args.scorers.files()].concat())?;
    let mut setup = args.setup()?;
    besides(&mut setup);
    if args.nfe.is_none() && !study.budgets.is_empty() {
        let many = if args.quick { 2 } else { study.budgets.len() };
        setup.budgets = study.budgets[..many].to_vec();
    }
    if setup.budgets.is_empty() {
        return Err(Error::bad_value("nfe", String::new(), "at least one number of network calls"));
    }
    let experiment = study.experiment(&setup)?;
    experiment.subjects.iter().try_for_each(|subject| experiment.judging.check(subject))?;
    let Some((experiment, results)) = benchmark::results(experiment, &out, &args.output, comm)? else { return Ok(()) };
    let view = View { experiment: &experiment, results: &results };
    benchmark::report_study(study, &view, &out, &args.output)
}
