//! The handcrafted settings that every comparison allows its rivals: methods, orders, grids and the analytical first
//! step.
//!
//! A learned solver chooses its grid, its window and its first step. A rival that may not is no rival, so whoever
//! compares with handcrafted solvers asks for this list, judges all of it on samples that are not reported, and reports
//! the best. The list is one for training, comparisons and studies: what was tried is said by [`settings`] and nowhere
//! else.

use super::{ScheduleSpec, SolverSpec};
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::Result;

/// A method with its grid and first step.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Handcrafted {
    /// The method and its order.
    pub solver: SolverSpec,
    /// The rule of its grid.
    pub schedule: ScheduleSpec,
    /// The analytical first step.
    pub afs: bool,
}

/// What a user has fixed; the rest is free.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fixed {
    /// The method, and its order or other options where they were given.
    pub solver: Option<SolverSpec>,
    /// The grid where a rule was named; its ends where only these were.
    pub schedule: ScheduleSpec,
    /// The analytical first step.
    pub afs: Option<bool>,
}

/// Methods with the orders worth trying in few steps; a method of another name is tried in all its orders.
const TRIED: &[(&str, &[usize])] = &[
    ("euler", &[]),
    ("heun", &[]),
    ("dpm2", &[]),
    ("ipndm", &[2, 3, 4]),
    ("deis-tab", &[2, 3]),
    ("dpmpp", &[2, 3]),
    ("unipc", &[2, 3]),
];

/// Grids for denoised predictions: a rule and its exponent.
const DENOISED: &[(&str, Option<f64>)] =
    &[("karras", None), ("karras", Some(5.0)), ("logsnr", None), ("time-uniform", None), ("time-uniform", Some(2.0))];

/// Shifts for flows, beside the model's own.
const SHIFTS: &[f64] = &[1.0, 3.0];

/// Everything that may be tried where this much is fixed, in a fixed order. Some of it may not be able to make a
/// budget.
pub fn settings(prediction: Prediction, fixed: &Fixed) -> Result<Vec<Handcrafted>> {
    let (solvers, grids) = (solvers(prediction, fixed.solver.as_ref())?, grids(prediction, &fixed.schedule));
    let steps = fixed.afs.map_or_else(|| vec![false, true], |afs| vec![afs]);
    let mut all = Vec::new();
    for solver in &solvers {
        for schedule in &grids {
            let with = |afs: &bool| Handcrafted { solver: solver.clone(), schedule: schedule.clone(), afs: *afs };
            all.extend(steps.iter().map(with));
        }
    }
    Ok(all)
}

fn solvers(prediction: Prediction, given: Option<&SolverSpec>) -> Result<Vec<SolverSpec>> {
    let named = |name: &str, order: Option<usize>| SolverSpec { order, ..SolverSpec::named(name) };
    let Some(given) = given else {
        // DEIS integrates in VP time, which a flow has not.
        let fits = |name: &str| prediction == Prediction::Denoised || !name.starts_with("deis");
        let tried = TRIED.iter().filter(|(name, _)| fits(name));
        let orders = |(name, orders): &(&str, &[usize])| match orders {
            [] => vec![named(name, None)],
            orders => orders.iter().map(|order| named(name, Some(*order))).collect(),
        };
        return Ok(tried.flat_map(orders).collect());
    };
    let method = given.method()?;
    let is_open = given.order.is_none() && given.solver == method.name;
    let (true, Some(highest)) = (is_open, method.highest_order) else { return Ok(vec![given.clone()]) };
    let listed = TRIED.iter().find(|(name, _)| *name == method.name).map(|(_, orders)| orders.to_vec());
    let orders = listed.unwrap_or_else(|| (1..=highest).collect());
    Ok(orders.into_iter().map(|order| SolverSpec { order: Some(order), ..given.clone() }).collect())
}

/// The grids that may be tried, for handcrafted solvers as for the start of a training: the one that is given, or the
/// model's own and others.
pub fn grids(prediction: Prediction, given: &ScheduleSpec) -> Vec<ScheduleSpec> {
    if given.names_a_rule() {
        return vec![given.clone()];
    }
    match prediction {
        Prediction::Denoised => DENOISED
            .iter()
            .map(|(name, rho)| ScheduleSpec { schedule: Some((*name).into()), rho: *rho, ..given.clone() })
            .collect(),
        Prediction::Velocity => {
            let shifted = |shift: &f64| ScheduleSpec { shift: Some(*shift), ..given.clone() };
            std::iter::once(given.clone()).chain(SHIFTS.iter().map(shifted)).collect()
        }
    }
}

impl Handcrafted {
    /// As a list of solvers has it, `ipndm:2@time-uniform:2+afs`: what it is and how to ask for it.
    pub fn term(&self) -> String {
        let order = self.solver.order.map_or_else(String::new, |order| format!(":{order}"));
        let grid = self.schedule.term().map_or_else(String::new, |grid| format!("@{grid}"));
        format!("{}{order}{grid}{}", self.solver.solver, if self.afs { "+afs" } else { "" })
    }

    /// Name and term, for a sentence.
    pub fn title(&self) -> String {
        format!("{} ({})", self.name(), self.term())
    }

    /// The name people have for the method and its order: "iPNDM-2", "DPM-Solver++(2M)".
    pub fn name(&self) -> String {
        self.solver.with_order().title()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(prediction: Prediction, fixed: &Fixed) -> Vec<String> {
        settings(prediction, fixed).unwrap().iter().map(Handcrafted::term).collect()
    }

    #[test]
    fn nothing_fixed_is_every_method_grid_and_first_step_once() {
        let all = terms(Prediction::Denoised, &Fixed::default());
        assert_eq!(all.len(), 12 * DENOISED.len() * 2);
        assert!(all.contains(&"ipndm:2@time-uniform+afs".to_string()) && all.contains(&"heun@karras:5".to_string()));
        let mut once = all.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), all.len());
        let flow = terms(Prediction::Velocity, &Fixed::default());
        assert!(flow.contains(&"unipc:2@flow:3".to_string()) && flow.contains(&"unipc:2".to_string()));
        assert!(!flow.iter().any(|term| term.starts_with("deis")));
    }

    #[test]
    fn what_is_fixed_stays() {
        let schedule = ScheduleSpec { schedule: Some("logsnr".into()), sigma_max: Some(10.0), ..Default::default() };
        let solver = Some(SolverSpec { order: Some(2), ..SolverSpec::named("unipc") });
        let found = settings(Prediction::Denoised, &Fixed { solver, schedule, afs: Some(true) }).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].term().as_str(), found[0].schedule.sigma_max), ("unipc:2@logsnr+afs", Some(10.0)));
        let ends = ScheduleSpec { sigma_min: Some(0.1), ..Default::default() };
        let fixed = Fixed { solver: Some(SolverSpec::named("dpmpp")), schedule: ends, afs: None };
        let found = settings(Prediction::Denoised, &fixed).unwrap();
        assert_eq!(found.len(), 2 * DENOISED.len() * 2);
        assert!(found.iter().all(|s| s.schedule.sigma_min == Some(0.1)));
        // Names that say an order leave none open.
        let named = Fixed { solver: Some(SolverSpec::named("dpmpp_2m")), ..Fixed::default() };
        let found = settings(Prediction::Denoised, &named).unwrap();
        assert!(found.iter().all(|s| s.solver.solver == "dpmpp_2m" && s.solver.order.is_none()));
    }
}
