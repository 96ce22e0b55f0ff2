//! `dyweight quickstart`.

use crate::benchmark::{self, OutputArgs, TrainSeedsArgs};
use crate::ui;
use clap::Args;
use dyweight::Result;
use dyweight::comm::Comm;
use dyweight::error::shown;
use dyweight::models::ModelSpec;
use dyweight::study::benchmark::View;
use dyweight::study::paper::{QUICKSTART, StudySetup};
use std::sync::Arc;
use std::time::Instant;

/// What it can be told.
#[derive(Args)]
pub struct QuickstartArgs {
    #[command(flatten)]
    train_seeds: TrainSeedsArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &QuickstartArgs, comm: &Arc<dyn Comm>) -> Result<()> {
    ui::set_threads(args.output.threads, &**comm)?;
    let started = Instant::now();
    let mut setup = StudySetup::quickstart(Arc::new(ModelSpec::named("fashion").build()?))?;
    setup.train_seeds = args.train_seeds.seeds()?;
    let experiment = QUICKSTART.experiment(&setup)?;
    let out = args.output.directory("quickstart");
    if !args.output.render_only && !args.output.dry_run {
        ui::say(&format!(
            "training DyWeight for 3, 5 and 7 network calls on the embedded model, then comparing on {} seeds; about a minute on two cores",
            setup.seeds.len()
        ));
    }
    let Some((experiment, results)) = benchmark::results(experiment, &out, &args.output, comm)? else { return Ok(()) };
    let view = View { experiment: &experiment, results: &results };
    benchmark::report_study(&QUICKSTART, &view, &out, &args.output)?;
    if !args.output.json {
        ui::say(&format!("{}; open the report in a browser", ui::duration(started.elapsed().as_secs_f64())));
        let weights = out.join("solvers").join("dyweight-nfe5.json");
        ui::say(&format!("next: dyweight sample --model fashion --weights {} --seeds 0-63 --grid", shown(&weights)));
    }
    Ok(())
}
