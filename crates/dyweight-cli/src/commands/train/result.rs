//! What training leaves behind: the solver file, its figures, and a line for the person or program that asked.

use super::job::Job;
use super::options::TrainArgs;
use crate::files::text;
use crate::ui;
use dyweight::Result;
use dyweight::error::{counted, shown};
use dyweight::features::{Share, Variety};
use dyweight::report::{LossCurve, coefficients};
use dyweight::train::{TrainOutcome, beside};
use serde_json::json;

/// What a program is told of a gain.
const GAIN: [&str; 4] = ["distance", "best_handcrafted", "best_handcrafted_distance", "handcrafted_settings"];

/// What a second stage has done to variety, and what follows from it.
fn tell(variety: &Variety, own: Option<&str>) {
    let share =
        |name: &str, s: &Share| format!("{name} {:.3}, before {:.3} (difference ± {:.3})", s.after, s.before, s.error);
    let (precision, recall) = (share("precision", &variety.precision), share("recall", &variety.recall));
    let samples = variety.samples;
    let distance = variety.distance.as_ref().map_or(String::new(), |d| {
        format!(
            "; Fréchet distance to real images {:.4}, before {:.4} (difference ± {:.4})",
            d.after, d.before, d.error
        )
    });
    let judge = &variety.judge;
    // `a+b` are features of several maps.
    let is_its_own = own.is_some_and(|own| own.split('+').any(|name| name == judge) || own == judge);
    let what = match is_its_own {
        true => "the very features it was trained on, for there are no others here",
        false => "features that nothing here was trained on",
    };
    ui::say(&format!(
        "by {judge}, {what}, among {samples} samples of the teacher on noise of their own: {precision}; {recall}{distance}"
    ));
    if variety.is_lost() {
        let what = if variety.recall.has_fallen() {
            "recall has fallen"
        } else if variety.precision.has_fallen() {
            "precision has fallen"
        } else {
            "the distance to real images has risen"
        };
        ui::warn(&format!("{what} by more than twice its error: the start is what was written"));
    }
}

impl Job<'_> {
    /// The loss curve and the coefficients beside the solver file: `solver.loss.svg`, `solver.weights.svg` and their
    /// PNGs.
    pub fn draw(&self, trained: &TrainOutcome) -> Result<()> {
        let TrainOutcome { file, history, baseline, .. } = trained;
        let point = |(at, loss): (usize, f64)| (at as f64, loss);
        let losses = history.losses.iter().enumerate().filter_map(|(at, loss)| Some((at, (*loss)?)));
        let curve = LossCurve {
            training: losses.map(point).collect(),
            validation: history.validations.iter().copied().map(point).collect(),
            baseline: baseline.map(|b| ("iPNDM".into(), b)),
        };
        let title = format!("{}: {}", self.model.name, counted(self.calls(), "call"));
        curve.figure(&title).draw()?.write(&beside(&self.out, "loss"))?;
        match file.body.weights() {
            Some(w) => coefficients(&title, &w.weights, &w.time_scale).draw()?.write(&beside(&self.out, "weights")),
            None => Ok(()),
        }
    }

    pub fn report(&self, args: &TrainArgs, trained: &TrainOutcome, seconds: f64) {
        let TrainOutcome { run, baseline, gain, .. } = trained;
        let baseline = *baseline;
        let guard = run.guard.as_ref();
        if args.json {
            let mut facts = json!({
                "out": text(&self.out), "nfe": self.run.trainer.plan.student.frame.nfe, "iterations": run.iteration, "seconds": seconds,
                "validation_loss": guard.map(|g| g.best_loss), "initial_loss": guard.map(|g| g.initial_loss),
                "ipndm_loss": baseline, "rollbacks": guard.map(|g| g.rollbacks),
            });
            if let Some(variety) = trained.file.training.get("variety") {
                facts["variety"] = variety.clone();
            }
            for key in GAIN {
                facts[key] = trained.file.training.get(key).cloned().unwrap_or_default();
            }
            for (key, value) in trained.file.body.learned().facts() {
                facts[key] = value;
            }
            ui::print_json(&facts);
            return;
        }
        let iterations = run.iteration;
        let mut said = format!(
            "{}: {} in {}",
            counted(self.calls(), "call"),
            counted(iterations, "iteration"),
            ui::duration(seconds)
        );
        if let (Some(guard), Some(baseline)) = (guard, baseline) {
            let ratio = baseline / guard.best_loss;
            said += &format!("; validation loss {:.3e}, iPNDM {baseline:.3e} ({ratio:.1}x)", guard.best_loss);
            if guard.best_loss >= guard.initial_loss && iterations > 0 {
                said += "; training found nothing better than its start, which is what was written";
            }
            if guard.rollbacks > 0 {
                let times = if guard.rollbacks == 1 { "once".into() } else { format!("{} times", guard.rollbacks) };
                said += &format!("; rolled back {times}");
            }
        }
        ui::say(&said);
        let own = self.run.trainer.plan.student.loss.network().map(|(name, _)| name.to_string());
        trained.variety.iter().for_each(|variety| tell(variety, own.as_deref()));
        gain.iter().for_each(|gain| ui::say(&gain.sentence()));
        trained.file.warnings().iter().for_each(|w| ui::warn(w));
        let out = shown(&self.out);
        let mut ends = vec!["config.toml", "stats.jsonl", "loss.svg"];
        ends.extend(trained.file.body.weights().map(|_| "weights.svg"));
        let beside: Vec<String> = ends.iter().map(|end| shown(&beside(&self.out, end))).collect();
        ui::say(&format!("wrote {out}; beside it {}", beside.join(", ")));
        // A part of one file is not what is used next.
        if args.job.one_file != Some(true) {
            ui::say(&format!("next: {}", args.next_command(&self.model.name, &self.out)));
            ui::print_path(&self.out);
        }
    }
}
