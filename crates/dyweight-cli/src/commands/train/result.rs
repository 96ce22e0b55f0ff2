//! What training leaves behind: the solver file, its figures, and a line for the person or program that asked.

use super::job::Job;
use super::options::TrainArgs;
use crate::ui;
use dyweight::checkpoint::SolverFile;
use dyweight::report::{LossCurve, coefficients};
use dyweight::spec::TrainSpec;
use dyweight::train::{Files, Training};
use dyweight::{Error, Result};
use serde_json::{Value, json};

impl Job<'_> {
    /// The solver file of a finished run.
    pub fn solver_file(&self, spec: &TrainSpec, run: &Training<'_>, baseline: Option<f64>) -> Result<SolverFile> {
        let mut file = self.plan.solver_file(self.model, spec, run, &run.result())?;
        if run.guard.is_some() {
            file.training.insert("ipndm_loss".into(), json!(baseline));
        }
        Ok(file)
    }

    /// The loss curve and the coefficients beside the solver file: `solver.loss.svg`, `solver.weights.svg` and their PNGs.
    pub fn draw(&self, files: &Files, file: &SolverFile, baseline: Option<f64>) -> Result<()> {
        let text = std::fs::read_to_string(&files.log).map_err(|e| Error::io("read", &files.log, e))?;
        let mut curve = LossCurve { baseline: baseline.map(|b| ("iPNDM".into(), b)), ..LossCurve::default() };
        for line in text.lines() {
            let facts: Value = serde_json::from_str(line).unwrap_or_default();
            let iteration = facts["iteration"].as_f64().unwrap_or(0.0);
            curve.training.extend(facts["loss"].as_f64().map(|l| (iteration, l)));
            curve.validation.extend(facts["validation"].as_f64().map(|l| (iteration, l)));
        }
        let title = format!("{}: {} calls", self.model.name, self.plan.nfe);
        curve.figure(&title).draw()?.write(&self.out.with_extension("loss"))?;
        coefficients(&title, &file.weights, &file.time_scale).draw()?.write(&self.out.with_extension("weights"))
    }

    pub fn report(&self, args: &TrainArgs, run: &Training<'_>, baseline: Option<f64>, seconds: f64) {
        let guard = run.guard.as_ref();
        if args.json {
            ui::print_json(&json!({
                "out": self.out, "nfe": self.plan.nfe, "iterations": run.iteration, "seconds": seconds,
                "validation_loss": guard.map(|g| g.best_loss), "initial_loss": guard.map(|g| g.initial_loss),
                "ipndm_loss": baseline, "rollbacks": guard.map(|g| g.rollbacks),
            }));
            return;
        }
        let iterations = run.iteration;
        eprint!("{} calls: {iterations} iterations in {}", self.plan.nfe, ui::duration(seconds));
        if let (Some(guard), Some(baseline)) = (guard, baseline) {
            let ratio = baseline / guard.best_loss;
            eprint!("; validation loss {:.3e}, iPNDM {baseline:.3e} ({ratio:.1}x)", guard.best_loss);
            if guard.best_loss >= guard.initial_loss {
                eprint!("; training found nothing better than its start, which is what was written");
            }
            if guard.rollbacks > 0 {
                eprint!("; rolled back {} times", guard.rollbacks);
            }
        }
        eprintln!();
        ui::print(&self.out.display().to_string());
    }
}
