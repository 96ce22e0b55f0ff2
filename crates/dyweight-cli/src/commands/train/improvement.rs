//! What training was worth: the distance to the teacher against that of the best handcrafted solver at equal calls.

use super::show::Phases;
use crate::ui;
use dyweight::Result;
use dyweight::error::counted;
use dyweight::train::handcrafted::Rival;
use dyweight::train::{Dataset, TrainOutcome, Trainer};

/// Ours and theirs.
pub struct Improvement {
    /// Network calls.
    pub nfe: usize,
    /// Root mean squared difference to the teacher of what was learned.
    pub distance: f64,
    /// The best of the others.
    pub rival: Rival,
}

/// None for a plain run, which has no validation pairs, and where no handcrafted solver makes as many calls.
pub fn gain(
    trainer: &Trainer,
    dataset: &Dataset,
    trained: &TrainOutcome,
    phases: Phases,
) -> Result<Option<Improvement>> {
    if trained.run.guard.is_none() {
        return Ok(None);
    }
    let nfe = trainer.plan.student.frame.nfe;
    let distance = trainer.distance_of(dataset, trained)?;
    let mut progress = None;
    let rival = trainer.best_handcrafted(dataset, nfe, &mut |all| match &mut progress {
        None => {
            let title = phases.title(Phases::COMPARISON, "comparing with handcrafted solvers");
            progress = Some(ui::Progress::new(&title, all));
        }
        Some(progress) => progress.add(1, ""),
    })?;
    if let Some(progress) = progress {
        progress.finish();
    }
    Ok(rival.map(|rival| Improvement { nfe, distance, rival }))
}

impl Improvement {
    /// True if a handcrafted solver is as close: then there is nothing to hand out.
    pub fn is_none(&self) -> bool {
        self.distance >= self.rival.distance
    }

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_not_called_a_gain() {
        let gain = |distance: f64| Improvement {
            nfe: 3,
            distance,
            rival: Rival { name: "Heun".into(), distance: 0.2, tried: 3 },
        };
        assert!(gain(0.1).sentence().starts_with("3 calls: 50 % closer to the teacher than Heun, the best of 3 "));
        assert!(gain(0.25).sentence().contains("25 % further from the teacher than Heun"));
        assert!(gain(0.2004).sentence().starts_with("3 calls: as close to the teacher as Heun, the best"));
    }
}
