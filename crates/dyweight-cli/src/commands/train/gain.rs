//! What training was worth: the distance to the teacher against that of the best handcrafted solver at equal calls.

use super::job::Job;
use crate::ui;
use dyweight::study::contest::{Rival, best_handcrafted};
use dyweight::train::{Frame, Pairing, Trained};
use dyweight::{Error, Result};

/// Ours and theirs.
pub struct Gain {
    /// Network calls.
    pub nfe: usize,
    /// Root mean squared difference to the teacher of what was learned.
    pub distance: f64,
    /// The best of the others.
    pub rival: Rival,
}

impl Job<'_> {
    /// One for each budget; none for a plain run, which has no validation pairs, and where no handcrafted solver makes as many calls. The solver is
    /// on disk: whoever does not want to wait loses nothing.
    pub fn gains(&self, pairing: &Pairing, trained: &Trained) -> Result<Vec<Gain>> {
        let mut gains = Vec::new();
        if trained.run.guard.is_none() {
            return Ok(gains);
        }
        for frame in self.prepared.frames() {
            match self.gain(pairing, trained, frame) {
                Err(Error::Cancelled) => {
                    ui::say("the comparison with handcrafted solvers was left out");
                    break;
                }
                gain => gains.extend(gain?),
            }
        }
        Ok(gains)
    }

    fn gain(&self, pairing: &Pairing, trained: &Trained, frame: &Frame) -> Result<Option<Gain>> {
        let distance = self.prepared.distance_of(pairing, trained, frame)?;
        let mut progress = None;
        let rival = best_handcrafted(&self.prepared, pairing, frame, &mut |all| match &mut progress {
            None => progress = Some(ui::Progress::new("comparing with handcrafted solvers", all)),
            Some(progress) => progress.add(1, ""),
        })?;
        if let Some(progress) = progress {
            progress.finish();
        }
        Ok(rival.map(|rival| Gain { nfe: frame.nfe, distance, rival }))
    }
}

impl Gain {
    /// As a person would say it.
    pub fn sentence(&self) -> String {
        let Self { nfe, distance, rival: Rival { name, distance: other, tried } } = self;
        let percent = 100.0 * (1.0 - distance / other);
        let word = if percent < 0.0 { "further from" } else { "closer to" };
        format!(
            "{nfe} calls: {:.0} % {word} the teacher than {name}, the best of {tried} handcrafted solvers \
             ({distance:.4} against {other:.4} on the validation pairs)",
            percent.abs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_not_called_a_gain() {
        let gain =
            |distance: f64| Gain { nfe: 3, distance, rival: Rival { name: "Heun".into(), distance: 0.2, tried: 3 } };
        assert!(gain(0.1).sentence().starts_with("3 calls: 50 % closer to the teacher than Heun, the best of 3 "));
        assert!(gain(0.25).sentence().contains("25 % further from the teacher"));
    }
}
