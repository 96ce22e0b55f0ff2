//! How much work a run is, before it is done.

use crate::Supervision;
use crate::gauss_newton::GaussNewton;
use crate::targets::CHUNK;
use crate::trainer::Trainer;
use dyweight_core::error::Result;
use dyweight_core::tape::Memory;
use std::collections::BTreeMap;

/// Network calls, each for one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Calls for their value alone.
    pub calls: usize,
    /// Calls whose gradient is taken too.
    pub gradients: usize,
}

impl Work {
    /// A call with its gradient takes about as long as this many without: processor time of
    /// `dyweight bench --model fashion --what gradient` over that of `--what forward`.
    const GRADIENT: f64 = 2.3;

    /// All of it in calls.
    pub fn in_calls(&self) -> f64 {
        self.calls as f64 + Self::GRADIENT * self.gradients as f64
    }
}

impl std::ops::Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, gradients: self.gradients + other.gradients }
    }
}

/// Bytes of a list of numbers beside the numbers.
const LIST: usize = 40;
/// How often an end is held at once: as it was solved, and gathered.
const ENDS: usize = 2;
/// What a step of a recorded pass holds of a state: the state, its slope, sums, and a derivative of each.
const TAPE: usize = 6;

/// Matrices of features that a distance of sets holds.
const MATRICES: usize = 6;

/// Calls that teachers have made, by the name under which their results are kept.
pub type TeacherCalls = BTreeMap<String, usize>;

impl Trainer {
    /// Network calls of the whole run, unless it ends early: teacher, student and validations.
    pub fn work(&self) -> Result<Work> {
        self.work_after(&mut TeacherCalls::new())
    }

    /// The same for a run that finds what others' teachers have made, and adds its own.
    pub fn work_after(&self, made: &mut TeacherCalls) -> Result<Work> {
        if self.plan.recipe.gauss_newton.is_some() {
            return self.work_of_few(made);
        }
        let (recipe, nfe) = (&self.plan.recipe, self.plan.student.frame.nfe);
        let pairs = recipe.iterations() * recipe.pairs;
        // One validation before the first iteration, and one of iPNDM.
        let validations = recipe.validate_every.map_or(0, |every| 2 + recipe.iterations().div_ceil(every));
        let validating = if validations > 0 { recipe.validation_pairs } else { 0 };
        let again = if self.plan.student.memory == Memory::Recompute { nfe * pairs } else { 0 };
        // The teacher makes whole chunks.
        let whole = |pairs: usize| pairs.next_multiple_of(CHUNK);
        // A loss of all samples asks no teacher but for what is compared at the end, and makes its moments in every
        // pass.
        let (moments, varied) = (recipe.moments.unwrap_or(0), self.variety_samples().unwrap_or(0));
        let paired = if recipe.moments.is_some() { 0 } else { whole(recipe.pairs_needed()) };
        let mut teaching = self.teacher.sampler.nfe * (paired + whole(validating) + whole(varied));
        if let Some(name) = self.teachers_name() {
            let made = made.entry(name).or_default();
            (*made, teaching) = ((*made).max(teaching), teaching.saturating_sub(*made));
        }
        let searching = self.teacher.sampler.nfe * self.plan.learnable.searched(self.plan.student.frame.afs);
        let joint = nfe * (moments * recipe.iterations() + 2 * varied);
        let calls = searching + teaching + nfe * validating * validations + again + joint;
        // Second-order descent takes two gradients of each call: as two calls with gradients, less one without.
        let second = if recipe.is_second_order() { nfe * pairs } else { 0 };
        Ok(Work { calls: calls.saturating_sub(second), gradients: nfe * pairs + second })
    }

    /// Bytes held beside the network's own, at most: the teacher's results, and what an iteration compares. Calibrated
    /// by `benches/memory.py`.
    pub fn held(&self) -> u64 {
        let (plan, recipe) = (&self.plan, &self.plan.recipe);
        let numbers: usize = self.config().model.shape().iter().product();
        let steps = plan.student.frame.grid.steps();
        let states = if plan.supervision == Supervision::Endpoint { 1 } else { steps + 1 };
        let of_teacher = |pairs: usize| (pairs * numbers * states).min(crate::targets::MOST_NUMBERS) * 8 + pairs * 16;
        let validating = if recipe.validate_every.is_some() { recipe.validation_pairs } else { 0 };
        let parameters = plan.start.len();
        let (pairs, compared) = match recipe.gauss_newton {
            // An end for each pair and parameter, in a list of its own; where starts are chosen, those of two of them.
            Some(_) => {
                let ends = recipe.pairs * (parameters + 1) * if self.is_open() { 2 } else { 1 };
                (recipe.pairs, ends * (8 * numbers + LIST) * ENDS)
            }
            // States and slopes of a pass, and their derivatives.
            None => {
                let together = recipe.micro_batch.min(recipe.pairs);
                let matrix = if recipe.is_second_order() { 3 * 8 * parameters * parameters } else { 0 };
                // Of samples that are compared as a set, their features; of those, mean and covariance.
                let dims = plan.student.loss.joint().map_or(0, |joint| joint.map().dims());
                let set = 8 * dims * (ENDS * recipe.moments.unwrap_or(0) + MATRICES * dims);
                (recipe.pairs_needed(), together * numbers * 8 * TAPE * (steps + 1) + matrix + set)
            }
        };
        let targets =
            if recipe.moments.is_some() { of_teacher(validating) } else { of_teacher(pairs) + of_teacher(validating) };
        (targets + compared) as u64
    }

    /// The same for Gauss–Newton, if every step is taken and it does not end before its last iteration.
    fn work_of_few(&self, made: &mut TeacherCalls) -> Result<Work> {
        let (recipe, nfe) = (&self.plan.recipe, self.plan.student.frame.nfe);
        let Some(options) = recipe.gauss_newton else { return Ok(Work::default()) };
        let judged = if recipe.validate_every.is_some() { recipe.validation_pairs } else { 0 };
        let whole = |pairs: usize| pairs.next_multiple_of(CHUNK);
        let mut teaching = self.teacher.sampler.nfe * (whole(recipe.pairs) + whole(judged));
        if let Some(name) = self.teachers_name() {
            let made = made.entry(name).or_default();
            (*made, teaching) = ((*made).max(teaching), teaching.saturating_sub(*made));
        }
        // And one validation of iPNDM.
        let training = GaussNewton::most_solves(&options, self.plan.start.len(), (recipe.pairs, judged));
        let solves = training + judged + self.solves_of_start()?;
        Ok(Work { calls: teaching + nfe * solves, gradients: 0 })
    }
}
