//! A handcrafted solver in a word or two, `NAME[:ORDER][@SCHEDULE[:EXPONENT]][+afs|-afs]`, as in
//! `dpmpp:2@karras:5+afs`: the same wherever a solver is named.

use super::{ScheduleSpec, SolverSpec};
use dyweight_core::error::{Error, Result};

/// What such a word says. The exponent of a flow's grid is its shift.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The method and its order.
    pub solver: SolverSpec,
    /// The rule of its grid, and its exponent, if it has one of its own.
    pub schedule: Option<(String, Option<f64>)>,
    /// The analytical first step, if it was said.
    pub afs: Option<bool>,
}

impl Term {
    /// Reads the value of an option.
    pub fn parse(option: &'static str, text: &str) -> Result<Self> {
        let bad = |expected: &str| Error::bad_value(option, text, expected);
        let (rest, afs) = match text.trim() {
            t if t.ends_with("+afs") => (&t[..t.len() - 4], Some(true)),
            t if t.ends_with("-afs") => (&t[..t.len() - 4], Some(false)),
            t => (t, None),
        };
        let (rest, schedule) = match rest.split_once('@') {
            Some((_, "")) => return Err(bad("a schedule must follow '@', as in dpmpp:2@logsnr")),
            Some((rest, schedule)) => (rest, Some(grid(schedule).ok_or_else(|| bad(GRID))?)),
            None => (rest, None),
        };
        let (name, order) = match rest.split_once(':') {
            Some((name, order)) => {
                let order = order.parse().map_err(|_| bad("an order must follow ':', as in ipndm:3"))?;
                (name, Some(order))
            }
            None => (rest, None),
        };
        let solver = SolverSpec { order, ..SolverSpec::named(name) };
        solver.method()?;
        Ok(Self { solver, schedule, afs })
    }

    /// The term's own rule in the place of the common one. Both have the same ends, and what else was said of the grid;
    /// what does not belong to the rule is refused where the grid is built.
    pub fn grid(&self, common: &ScheduleSpec) -> ScheduleSpec {
        let Some((name, exponent)) = &self.schedule else { return common.clone() };
        let own = ScheduleSpec { schedule: Some(name.clone()), ..common.clone() };
        match exponent {
            Some(shift) if name == "flow" => ScheduleSpec { shift: Some(*shift), ..own },
            Some(rho) => ScheduleSpec { rho: Some(*rho), ..own },
            None => own,
        }
    }

    /// The solver `given` by its name and options, where the name may say more: what the name says of order, grid and
    /// first step beside what options say. What both say differently is refused.
    pub fn beside(given: &SolverSpec, schedule: &ScheduleSpec, afs: bool) -> Result<(SolverSpec, ScheduleSpec, bool)> {
        let term = Self::parse("solver", &given.solver)?;
        let twice = |what: &str, option: &str| {
            Error::conflict(
                format!("`solver = {}` and `{option}` both decide {what}", given.solver),
                format!("leave `{option}` out, or name the solver without it"),
            )
        };
        match (given.order, term.solver.order) {
            (Some(said), Some(named)) if said != named => return Err(twice("the order", "order")),
            _ => {}
        }
        let exponent = term.schedule.as_ref().is_some_and(|(_, exponent)| exponent.is_some());
        let said = [("schedule", schedule.schedule.is_some()), ("sigmas", schedule.sigmas.is_some())];
        let said = said.into_iter().chain([("rho", exponent && schedule.rho.is_some())]);
        if let Some((option, _)) = said.chain([("shift", exponent && schedule.shift.is_some())]).find(|(_, said)| *said)
            && term.schedule.is_some()
        {
            return Err(twice("the grid", option));
        }
        if afs && term.afs == Some(false) {
            return Err(twice("the first step", "afs"));
        }
        let grid = term.grid(schedule);
        let solver =
            SolverSpec { solver: term.solver.solver, order: given.order.or(term.solver.order), ..given.clone() };
        Ok((solver, grid, afs || term.afs == Some(true)))
    }

    /// The names people have for what it says: "UniPC-3, Karras 5, AFS". What is left open is not named: "UniPC".
    pub fn title(&self) -> String {
        let schedule = self.schedule.as_ref().map(|_| self.grid(&ScheduleSpec::default()).title());
        let afs = self.afs.map(|afs| if afs { "AFS" } else { "no AFS" }.to_string());
        let parts = [Some(self.solver.title()), schedule.flatten(), afs];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// What may follow '@'.
const GRID: &str = "a schedule follows '@', and its exponent ':', as in karras:5";

/// `karras` or `karras:5`.
fn grid(text: &str) -> Option<(String, Option<f64>)> {
    let Some((name, exponent)) = text.split_once(':') else { return Some((text.into(), None)) };
    let exponent: f64 = exponent.parse().ok()?;
    (!name.is_empty() && exponent.is_finite()).then(|| (name.into(), Some(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(text: &str) -> Result<Term> {
        Term::parse("solvers", text)
    }

    #[test]
    fn terms_say_order_schedule_and_first_step() {
        let full = term("dpmpp:2@logsnr+afs").unwrap();
        assert_eq!((full.solver.order, full.schedule, full.afs), (Some(2), Some(("logsnr".into(), None)), Some(true)));
        assert_eq!(term("euler@karras:5").unwrap().schedule, Some(("karras".into(), Some(5.0))));
        let plain = term("ddim").unwrap();
        assert_eq!((plain.solver.order, plain.schedule, plain.afs), (None, None, None));
        assert_eq!(term("ipndm-v:3-afs").unwrap().solver.solver, "ipndm-v");
        for bad in ["", "ipdnm", "ipndm:x", "dpmpp@", "ipndm:3:4", "ipndm@karras:", "ipndm@:5"] {
            assert!(term(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn terms_have_names_that_people_say() {
        for (text, title) in [
            ("ipndm", "iPNDM"),
            ("ddim", "Euler (DDIM)"),
            ("ipndm:3@karras+afs", "iPNDM-3, Karras 7, AFS"),
            ("dpmpp_2m@time-uniform:2", "DPM-Solver++(2M), time-uniform 2"),
            ("unipc:3@logsnr-afs", "UniPC-3, log-SNR, no AFS"),
            ("deis-tab:3@discrete", "DEIS-tAB3, discrete"),
            ("unipc@flow:3", "UniPC, flow shift 3"),
        ] {
            assert_eq!(term(text).unwrap().title(), title, "{text}");
        }
    }

    #[test]
    fn a_name_and_options_may_not_disagree() {
        let named = |solver: &str, order: Option<usize>| SolverSpec { order, ..SolverSpec::named(solver) };
        let open = ScheduleSpec::default();
        let (solver, grid, afs) = Term::beside(&named("unipc:3@karras:5+afs", None), &open, false).unwrap();
        assert_eq!((solver.solver.as_str(), solver.order, grid.rho, afs), ("unipc", Some(3), Some(5.0), true));
        assert!(Term::beside(&named("unipc:3", Some(3)), &open, true).is_ok_and(|(.., afs)| afs));
        let karras = ScheduleSpec { schedule: Some("karras".into()), ..open.clone() };
        for (solver, order, schedule, afs, option) in [
            ("unipc:3", Some(2), &open, false, "order"),
            ("unipc@logsnr", None, &karras, false, "schedule"),
            ("unipc-afs", None, &open, true, "afs"),
        ] {
            let error = Term::beside(&named(solver, order), schedule, afs).unwrap_err();
            assert!(error.to_string().contains(&format!("`{option}`")), "{error}");
        }
    }
}
