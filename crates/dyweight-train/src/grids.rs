//! The grids that are tried: for the start of a training, and for the handcrafted solvers it is measured against. One list for both.

use dyweight_core::denoiser::{Model, Prediction};
use dyweight_core::schedule::{Schedule, Shift};
use dyweight_solvers::spec::ScheduleSpec;

/// A rule and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct TriedGrid {
    /// As a person would say it.
    pub name: String,
    /// The rule.
    pub schedule: ScheduleSpec,
}

/// True if the options name a rule, so that none is left to choose.
pub fn is_fixed(given: &ScheduleSpec) -> bool {
    let ScheduleSpec { schedule, rho, sigmas, beta_table, shift, image_size, .. } = given;
    schedule.is_some()
        || rho.is_some()
        || sigmas.is_some()
        || beta_table.is_some()
        || shift.is_some()
        || image_size.is_some()
}

/// Shifts of a flow that are tried.
const SHIFTS: [f64; 4] = [1.0, 2.0, 3.0, 6.0];

/// The grids for a model: the one that is given, or the model's own and others.
pub fn grids(model: &dyn Model, given: &ScheduleSpec) -> Vec<TriedGrid> {
    if is_fixed(given) {
        return vec![TriedGrid { name: name_of(given), schedule: given.clone() }];
    }
    match model.prediction() {
        Prediction::Denoised => denoised(given),
        Prediction::Velocity => velocity(model, given),
    }
}

/// The grids for whom a solver has to beat: all of them, and the one that is given.
pub fn all_grids(model: &dyn Model, given: &ScheduleSpec) -> Vec<TriedGrid> {
    let (sigma_min, sigma_max) = (given.sigma_min, given.sigma_max);
    let own = is_fixed(given).then(|| grids(model, given)).unwrap_or_default();
    let all = grids(model, &ScheduleSpec { sigma_min, sigma_max, ..ScheduleSpec::default() });
    let others = all.into_iter().filter(|grid| own.iter().all(|own| own.schedule != grid.schedule));
    own.iter().cloned().chain(others).collect()
}

fn denoised(given: &ScheduleSpec) -> Vec<TriedGrid> {
    let rules = [("karras", 7.0), ("karras", 3.0), ("time-uniform", 1.0), ("time-uniform", 2.0), ("logsnr", 1.0)];
    let rule = |(name, rho): (&str, f64)| {
        let rho = (name != "logsnr").then_some(rho);
        let schedule = ScheduleSpec { schedule: Some(name.into()), rho, ..given.clone() };
        TriedGrid { name: name_of(&schedule), schedule }
    };
    rules.into_iter().map(rule).collect()
}

fn velocity(model: &dyn Model, given: &ScheduleSpec) -> Vec<TriedGrid> {
    let own = TriedGrid { name: "own flow".into(), schedule: given.clone() };
    let is_own = |shift: &f64| match given.on(model) {
        Ok(Schedule::Flow { shift: own }) => Shift::fixed(*shift).is_ok_and(|shift| shift == own),
        _ => false,
    };
    let shifted = |shift: f64| {
        let schedule = ScheduleSpec { schedule: Some("flow".into()), shift: Some(shift), ..given.clone() };
        TriedGrid { name: name_of(&schedule), schedule }
    };
    let others = SHIFTS.into_iter().filter(|shift| !is_own(shift)).map(shifted);
    std::iter::once(own).chain(others).collect()
}

fn name_of(schedule: &ScheduleSpec) -> String {
    let rule = schedule.schedule.as_deref().unwrap_or(if schedule.sigmas.is_some() { "given levels" } else { "own" });
    let rho = schedule.rho.map(|rho| format!(" ρ = {rho}"));
    let shift = schedule.shift.map(|shift| format!(" shift {shift}"));
    [Some(rule.to_string()), rho, shift].into_iter().flatten().collect()
}
