//! Released coefficients as solver files.

use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::schedule::{BetaTable, Schedule, Shift};
use dyweight_files::{OfficialCoefficients, official};
use dyweight_solvers::Weights;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::{MethodParams, ModelIdentity, SolverFile};
use serde_json::json;

/// Noise levels of the EDM pixel models.
const EDM: (f64, f64) = (0.002, 80.0);
/// Levels of the released Stable Diffusion wrapper, which computes them in f32; the one preset that is not on the
/// discrete grid was made with these.
const STABLE_DIFFUSION_F32: (f64, f64) = (0.029167532920837402, 14.614641189575195);
/// FLUX coefficients were learned at 512×512 pixels.
const FLUX_PIXELS: usize = 512;

/// Released coefficients as a solver file.
pub fn released(coefficients: &OfficialCoefficients) -> Result<SolverFile> {
    let guided = coefficients.guidance.kind.as_deref() == Some("cfg");
    let latent_table = || if guided { BetaTable::stable_diffusion() } else { BetaTable::lsun_ldm() };
    let (prediction, schedule, range) = match coefficients.schedule.kind.as_str() {
        "polynomial" => {
            let range = if guided { STABLE_DIFFUSION_F32 } else { EDM };
            (Prediction::Denoised, Schedule::Karras { rho: rho(coefficients)? }, range)
        }
        "discrete" => {
            let table = latent_table();
            let range = table.range();
            (Prediction::Denoised, Schedule::Discrete { table, rho: rho(coefficients)? }, range)
        }
        "flux_shift" => {
            let shift = Shift::for_image(FLUX_PIXELS, FLUX_PIXELS);
            (Prediction::Velocity, Schedule::Flow { shift }, (0.0, 1.0))
        }
        other => {
            let known = ["polynomial", "discrete", "flux_shift"];
            return Err(Error::unknown_name("released schedule", other, known));
        }
    };
    let row = |(i, row): (usize, &Vec<f64>)| row[(i + 1).saturating_sub(coefficients.window)..=i].to_vec();
    let rows = coefficients.weights.iter().enumerate().map(row).collect();
    let weights = Weights::new(rows, coefficients.time_scale.clone());
    let frame = Frame::new(schedule, coefficients.weights.len(), range, prediction)?;
    let frame = Frame { afs: coefficients.afs, nfe: coefficients.nfe, ..frame };
    let mut file = SolverFile::new(MethodParams::DyWeight(weights), &frame)?;
    file.guidance = matches!(coefficients.guidance.kind.as_deref(), Some("cfg" | "distilled"))
        .then_some(coefficients.guidance.rate);
    file.model = ModelIdentity { name: coefficients.dataset.clone().unwrap_or_default(), sha256: None };
    file.training = training_facts(&coefficients.training);
    Ok(file)
}

fn rho(coefficients: &OfficialCoefficients) -> Result<f64> {
    coefficients.schedule.rho.ok_or_else(|| {
        Error::bad_value(
            "rho",
            "missing",
            format!("the released schedule '{}' has an exponent", coefficients.schedule.kind),
        )
    })
}
fn training_facts(training: &official::TrainingFacts) -> serde_json::Map<String, serde_json::Value> {
    let facts = [
        ("teacher", json!(training.teacher)),
        ("teacher_points", json!(training.teacher_points)),
        ("teacher_order", json!(training.max_order)),
        ("loss", json!(training.loss)),
    ];
    facts.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.into(), v)).collect()
}
