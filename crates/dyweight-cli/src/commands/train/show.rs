//! What a person sees while a solver is trained.

use crate::ui;
use dyweight::Result;
use dyweight::error::{counted, shown};
use dyweight::train::{Event, Iteration, StartSearch, TrainWatch, Trainer, Training};
use std::path::PathBuf;
use std::time::Instant;

/// Progress, warnings and an estimate of the time.
pub struct TrainShow {
    calls: usize,
    phases: Phases,
    /// Of the search for a start, then of the iterations, then of the comparison.
    progress: Option<ui::Progress>,
    /// True once what will run is settled.
    has_begun: bool,
    /// True once all iterations are made.
    is_compared: bool,
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

/// What a training is made of: the search for a start, where there is one, the iterations, and the closing comparison.
#[derive(Clone, Copy)]
pub struct Phases {
    pub searches: bool,
    pub compares: bool,
}

impl Phases {
    pub const SEARCH: usize = 0;
    pub const TRAINING: usize = 1;
    pub const COMPARISON: usize = 2;

    /// "[2/3] training 3 calls".
    pub fn title(self, phase: usize, what: &str) -> String {
        let before = usize::from(!self.searches);
        let all = 3 - before - usize::from(!self.compares);
        if all == 1 { what.into() } else { format!("[{}/{all}] {what}", phase + 1 - before) }
    }
}

impl TrainShow {
    pub fn new(state: Option<PathBuf>, calls: usize, phases: Phases) -> Self {
        let (progress, started) = (None, Instant::now());
        let (validation, first) = (None, None);
        let (has_begun, is_compared, iterations, estimated) = (false, false, 0, false);
        Self {
            calls,
            phases,
            progress,
            has_begun,
            is_compared,
            validation,
            first,
            iterations,
            state,
            started,
            estimated,
        }
    }

    /// Says how long it will take once two iterations have shown it, if that is long enough to matter.
    fn estimate(&mut self, done: usize, all: usize) {
        self.estimated = true;
        let seconds = self.started.elapsed().as_secs_f64() / (done + 1) as f64 * all as f64;
        if seconds > 5.0 {
            ui::say(&format!("about {} for {all} iterations", ui::duration(seconds)));
        }
    }

    /// True if what ran was settled.
    pub fn finish(self) -> bool {
        self.progress.into_iter().for_each(ui::Progress::finish);
        self.has_begun
    }
}

impl TrainWatch for TrainShow {
    fn searching(&mut self, all: usize) {
        match &mut self.progress {
            None => {
                self.progress = Some(ui::Progress::new(&self.phases.title(Phases::SEARCH, "choosing the start"), all))
            }
            Some(progress) => progress.add(1, ""),
        }
    }

    fn settled(&mut self, trainer: &Trainer, search: Option<&StartSearch>) {
        self.progress.take().into_iter().for_each(ui::Progress::finish);
        if trainer.config().comm.is_root() {
            let sentence = search.and_then(StartSearch::sentence);
            sentence.iter().for_each(|sentence| ui::say(&format!("{}: {sentence}", counted(self.calls, "call"))));
            if let Some(samples) = trainer.variety_samples() {
                ui::say(&format!("at the end {samples} samples each of start, result and teacher are compared"));
            }
        }
        (self.has_begun, self.iterations) = (true, trainer.iterations());
        let what = format!("training {}", counted(self.calls, "call"));
        let mut progress = ui::Progress::new(&self.phases.title(Phases::TRAINING, &what), self.iterations);
        progress.note(if self.iterations == 0 { "· searching" } else { "· validating the start" });
        self.progress = Some(progress);
    }

    fn comparing(&mut self, all: usize) {
        if !std::mem::replace(&mut self.is_compared, true) {
            self.progress.take().into_iter().for_each(ui::Progress::finish);
        }
        match &mut self.progress {
            None => {
                let title = self.phases.title(Phases::COMPARISON, "comparing with handcrafted solvers");
                self.progress = Some(ui::Progress::new(&title, all));
            }
            Some(progress) => progress.add(1, ""),
        }
    }

    fn iteration(&mut self, iteration: &Iteration, run: &Training) -> Result<()> {
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
            self.progress.iter_mut().for_each(|progress| progress.skip(first));
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
        let note = format!("· loss {:.2e}{against} · {step_is} {:.1e}", iteration.loss, iteration.rate);
        self.progress.iter_mut().for_each(|progress| progress.add(1, &note));
        ui::go_on()
    }
}

#[cfg(test)]
mod tests {
    use super::Phases;

    #[test]
    fn the_closing_comparison_is_a_phase() {
        let title = |searches, compares, phase| Phases { searches, compares }.title(phase, "x");
        assert_eq!(title(true, true, Phases::SEARCH), "[1/3] x");
        assert_eq!(title(true, true, Phases::COMPARISON), "[3/3] x");
        assert_eq!(title(false, true, Phases::TRAINING), "[1/2] x");
        assert_eq!(title(false, true, Phases::COMPARISON), "[2/2] x");
        assert_eq!(title(false, false, Phases::TRAINING), "x");
    }
}
