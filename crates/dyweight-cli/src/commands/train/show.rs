//! What a person sees while a solver is trained.

use crate::ui;
use dyweight::error::shown;
use dyweight::train::TrainPlan;
use dyweight::train::{Event, Iteration, Training};
use std::path::PathBuf;
use std::time::Instant;

/// Progress, warnings and an estimate of the time.
pub struct TrainShow {
    progress: ui::Progress,
    /// The last validation loss; none before the first.
    validation: Option<f64>,
    /// The first iteration seen: later than 0 if the run was resumed.
    first: Option<usize>,
    iterations: usize,
    /// What a resumed run goes on from.
    state: Option<PathBuf>,
    started: Instant,
    estimated: bool,
}

impl TrainShow {
    pub fn new(state: Option<PathBuf>, plan: &TrainPlan, calls: usize) -> Self {
        let (what, iterations) = (format!("training {calls} calls"), plan.recipe.iterations());
        let (mut progress, started) = (ui::Progress::new(&what, iterations), Instant::now());
        progress.note(if iterations == 0 { "· searching" } else { "· validating the start" });
        Self { progress, validation: None, first: None, iterations, state, started, estimated: false }
    }

    pub fn iteration(&mut self, iteration: &Iteration, run: &Training) {
        if let Some(validation) = iteration.validation {
            self.validation = Some(validation.loss);
            if validation.event == Event::RolledBack {
                let rate =
                    run.recipe().phases[0].groups[0].rate.base * run.guard.as_ref().map_or(1.0, |g| g.rate_scale);
                ui::warn(&format!(
                    "iteration {}: the loss has run away; back to the best parameters with rate {rate:.2e}",
                    iteration.index
                ));
            }
        }
        let first = *self.first.get_or_insert(iteration.index);
        if iteration.index == first {
            self.started = Instant::now();
            self.progress.skip(first);
            if let Some(state) = &self.state {
                ui::say(&format!("resuming {}", shown(state)));
            }
        }
        if !self.estimated && iteration.index >= first + 2 {
            self.estimate(iteration.index - first, self.iterations - first);
        }
        let step_is = run.recipe().step_is();
        let initial = run.guard.as_ref().map(|g| g.initial_loss);
        let against = match (initial, self.validation) {
            (Some(start), Some(now)) => format!(" · validation {now:.2e} (start {start:.2e})"),
            (Some(start), None) => format!(" · validation {start:.2e} at the start"),
            (None, _) => String::new(),
        };
        self.progress.add(1, &format!("· loss {:.2e}{against} · {step_is} {:.1e}", iteration.loss, iteration.rate));
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
