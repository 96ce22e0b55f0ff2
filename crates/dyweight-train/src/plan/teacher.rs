//! The teacher of a training run.

use super::TrainPlan;
use crate::{Supervision, Teacher, TeacherGrid, TrainSpec};
use dyweight_core::denoiser::{Model, Prediction};
use dyweight_core::error::{Error, Result};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::LowerOrderFinal;
use dyweight_sample::{GridRule, Sampler};
use dyweight_solvers::learned::{Built, Frame};
use dyweight_solvers::method::Method;
use dyweight_solvers::spec::budget::{Setting, check_steps};
use dyweight_solvers::spec::{Budget, ScheduleSpec, SolverSpec};

/// The rule of the teacher's grid, and its range.
pub(super) fn taught_on(
    spec: &TrainSpec,
    method: &dyn Method,
    model: &dyn Model,
    given: &ScheduleSpec,
    (student, calls): (&Frame, usize),
) -> Result<GridRule> {
    if spec.teacher_schedule.unwrap_or_default() == TeacherGrid::Student {
        return Ok(GridRule::of(student, calls));
    }
    let (sigma_min, sigma_max) = match model.prediction() {
        Prediction::Denoised => (given.sigma_min, given.sigma_max),
        Prediction::Velocity => (None, None),
    };
    let own = ScheduleSpec { sigma_min, sigma_max, ..ScheduleSpec::default() };
    let own = method.default_schedule(&own, model.prediction());
    GridRule::new(&own, model, calls)
}

/// Calls of a teacher that nothing is said about; a method that cannot make as many makes the next number it can.
pub const TEACHER_NFE: usize = 35;

/// What is wrong with a solver's options, under the names they have where the solver is a teacher.
pub fn named_for_the_teacher(error: Error) -> Error {
    const OWN: [(&str, &str); 4] =
        [("solver", "teacher"), ("order", "teacher-order"), ("nfe", "teacher-nfe"), ("steps", "teacher-steps")];
    error.renamed(&OWN)
}

/// The teacher for a student. Its errors call its options by their own names.
pub fn teacher(given: &TrainSpec, model: &dyn Model, plan: &TrainPlan) -> Result<Teacher> {
    described(given, model, plan).map_err(named_for_the_teacher)
}

fn described(given: &TrainSpec, model: &dyn Model, plan: &TrainPlan) -> Result<Teacher> {
    let spec = given.taught()?.with_defaults(given.clone());
    let name = spec.teacher.as_deref().unwrap_or("ipndm");
    // Published traces have a DPM-Solver++ teacher that lowers its last orders on any number of steps.
    let lower_order_final = (name == "dpmpp").then_some(LowerOrderFinal::Always);
    let mut described = SolverSpec { order: spec.teacher_order, lower_order_final, ..SolverSpec::named(name) };
    // Step by step, a student around a solver is taught by the same solver.
    let base = plan.learnable.base().filter(|base| plan.student.stepwise.is_some() && base.name == name);
    if let Some(base) = base {
        let base = base.spec()?;
        (described.order, described.predict) = (described.order.or(base.order), base.predict);
        described.lower_order_final = base.lower_order_final.or(described.lower_order_final);
    }
    let solver = described.at_highest_order().build(model.is_bounded())?;
    // A grid that ends at 0 has nothing left to denoise.
    let (frame, rule) = (&plan.student.frame, &plan.taught_on);
    let last = if spec.teacher_schedule == Some(TeacherGrid::Model) { rule.range.0 } else { frame.grid.last() };
    let denoise_to_zero = spec.teacher_denoise.unwrap_or(true) && last > 0.0;
    let setting = rule.setting(&*solver, false, denoise_to_zero);
    if matches!(plan.supervision, Supervision::Path { .. }) && spec.teacher_schedule.is_some() {
        let why = "under path supervision the teacher's levels follow from the student's";
        return Err(Error::no_effect("teacher-schedule", why));
    }
    let grid = match (plan.supervision, spec.teacher_steps, spec.teacher_nfe) {
        (Supervision::Path { stride }, None, None) if plan.halved => {
            refined(&frame.schedule, &frame.grid, frame.range, stride / 2).and_then(|grid| halved(&grid))
        }
        (Supervision::Path { stride }, None, None) => refined(&frame.schedule, &frame.grid, frame.range, stride),
        (Supervision::Path { .. }, steps, _) => {
            let option = if steps.is_some() { "teacher-steps" } else { "teacher-nfe" };
            return Err(Error::conflict(
                format!(
                    "`{option}` has no effect: under path supervision the teacher's steps follow from the student's"
                ),
                format!("leave `{option}` out, or change `substeps`"),
            ));
        }
        (_, Some(_), Some(_)) => {
            return Err(Error::conflict(
                "`teacher-steps` and `teacher-nfe` both decide the teacher's length",
                "give one of them",
            ));
        }
        (_, Some(steps), None) => setting.grid(Budget::Steps(steps)),
        (_, None, nfe) => teacher_grid(&setting, nfe),
    }?;
    let identity = serde_json::to_string(&described).unwrap_or_default();
    let times = grid.coeffs();
    let sampler = Sampler::new(Built { solver, times }, grid, (false, denoise_to_zero), model, rule.calls)?;
    Ok(Teacher { sampler, identity })
}

/// [`TEACHER_NFE`] calls by default.
fn teacher_grid(setting: &Setting<'_>, nfe: Option<usize>) -> Result<Grid> {
    match (setting.grid(Budget::Nfe(nfe.unwrap_or(TEACHER_NFE))), nfe) {
        (Err(Error::NoSuchBudget { near, .. }), None) if !near.is_empty() => {
            setting.grid(Budget::Nfe(near[near.len() - 1]))
        }
        (grid, _) => grid,
    }
}

/// The student's grid with every interval divided, so that each student time is a teacher time.
fn refined(schedule: &Schedule, student: &Grid, range: (f64, f64), stride: usize) -> Result<Grid> {
    check_steps("substeps", student.steps().saturating_mul(stride))?;
    if schedule.fixed_steps().is_none() {
        // Every rule but a list is uniform in some variable: a grid of stride times the steps contains the student's.
        return schedule.grid(student.steps() * stride, range);
    }
    let divide = |pair: &[f64]| {
        let (a, b) = (pair[0], pair[1]);
        (0..stride).map(move |k| a + (b - a) * k as f64 / stride as f64).collect::<Vec<_>>()
    };
    let mut sigmas: Vec<f64> = student.sigmas().windows(2).flat_map(divide).collect();
    sigmas.push(student.last());
    Grid::new(sigmas)
}

/// Every step in two, on the EDM grid between its ends.
fn halved(grid: &Grid) -> Result<Grid> {
    let middle = |pair: &[f64]| ((pair[0].powf(1.0 / 7.0) + pair[1].powf(1.0 / 7.0)) / 2.0).powi(7);
    let mut sigmas: Vec<f64> = grid.sigmas().windows(2).flat_map(|pair| [pair[0], middle(pair)]).collect();
    sigmas.push(grid.last());
    Grid::new(sigmas)
}
