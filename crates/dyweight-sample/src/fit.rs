//! Whether learned coefficients fit the model they are used on.

use dyweight_core::denoiser::{Model, ModelIdentity};
use dyweight_core::error::{Error, Result, number};
use dyweight_core::schedule::Grid;
use dyweight_solvers::solver_file::SolverFile;

/// Refuses coefficients of velocities on a denoiser, and the other way round: there they mean nothing.
pub fn require_prediction(file: &SolverFile, model: &dyn Model, identity: &ModelIdentity) -> Result<()> {
    if file.prediction == model.prediction() {
        return Ok(());
    }
    let (learned_for, name) = (&file.model.name, &identity.name);
    Err(Error::conflict(
        format!("the solver was learned for '{learned_for}', which predicts another quantity than '{name}'"),
        "coefficients of flows work on flows alone, those of denoisers on denoisers: leave `weights` out",
    ))
}

/// In what a run differs from the one a solver was learned for: the model, the guidance, the grid. Unusual values are
/// no such thing: training itself finds them.
pub fn misfits(
    file: &SolverFile,
    (model, identity): (&dyn Model, &ModelIdentity),
    guidance: Option<f64>,
    (afs, grid): (bool, &Grid),
) -> Vec<String> {
    let mut found = Vec::new();
    let (learned_for, usual) = (&file.model, model.default_guidance());
    match (&learned_for.sha256, &identity.sha256) {
        (Some(theirs), Some(ours)) if theirs == ours => {}
        (Some(_), Some(_)) => found.push(format!(
            "the solver was learned on weights of '{}' that '{}' does not have",
            learned_for.name, identity.name
        )),
        _ if learned_for.name != identity.name => {
            found.push(format!("the solver was learned for '{}', not for '{}'", learned_for.name, identity.name));
        }
        _ => {}
    }
    let guidance = guidance.or(usual);
    if file.guidance.or(usual) != guidance {
        let say = |g: Option<f64>| g.map_or("none".into(), number);
        found.push(format!("the solver was learned under guidance {}, not {}", say(file.guidance), say(guidance)));
    }
    if file.afs != afs || file.grid().is_ok_and(|learned| learned != *grid) {
        found.push("the grid or first step is not the one the solver was learned on".into());
    }
    found
}
