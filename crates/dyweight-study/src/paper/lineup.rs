//! The handcrafted solvers everyone compares with, at a budget: each on the grid its authors recommend, and on the common one.
//!
//! As in the paper all start with the analytical first step where the model allows it. Methods of two calls per step can then
//! make only odd numbers of calls; at even budgets they start with a call.

use super::super::benchmark::{Entry, Term};
use dyweight_core::denoiser::Prediction;
use dyweight_solvers::spec::ScheduleSpec;

const DENOISED: &[(&str, &str)] = &[
    ("Euler (DDIM)", "euler"),
    ("Heun", "heun"),
    ("DPM-Solver-2", "dpm2"),
    ("iPNDM-3", "ipndm:3"),
    ("iPNDM-4", "ipndm:4"),
    ("DEIS-tAB3", "deis-tab:3"),
    ("DPM-Solver++(2M)", "dpmpp:2"),
    ("DPM-Solver++(2M), logSNR", "dpmpp:2@logsnr"),
    ("DPM-Solver++(3M), logSNR", "dpmpp:3@logsnr"),
    ("UniPC-2", "unipc:2"),
    ("UniPC-3, logSNR", "unipc:3@logsnr"),
];

const VELOCITY: &[(&str, &str)] = &[
    ("Euler (DDIM)", "euler"),
    ("Heun", "heun"),
    ("iPNDM-3", "ipndm:3"),
    ("iPNDM-4", "ipndm:4"),
    ("DPM-Solver++(2M)", "dpmpp:2"),
    ("UniPC-2", "unipc:2"),
    ("UniPC-3", "unipc:3"),
];

/// All that can make exactly `nfe` calls.
pub fn lineup(prediction: Prediction, nfe: usize) -> Vec<Entry> {
    let denoised = prediction == Prediction::Denoised;
    let terms = if denoised { DENOISED } else { VELOCITY };
    let entry = |(name, term): &(&str, &str)| {
        let term = Term::parse(term).ok()?;
        let two_calls = matches!(term.solver.solver.as_str(), "heun" | "dpm2");
        let afs = denoised && (!two_calls || nfe % 2 == 1);
        // Without the analytical first step two calls per step make no odd number.
        let possible = !two_calls || afs || nfe.is_multiple_of(2);
        possible.then(|| Entry::new(*name, nfe, term.candidate(&ScheduleSpec::default(), afs)))
    };
    terms.iter().filter_map(entry).collect()
}
