//! What keeps training from doing harm: validation, roll-back, early stop.
//!
//! The parameters with the lowest validation loss are what training returns; the initial ones count, so a run that only
//! gets worse returns its start. A loss that explodes, or stays well above the best for long, puts the best parameters
//! back and halves the rate. The bounds are wide on purpose: good runs pass through worse places, and going back too
//! soon costs more than it saves.

/// A validation loss this many times the initial one is an explosion.
const EXPLODED: f64 = 3.0;
/// A batch's loss this many times the initial validation loss is no chance.
const FAR: f64 = 8.0;
/// A loss this many times the best, for [`ADRIFT`] validations in a row, has left for good.
const WORSE: f64 = 2.0;
/// See [`WORSE`].
const ADRIFT: usize = 12;
/// An improvement smaller than this fraction does not count against patience.
const IMPROVEMENT: f64 = 1e-3;

/// The memory of validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// Parameters with the lowest validation loss.
    pub best: Vec<f64>,
    /// Their loss.
    pub best_loss: f64,
    /// Loss of the initial parameters.
    pub initial_loss: f64,
    /// Validations since the best improved noticeably.
    pub flat: usize,
    /// Validations in a row that were much worse than the best.
    pub adrift: usize,
    /// Factor on the rate, halved by every roll-back.
    pub rate_scale: f64,
    /// Roll-backs so far.
    pub rollbacks: usize,
}

/// What a validation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The best so far.
    Best,
    /// Neither best nor alarming.
    Fine,
    /// Go back to the best.
    RollBack,
}

impl Guard {
    /// Starts from the initial parameters and their loss.
    pub fn new(values: &[f64], loss: f64) -> Self {
        Self {
            best: values.to_vec(),
            best_loss: loss,
            initial_loss: loss,
            flat: 0,
            adrift: 0,
            rate_scale: 1.0,
            rollbacks: 0,
        }
    }

    /// Judges parameters by their validation loss.
    pub fn judge(&mut self, values: &[f64], loss: f64) -> Judgement {
        self.flat = if loss < self.best_loss * (1.0 - IMPROVEMENT) { 0 } else { self.flat + 1 };
        if loss < self.best_loss {
            self.best_loss = loss;
            self.best = values.to_vec();
            self.adrift = 0;
            return Judgement::Best;
        }
        self.adrift = if loss <= self.best_loss * WORSE { 0 } else { self.adrift + 1 };
        let exploded = !loss.is_finite() || loss > self.initial_loss * EXPLODED;
        if exploded || self.adrift >= ADRIFT { Judgement::RollBack } else { Judgement::Fine }
    }

    /// True if a batch's loss is further above that of the start than chance explains.
    pub(crate) fn is_far(&self, loss: f64) -> bool {
        loss > self.initial_loss * FAR
    }

    /// Notes a roll-back.
    pub(crate) fn roll_back(&mut self) {
        self.rate_scale *= 0.5;
        self.rollbacks += 1;
        self.adrift = 0;
    }

    /// True if nothing improved for `patience` validations.
    pub(crate) fn is_flat(&self, patience: Option<usize>) -> bool {
        patience.is_some_and(|p| self.flat >= p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_kept_and_disasters_are_seen() {
        let mut guard = Guard::new(&[0.0], 1.0);
        assert_eq!(guard.judge(&[1.0], 0.5), Judgement::Best);
        assert_eq!(guard.judge(&[2.0], 0.6), Judgement::Fine);
        assert_eq!(guard.judge(&[3.0], 3.5), Judgement::RollBack);
        assert_eq!(guard.judge(&[3.0], f64::NAN), Judgement::RollBack);
        assert!(guard.is_far(8.5) && !guard.is_far(7.5));
        assert_eq!((guard.best.as_slice(), guard.best_loss), (&[1.0][..], 0.5));
        guard.roll_back();
        assert_eq!((guard.rate_scale, guard.rollbacks), (0.5, 1));
        let verdicts: Vec<Judgement> = (0..ADRIFT).map(|_| guard.judge(&[4.0], 1.2)).collect();
        assert_eq!(verdicts.iter().filter(|v| **v == Judgement::RollBack).count(), 1);
        assert!(guard.is_flat(Some(5)) && !guard.is_flat(None));
    }
}
