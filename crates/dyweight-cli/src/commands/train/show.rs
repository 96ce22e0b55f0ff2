//! What a person sees while a solver is trained.

use crate::ui;
use dyweight::spec::TrainPlan;
use dyweight::train::{Event, Iteration, Training};
use std::time::Instant;

/// Progress, warnings and an estimate of the time.
pub struct Show {
    progress: ui::Progress,
    baseline: Option<f64>,
    validation: f64,
    /// Iterations made before, by the run that was resumed.
    first: usize,
    started: Instant,
    estimated: bool,
}

impl Show {
    pub fn new(plan: &TrainPlan, baseline: Option<f64>, first: usize) -> Self {
        let what = format!("training {} calls", plan.nfe);
        let progress = ui::Progress::new(&what, plan.recipe.rate.iterations - first);
        Self { progress, baseline, validation: f64::NAN, first, started: Instant::now(), estimated: false }
    }

    pub fn iteration(&mut self, iteration: &Iteration, run: &Training<'_>) {
        if let Some(validation) = iteration.validation {
            self.validation = validation.loss;
            if validation.event == Event::RolledBack {
                let rate = run.guard.as_ref().map_or(1.0, |g| g.rate_scale) * run.recipe().rate.base;
                ui::warn(&format!(
                    "iteration {}: the loss has run away; back to the best parameters with rate {rate:.2e}",
                    iteration.index
                ));
            }
        }
        if !self.estimated && iteration.index >= self.first + 2 {
            self.estimate(iteration.index - self.first, run.recipe().rate.iterations - self.first);
        }
        let against =
            self.baseline.map_or(String::new(), |b| format!(" · validation {:.2e} (iPNDM {b:.2e})", self.validation));
        self.progress.add(1, &format!("· loss {:.2e}{against} · rate {:.1e}", iteration.loss, iteration.rate));
    }

    /// Says how long it will take once two iterations have shown it, if that is long enough to matter.
    fn estimate(&mut self, done: usize, all: usize) {
        self.estimated = true;
        let seconds = self.started.elapsed().as_secs_f64() / (done + 1) as f64 * all as f64;
        if seconds > 5.0 {
            ui::say(&format!("about {} for {all} iterations", ui::duration(seconds)));
        }
    }

    pub fn finish(self) {
        self.progress.finish();
    }
}
