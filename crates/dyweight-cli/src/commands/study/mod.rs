//! `dyweight study`.

mod numeric;
mod paper;

use crate::args::sources;
use clap::{Args, Subcommand};
use dyweight::Result;
use dyweight::comm::Comm;
use paper::{BeyondArgs, PaperArgs, RivalArgs};
use std::sync::Arc;

/// Which experiment.
#[derive(Args)]
pub struct StudyArgs {
    #[command(subcommand)]
    study: StudyCommand,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, made of the command line")]
enum StudyCommand {
    /// The controlled numerical study: learned Adams-Bashforth weights on problems with known solutions
    Numeric(numeric::NumericArgs),
    /// All solvers over all budgets
    Main(PaperArgs),
    /// All learned solvers, trained here, beside the handcrafted ones
    Rivals(RivalArgs),
    /// Past the paper: what a wider span is worth, without a further call
    Beyond(BeyondArgs),
    /// What time shifting and time scaling are worth
    AblationTime(PaperArgs),
    /// How many past slopes a step may weigh
    Order(PaperArgs),
    /// The teacher's solver and steps
    Teacher(PaperArgs),
    /// What training starts from: weights and grid
    Init(PaperArgs),
    /// How many training pairs are needed
    Pairs(PaperArgs),
    /// What learning costs: distance against pairs and against network calls, by rule of descent
    Cost(PaperArgs),
    /// Supervision of the endpoint or of the path
    Supervision(PaperArgs),
    /// Coefficients learned on one model, used on another
    Transfer(PaperArgs),
    /// Quality against the pairs seen while training
    Convergence(PaperArgs),
    /// Slopes and loss with and without time shifting
    Stability(PaperArgs),
    /// Learned weights, their sums and the time scales for all budgets
    Coefficients(PaperArgs),
}

/// Runs the command.
pub fn run(args: &StudyArgs, comm: &Arc<dyn Comm>) -> Result<()> {
    let (name, args) = match &args.study {
        // A matter of seconds to minutes, not shared.
        StudyCommand::Numeric(_) if !comm.is_root() => return Ok(()),
        StudyCommand::Numeric(args) => return numeric::run(args),
        StudyCommand::Rivals(args) => {
            let rivals = args.setup()?;
            return paper::run("rivals", &args.paper, |setup| setup.rivals = rivals, comm);
        }
        StudyCommand::Beyond(args) => {
            return paper::run("beyond", &args.paper, |setup| setup.spans.clone_from(&args.span), comm);
        }
        StudyCommand::Main(args) => ("main", args),
        StudyCommand::AblationTime(args) => ("ablation-time", args),
        StudyCommand::Order(args) => ("order", args),
        StudyCommand::Teacher(args) => ("teacher", args),
        StudyCommand::Init(args) => ("init", args),
        StudyCommand::Pairs(args) => ("pairs", args),
        StudyCommand::Cost(args) => ("cost", args),
        StudyCommand::Supervision(args) => ("supervision", args),
        StudyCommand::Transfer(args) => ("transfer", args),
        StudyCommand::Convergence(args) => ("convergence", args),
        StudyCommand::Stability(args) => ("stability", args),
        StudyCommand::Coefficients(args) => ("coefficients", args),
    };
    paper::run(name, args, |setup| setup.rivals.files = sources(&args.solver_file), comm)
}
