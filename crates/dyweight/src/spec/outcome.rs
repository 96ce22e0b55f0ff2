//! What a training run leaves behind: its solver file.

use super::model::LoadedModel;
use super::train::{TrainPlan, TrainSpec};
use crate::checkpoint::SolverFile;
use crate::checkpoint::solver_file::{ModelIdentity, Parts};
use crate::error::Result;
use crate::train::{Parameters, Training};
use serde_json::{Value, json};

impl TrainPlan {
    /// The file of the solver that `parameters` stand for, with how they were found.
    pub fn solver_file(
        &self,
        model: &LoadedModel,
        spec: &TrainSpec,
        run: &Training<'_>,
        parameters: &Parameters,
    ) -> Result<SolverFile> {
        let mut file = SolverFile::new(Parts {
            weights: parameters.rows(),
            time_scale: parameters.scales(),
            afs: self.student.afs,
            time_shift: parameters.time_shift(),
            prediction: model.model.prediction(),
            schedule: self.schedule.clone(),
            range: self.range,
            nfe: self.nfe,
        })?;
        file.guidance = spec.guidance;
        file.model = ModelIdentity { name: model.name.clone(), sha256: Some(model.sha256.clone()) };
        let recipe = run.recipe();
        let mut facts = json!({
            "teacher": spec.teacher.as_deref().unwrap_or("ipndm"),
            "loss": spec.loss.as_deref().unwrap_or("l2"),
            "init": spec.init.as_deref().unwrap_or("ab"),
            "iterations": run.iteration, "pairs_per_iteration": recipe.pairs, "lr": recipe.rate.base,
            "seed": spec.seed.unwrap_or(0),
        });
        if let Some((name, sha256)) = self.student.loss.network() {
            facts["features"] = json!({ "name": name, "sha256": sha256 });
        }
        if let Some(guard) = &run.guard {
            facts["validation_loss"] = json!(guard.best_loss);
            facts["initial_loss"] = json!(guard.initial_loss);
            facts["rollbacks"] = json!(guard.rollbacks);
        }
        if let Value::Object(facts) = facts {
            file.training = facts;
        }
        Ok(file)
    }
}
