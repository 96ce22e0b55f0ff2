//! Whether a second stage is better by features it was not trained on, and has kept the variety of its start.
//!
//! A loss of all samples at once ([`Joint`]) can be lowered by samples that are better and fewer of a kind. So what
//! such a training has found is compared with its start on noise that nothing else uses, among samples of the teacher
//! on other noise still: how many of the student's look like the teacher's (precision), and how many of the teacher's
//! look like the student's (recall). A share that has fallen by more than twice the standard error of the difference is
//! lost, and then the start is the result. Both students have the same noise, so what they share drops out of that
//! error.
//!
//! It can also be lowered in the eyes of its own features alone. So all of this is seen by those of another network
//! where there is one, and by their distance to the real images: where it has risen by more than twice its error, the
//! start is the result, too.

use crate::joint::Joint;
use crate::trainer::Trainer;
use crate::training::Training;
use dyweight_core::error::Result;
use dyweight_core::features::{Share, Variety};
use dyweight_sample::{in_parts, unit};
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;

/// Fewer samples say nothing.
const FEWEST: usize = 64;

/// Variety as a solver file keeps it.
pub(crate) fn facts(variety: &Variety) -> Value {
    let share = |share: &Share| json!({ "before": share.before, "after": share.after, "error": share.error });
    json!({
        "judge": variety.judge, "precision": share(&variety.precision), "recall": share(&variety.recall),
        "distance": variety.distance.as_ref().map(share), "samples": variety.samples,
        "kept": if variety.is_lost() { "start" } else { "result" },
    })
}

impl Trainer {
    /// Samples of each by which variety is told, where the loss is of all samples at once and somebody validates.
    pub fn variety_samples(&self) -> Option<usize> {
        let recipe = &self.plan.recipe;
        recipe.moments.filter(|_| recipe.validate_every.is_some()).map(|moments| moments.max(FEWEST))
    }

    /// What a training has done to variety; none where nobody asks, and where it has found nothing but its start. Every
    /// process must call it.
    pub(crate) fn variety(&self, run: &Training) -> Result<Option<Variety>> {
        let student = &self.plan.student;
        let (Some(samples), Some(joint)) = (self.variety_samples(), student.loss.joint()) else { return Ok(None) };
        if run.result() == self.plan.start {
            return Ok(None);
        }
        let (teacher, own) = (self.features_of_the_teacher(joint, 0..samples)?, self.targets("variety")?);
        let of = |params: &[f64]| run.features(&**joint.judge(), student, (run.learnable(), params), &own, 0..samples);
        joint.variety(&teacher, &of(&self.plan.start)?, &of(run.result())?).map(Some)
    }

    fn features_of_the_teacher(&self, joint: &Arc<dyn Joint>, pairs: Range<usize>) -> Result<Vec<f64>> {
        let (model, batch, targets) =
            (&*self.config().model, self.plan.recipe.micro_batch, self.targets("variety of the teacher")?);
        targets.prepare(pairs.clone())?;
        let part = |range: Range<usize>| {
            let states = targets.of(range)?;
            Ok(joint.judge().features(&states[states.len() - 1])?.data().to_vec())
        };
        let share = |mine| Ok(in_parts(model, mine, batch, part)?.concat());
        Ok(targets.comm().scatter_gather(pairs, unit(model, batch), share)?.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Linearised, Loss, TrainConfig, TrainSpec};
    use dyweight_core::features::FeatureMap;
    use dyweight_core::mixture::Mixture;
    use dyweight_solvers::solver_file::ModelIdentity;
    use dyweight_solvers::spec::Budget;
    use dyweight_testing::SampleFeatures;

    use std::sync::Mutex;

    /// Pulls the mean to a point, and says of variety what it is told to.
    struct Pulled {
        map: Arc<dyn FeatureMap>,
        recall: f64,
        distance: Option<Share>,
        seen: Mutex<Vec<Vec<f64>>>,
    }

    impl Joint for Pulled {
        fn map(&self) -> &Arc<dyn FeatureMap> {
            &self.map
        }

        fn judge(&self) -> &Arc<dyn FeatureMap> {
            &self.map
        }

        fn identity(&self) -> &str {
            "pulled"
        }

        fn linearised(&self, rows: &[f64]) -> Result<Linearised> {
            let mean = |k: usize| rows.iter().skip(k).step_by(2).sum::<f64>() / (rows.len() / 2) as f64;
            let mean = vec![mean(0), mean(1)];
            let off: Vec<f64> = mean.iter().map(|m| m - 0.3).collect();
            let value = off.iter().map(|v| v * v).sum();
            Ok(Linearised { value, mean, slope: off.iter().map(|v| 2.0 * v).collect(), form: vec![0.0; 4] })
        }

        fn variety(&self, teacher: &[f64], before: &[f64], after: &[f64]) -> Result<Variety> {
            self.seen.lock().unwrap().extend([teacher, before, after].map(<[f64]>::to_vec));
            let share = |after: f64| Share { before: 0.5, after, error: 0.01 };
            let (judge, samples) = ("plain".into(), before.len() / 2);
            Ok(Variety { precision: share(0.49), recall: share(self.recall), distance: self.distance, judge, samples })
        }
    }

    fn trained(recall: f64, plain: bool) -> (crate::TrainOutcome, Vec<f64>, Arc<Pulled>) {
        judged(recall, None, plain)
    }

    fn judged(recall: f64, distance: Option<Share>, plain: bool) -> (crate::TrainOutcome, Vec<f64>, Arc<Pulled>) {
        let joint = Arc::new(Pulled {
            map: Arc::new(SampleFeatures::identity([2, 1, 1])),
            recall,
            distance,
            seen: Mutex::default(),
        });
        let mut spec = TrainSpec { iters: Some(4), batch: Some(4), teacher_nfe: Some(8), ..TrainSpec::default() };
        (spec.plain, spec.lr, spec.joint.moments) = (plain.then_some(true), Some(1e-3), Some(20));
        (spec.validation, spec.validate_every) = if plain { (None, None) } else { (Some(32), Some(2)) };
        let loss = Loss::Joint(joint.clone());
        let (model, identity) = (Arc::new(Mixture::spiral()), ModelIdentity::default());
        let trainer = TrainConfig::new(model, identity, Budget::Nfe(3), spec, loss).prepare().unwrap();
        let run = trainer.run(&trainer.dataset().unwrap(), &mut |_, _| Ok(())).unwrap();
        (run, trainer.plan.start.clone(), joint)
    }

    #[test]
    fn a_lost_variety_leaves_the_start() {
        let (kept, start, joint) = trained(0.481, false);
        assert!(kept.params == kept.run.result() && kept.params != start);
        assert_eq!(kept.file.training["variety"]["kept"], "result");
        assert_eq!(kept.variety.unwrap().samples, FEWEST);
        // Teacher and students on noise of their own, both students on the same.
        let seen = joint.seen.lock().unwrap().clone();
        assert!(seen.iter().all(|rows| rows.len() == 2 * FEWEST));
        let far = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / a.len() as f64;
        let (moved, other) = (far(&seen[1], &seen[2]), far(&seen[0], &seen[1]));
        assert!(moved > 0.0 && moved < 0.1 * other, "{moved} {other}");

        let (lost, start, _) = trained(0.479, false);
        assert!(lost.params == start && lost.run.result() != start);
        assert_eq!(lost.file.training["variety"]["kept"], "start");
        let built = lost.run.learnable().export(&start, &lost.file.frame().unwrap()).unwrap();
        assert_eq!(lost.file.body, built.body);
        // So does a distance that has risen by more than twice its error.
        let to = |after: f64| Some(Share { before: 0.3, after, error: 0.01 });
        let (nearer, _, _) = judged(0.5, to(0.319), false);
        assert_ne!(nearer.params, start);
        let (further, _, _) = judged(0.5, to(0.321), false);
        assert_eq!((further.params, &further.file.training["variety"]["kept"]), (start, &"start".into()));
        // Whoever wants the reference algorithm and nothing else has it.
        assert!(trained(0.0, true).0.variety.is_none());
    }
}
