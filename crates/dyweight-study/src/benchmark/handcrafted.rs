//! Whom a solver that was just trained has to beat: the best handcrafted one that makes as many calls.

use super::evaluator::handcrafted;
use crate::paper::lineup;
use dyweight_core::error::{Error, Result};
use dyweight_sample::OnModel;
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
    let on =
        OnModel { model: &*config.model, identity: config.identity.clone(), calls: config.spec.calls(&*config.model)? };
    let mut best: Option<Rival> = None;
    let mut tried = 0;
    let entries = lineup(frame.prediction, frame.nfe);
    let all = entries.len();
    for entry in entries {
        watch(all);
        let Ok(sampler) = handcrafted(&entry, &on, &config.schedule) else { continue };
        let distance = match trainer.distance(dataset, &sampler.plan()) {
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
