//! `dyweight compare`.

use crate::args::{ModelArgs, ReferenceArgs, ScheduleArgs, unknown};
use crate::contest::{self, OutputArgs};
use crate::ui;
use clap::Args;
use dyweight::Result;
use dyweight::comm::Comm;
use dyweight::noise::Rng;
use dyweight::spec::{ScheduleSpec, Seeds, SolverSpec};
use dyweight::study::compare::{Field, page};
use dyweight::study::contest::{Experiment, Judging, Subject, View};
use std::sync::Arc;

/// Everything `compare` can be told.
#[derive(Args)]
pub struct CompareArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Handcrafted solvers: NAME[:ORDER][@SCHEDULE][+afs|-afs], as in ipndm:3,dpmpp:2@logsnr+afs
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 1)]
    solvers: Vec<String>,
    /// Learned solvers: files and preset:NAME; may be given several times
    #[arg(long, value_name = "FILE|preset:NAME", value_delimiter = ',', num_args = 1)]
    solver_file: Vec<String>,
    /// Network calls [those of the solver files, else 3,5,7,9]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', num_args = 1)]
    nfe: Vec<usize>,
    /// Analytical first step for solvers that say nothing about it
    #[arg(long)]
    afs: bool,
    /// Leave out solvers at budgets they cannot make instead of refusing them
    #[arg(long)]
    skip_impossible: bool,
    /// One class [drawn for each seed, where the model has classes]
    #[arg(long)]
    class: Option<usize>,
    /// Classifier-free guidance; every evaluation then costs two calls
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true)]
    guidance: Option<f64>,
    #[command(flatten)]
    schedule: ScheduleArgs,
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
    /// Its evaluations
    #[arg(long, default_value_t = 35, help_heading = "Judging")]
    teacher_nfe: usize,
    /// Samples per batch; changes nothing but speed and memory
    #[arg(long, default_value_t = 64, help_heading = "Judging")]
    batch: usize,
    #[command(flatten)]
    reference: ReferenceArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &CompareArgs, comm: &dyn Comm) -> Result<()> {
    ui::set_threads(args.output.threads, comm)?;
    let seeds = Seeds::parse(&args.seeds)?;
    contest::check_count(&seeds)?;
    let rng = match args.rng.as_str() {
        "native" => Rng::Native,
        "torch" => Rng::Torch,
        other => return Err(unknown("noise stream", other, &["native", "torch"])),
    };
    let model = Arc::new(args.model.spec(None)?.build()?);
    let reference = args.reference.open(&model)?;
    let subject = Subject { class: args.class, guidance: args.guidance, ..Subject::new(model) };
    subject.check()?;
    let budgets = if args.nfe.is_empty() && args.solver_file.is_empty() { vec![3, 5, 7, 9] } else { args.nfe.clone() };
    let field = Field {
        solvers: args.solvers.clone(),
        files: args.solver_file.clone(),
        budgets,
        schedule: args.schedule.spec(),
        afs: args.afs,
        skip_impossible: args.skip_impossible,
    };
    let entries = field.entries(&subject)?;
    let judging = Judging {
        seeds,
        rng,
        teacher: SolverSpec { order: args.teacher_order, ..SolverSpec::named(&args.teacher) },
        teacher_nfe: args.teacher_nfe,
        schedule: ScheduleSpec::default(),
        reference,
        batch: contest::check_batch(args.batch)?,
    };
    let experiment = Experiment { name: "compare".into(), subjects: vec![subject], entries, judging };
    let out = args.output.directory("comparison");
    let Some(results) = contest::results(&experiment, &out, &args.output, comm)? else { return Ok(()) };
    let view = View { experiment: &experiment, results: &results };
    let page = page(&view, contest::command_line(), args.output.shows_times())?;
    contest::report(&view, &page, &[], &out, &args.output)
}
