//! Whom a solver that was just trained has to beat: the best handcrafted one that makes as many calls ([`dyweight_train::handcrafted`]).

use dyweight_core::error::Result;
use dyweight_train::{Dataset, Frame, Trainer};

pub use dyweight_train::handcrafted::Rival;

/// The best of the handcrafted solvers that can make as many calls as one of a run's frames: searched on its training pairs, judged on its validation
/// pairs; none where no one can. `watch` is told before each how many there are. Every process must call it.
pub fn best_handcrafted(
    trainer: &Trainer,
    dataset: &Dataset,
    frame: &Frame,
    watch: &mut dyn FnMut(usize),
) -> Result<Option<Rival>> {
    trainer.best_handcrafted(dataset, frame.nfe, watch)
}
