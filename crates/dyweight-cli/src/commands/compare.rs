//! `dyweight compare`.

use crate::args::{ModelArgs, Pick, Picked, ReferenceArgs, ScorerArgs, check_batch, opened, sources};
use crate::benchmark::{self, OutputArgs, TrainSeedsArgs};
use crate::ui;
use clap::Args;
use dyweight::Result;
use dyweight::comm::Comm;
use dyweight::models::ModelSpec;
use dyweight::noise::Rng;
use dyweight::spec::budget::check_steps;
use dyweight::spec::{ScheduleSpec, Seeds, SolverSpec};
use dyweight::study::benchmark::{Experiment, Judging, Subject, View};
use dyweight::study::compare::{Field, page};
use dyweight::train::CountParallel;
use dyweight::train::plan::{named_for_the_teacher, show};
use std::path::Path;
use std::sync::Arc;

/// Everything `compare` can be told.
#[derive(Args)]
#[command(mut_arg("iters", |arg| arg.requires("train_seeds").help_heading("Training")))]
pub struct CompareArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Handcrafted solvers: NAME[:ORDER][@SCHEDULE[:EXPONENT]][+afs|-afs], as in ipndm,dpmpp:2@karras:5+afs, or 'best'
    /// for one row with the best of all [all methods]; what is left open (order, grid, analytical first step) is the
    /// best of all settings, chosen on other seeds
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 1)]
    solvers: Vec<String>,
    /// Learned solvers: files and preset:NAME; may be given several times
    #[arg(long = "weights", alias = "solver-file", value_name = "FILE|PRESET")]
    weights: Vec<String>,
    /// Network calls [those of the solver files, else 3,5,7,9]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', num_args = 1)]
    nfe: Vec<usize>,
    /// Take handcrafted solvers as they are written, at each method's defaults, instead of at their best settings
    #[arg(long, help_heading = "Solvers")]
    no_search: bool,
    /// Analytical first step for solvers that say nothing about it [the better one; off with --no-search]
    #[arg(long, help_heading = "Solvers")]
    afs: bool,
    /// Leave out solvers at budgets they cannot make instead of refusing them
    #[arg(long, help_heading = "Solvers")]
    skip_impossible: bool,
    #[command(flatten)]
    asked: Picked<Compared>,
    #[command(flatten)]
    schedule: ScheduleSpec,
    /// Seeds, one sample each
    #[arg(long, default_value = "0-1999", help_heading = "Judging")]
    seeds: String,
    /// Noise stream of a seed: native or torch
    #[arg(long, default_value = "native", value_name = "native|torch", help_heading = "Judging")]
    rng: String,
    /// Solver whose endpoints are the truth
    #[arg(long, default_value = "ipndm", value_name = "NAME", help_heading = "Judging")]
    teacher: String,
    /// Its order [the method's highest]
    #[arg(long, help_heading = "Judging")]
    teacher_order: Option<usize>,
    /// Its network calls [35, or the next number it can make]
    #[arg(long, help_heading = "Judging")]
    teacher_nfe: Option<usize>,
    /// Samples per batch; changes nothing but speed and memory
    #[arg(long, default_value_t = 64, help_heading = "Judging")]
    batch: usize,
    #[command(flatten)]
    train_seeds: TrainSeedsArgs,
    #[command(flatten)]
    reference: ReferenceArgs,
    #[command(flatten)]
    scorers: ScorerArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What of training it can be told.
struct Compared;

impl Pick for Compared {
    const OPTIONS: &'static [(&'static str, &'static str)] = &[
        ("class", "class"),
        ("prompts", "prompts"),
        ("negative", "negative"),
        ("guidance", "guidance"),
        ("iters", "iters"),
        ("count-parallel", "count-parallel"),
    ];
}

/// Runs the command.
pub fn run(args: &CompareArgs, comm: &Arc<dyn Comm>) -> Result<()> {
    ui::set_threads(args.output.threads, &**comm)?;
    let mut inputs = args.model.files();
    inputs.extend(args.reference.files());
    inputs.extend(args.scorers.files());
    let weights = sources(&args.weights);
    inputs.extend(weights.iter().map(|file| ("--weights", Path::new(file))));
    inputs.extend(args.asked.train.prompts.iter().map(|file| ("--prompts", file.as_path())));
    let out = args.output.directory_apart_from("comparison", &inputs)?;
    let seeds = Seeds::parse(&args.seeds)?;
    benchmark::check_count(&seeds)?;
    let rng = Rng::named(&args.rng)?;
    let spec = ModelSpec { beta_table: args.schedule.beta_table.clone(), ..args.model.spec(None)? };
    let model = Arc::new(opened(&spec)?);
    let reference = args.reference.open(&model)?;
    args.reference.refuse_idle(reference.is_some())?;
    // What is judged is what is learned for.
    let mut spec = args.asked.on(&model)?;
    let once = spec.count_parallel.take() == Some(CountParallel::Once);
    let show = show(&spec, &*model.model, None)?;
    ui::warn_of_prompts(&show);
    let subject = Subject { show, guidance: spec.guidance, ..Subject::new(model) };
    subject.check()?;
    let budgets = if args.nfe.is_empty() && args.weights.is_empty() { vec![3, 5, 7, 9] } else { args.nfe.clone() };
    let train_seeds = args.train_seeds.seeds()?;
    let train = (!train_seeds.is_empty()).then_some(spec);
    let field = Field {
        solvers: args.solvers.clone(),
        files: sources(&args.weights),
        budgets,
        schedule: args.schedule.clone(),
        search: !args.no_search,
        afs: args.afs.then_some(true),
        once,
        skip_impossible: args.skip_impossible,
        train,
    };
    let entries = field.entries(&subject)?;
    args.teacher_nfe.map_or(Ok(()), |nfe| check_steps("teacher-nfe", nfe))?;
    let batch = check_batch(args.batch, seeds.len(), subject.model.model.shape())?;
    let judging = Judging {
        seeds,
        rng,
        teacher: SolverSpec { order: args.teacher_order, ..SolverSpec::named(&args.teacher) },
        teacher_nfe: args.teacher_nfe,
        schedule: ScheduleSpec::default(),
        reference,
        judge: None,
        scorers: args.scorers.open()?,
        batch,
        pictures: true,
    };
    judging.check(&subject).map_err(named_for_the_teacher)?;
    let experiment = Experiment::new("compare", vec![subject], entries, judging)?;
    let experiment = if train_seeds.is_empty() { experiment } else { experiment.with_train_seeds(&train_seeds) };
    experiment.misfits()?.iter().for_each(|misfit| ui::warn(misfit));
    let Some((experiment, results)) = benchmark::results(experiment, &out, &args.output, comm)? else { return Ok(()) };
    let view = View { experiment: &experiment, results: &results };
    let page = page(&view, benchmark::repeat(&args.output))?;
    benchmark::report(&view, &page, &[], &out, &args.output)
}
