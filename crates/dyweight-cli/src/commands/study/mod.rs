//! `dyweight study`.

mod numeric;
mod paper;

use clap::{Args, Subcommand};
use dyweight::Result;
use dyweight::comm::Comm;
use paper::PaperArgs;

/// Which experiment.
#[derive(Args)]
pub struct StudyArgs {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    /// The controlled numerical study: learned Adams-Bashforth weights on problems with known solutions
    Numeric(numeric::NumericArgs),
    /// All solvers over all budgets
    Main(PaperArgs),
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
pub fn run(args: &StudyArgs, comm: &dyn Comm) -> Result<()> {
    let (name, args) = match &args.study {
        // A matter of seconds to minutes, not shared.
        Study::Numeric(_) if !comm.is_first() => return Ok(()),
        Study::Numeric(args) => return numeric::run(args),
        Study::Main(args) => ("main", args),
        Study::AblationTime(args) => ("ablation-time", args),
        Study::Order(args) => ("order", args),
        Study::Teacher(args) => ("teacher", args),
        Study::Init(args) => ("init", args),
        Study::Pairs(args) => ("pairs", args),
        Study::Supervision(args) => ("supervision", args),
        Study::Transfer(args) => ("transfer", args),
        Study::Convergence(args) => ("convergence", args),
        Study::Stability(args) => ("stability", args),
        Study::Coefficients(args) => ("coefficients", args),
    };
    paper::run(name, args, comm)
}
