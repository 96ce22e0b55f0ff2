//! What a training was worth: the distance to the teacher beside that of the best handcrafted solver of as many calls.
//!
//! It is written into the solver file, so that a solver which a handcrafted one beats says so wherever it is used
//! ([`SolverFile::without_gain`](dyweight_solvers::solver_file::SolverFile::without_gain)).

use crate::handcrafted::Rival;
use crate::trainer::{Dataset, TrainOutcome, Trainer};
use dyweight_core::error::{Result, counted};
use serde_json::{Map, Value, json};

/// Ours and theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// Network calls.
    pub nfe: usize,
    /// Root mean squared difference to the teacher of what was learned, over the validation pairs.
    pub distance: f64,
    /// The best of the others.
    pub rival: Rival,
}

impl Trainer {
    /// None for a plain run, which has no validation pairs, and where no handcrafted solver makes as many calls.
    /// `watch` is told before each trial how many there are. Every process must call it.
    pub fn gain(
        &self,
        dataset: &Dataset,
        trained: &TrainOutcome,
        watch: &mut dyn FnMut(usize),
    ) -> Result<Option<Gain>> {
        if trained.run.guard.is_none() {
            return Ok(None);
        }
        let nfe = self.plan.student.frame.nfe;
        let distance = self.distance_of(dataset, trained)?;
        let rival = self.best_handcrafted(dataset, nfe, watch)?;
        Ok(rival.map(|rival| Gain { nfe, distance, rival }))
    }
}

impl Gain {
    /// As a person would say it.
    pub fn sentence(&self) -> String {
        let Self { nfe, distance, rival: Rival { name, distance: other, tried, .. } } = self;
        let percent = 100.0 * (1.0 - distance / other);
        let how = match percent {
            p if p.abs() < 0.5 => "as close to the teacher as".into(),
            p if p < 0.0 => format!("{:.0} % further from the teacher than", p.abs()),
            p => format!("{p:.0} % closer to the teacher than"),
        };
        format!(
            "{}: {how} {name}, the best of {tried} handcrafted settings \
             ({distance:.4} against {other:.4} on the validation pairs)",
            counted(*nfe, "call")
        )
    }

    /// What a solver file says of it.
    pub fn facts(&self) -> Map<String, Value> {
        let Self { distance, rival, .. } = self;
        let facts = json!({
            "distance": distance, "best_handcrafted": rival.name, "best_handcrafted_distance": rival.distance,
            "handcrafted_settings": rival.tried,
        });
        facts.as_object().cloned().unwrap_or_default()
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
        assert!(gain(0.25).sentence().contains("25 % further from the teacher than Heun"));
        assert!(gain(0.2004).sentence().starts_with("3 calls: as close to the teacher as Heun, the best"));
    }
}
