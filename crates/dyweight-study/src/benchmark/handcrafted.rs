//! Whom a solver that was just trained has to beat: the best handcrafted one that makes as many calls.

use super::evaluator::Ready;
use super::experiment::Entry;
use dyweight_core::error::{Error, Result};
use dyweight_solvers::spec::handcrafted::{Fixed, settings};
use dyweight_train::{Dataset, Frame, Trainer};

/// A handcrafted solver and how it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// Root mean squared difference to the teacher.
    pub distance: f64,
    /// How many were tried.
    pub tried: usize,
}

/// The best of the handcrafted solvers that can make as many calls as one of a run's frames, on its validation pairs; none where no one can.
/// `watch` is told before each how many there are. Every process must call it.
pub fn best_handcrafted(
    trainer: &Trainer,
    dataset: &Dataset,
    frame: &Frame,
    watch: &mut dyn FnMut(usize),
) -> Result<Option<Rival>> {
    let config = trainer.config();
    let calls = config.spec.calls(&*config.model)?;
    let mut best: Option<Rival> = None;
    let mut tried = 0;
    let settings = settings(frame.prediction, &Fixed::default())?;
    let all = settings.len();
    for setting in settings {
        let entry = Entry::new(setting.term(), frame.nfe, (&setting).into());
        watch(all);
        let Ok(ready) = Ready::handcrafted(&entry, &*config.model, calls, &config.schedule) else { continue };
        let distance = match trainer.distance(dataset, &ready.plan()) {
            // It diverged, or left the levels the network takes.
            Err(Error::Diverged { .. } | Error::BadValue { .. }) => f64::INFINITY,
            other => other?,
        };
        tried += 1;
        if distance.is_finite() && best.as_ref().is_none_or(|b| distance < b.distance) {
            best = Some(Rival { name: entry.row, distance, tried });
        }
    }
    Ok(best.map(|best| Rival { tried, ..best }))
}
