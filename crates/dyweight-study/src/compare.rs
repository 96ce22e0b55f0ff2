//! A comparison of whatever is named: handcrafted solvers, solver files, presets.

use super::benchmark::{Candidate, Entry, Measure, Repeat, Style, Subject, View};
use super::paper::FAMILIES;
use dyweight_core::error::{Error, Result, counted};
use dyweight_core::option;
use dyweight_metrics::Estimate;
use dyweight_report::html::Page;
use dyweight_solvers::spec::handcrafted::Fixed;
use dyweight_solvers::spec::{ScheduleSpec, Term};
use dyweight_train::TrainSpec;
use std::path::Path;

/// What takes part.
pub struct Field {
    /// Handcrafted solvers, as written; all of them if none are named.
    pub solvers: Vec<String>,
    /// Whether these choose what they leave open: order, grid, analytical first step.
    pub search: bool,
    /// Solver files and presets.
    pub files: Vec<String>,
    /// Network calls; those of the files if empty.
    pub budgets: Vec<usize>,
    /// The grid of solvers that name none.
    pub schedule: ScheduleSpec,
    /// The analytical first step of solvers that say nothing.
    pub afs: Option<bool>,
    /// Counts calls that could be made side by side once.
    pub once: bool,
    /// Leave out solvers at budgets they cannot make, instead of refusing.
    pub skip_impossible: bool,
    /// DyWeight, trained here for every budget.
    pub train: Option<TrainSpec>,
}

impl Field {
    /// All entries; what cannot take part is refused by name.
    pub fn entries(&self, subject: &Subject) -> Result<Vec<Entry>> {
        self.refuse_idle()?;
        let (mut learned, mut seeds) = (Vec::new(), Vec::new());
        for source in &self.files {
            let guidance = subject.guidance.or(subject.model.model.default_guidance());
            for who in Candidate::open(source, &self.budgets, Some(subject.calls()?), guidance)? {
                let Candidate::Given { file } = &who else { continue };
                let nfe = if self.once { file.sequential_calls.unwrap_or(file.nfe) } else { file.nfe };
                // Guidance doubles the calls of what was learned without it.
                let nfe = nfe / file.calls() * subject.calls()?;
                let (row, seed) = row_of(source);
                learned.push(Entry { once: self.once, ..Entry::new(row, nfe, who) });
                seeds.push(seed);
            }
        }
        let beside = |entry: &Entry| matches!(&entry.who, Candidate::Given { file } if file.sequential_calls.is_some());
        if self.once && !learned.iter().any(beside) {
            return Err(Error::no_effect("count-parallel", "no solver here makes calls side by side"));
        }
        let mut budgets = self.budgets.clone();
        if budgets.is_empty() {
            budgets = learned.iter().map(|e| e.nfe).collect();
        }
        budgets.sort_unstable();
        budgets.dedup();
        if let Some(odd) = learned.iter().find(|e| !budgets.contains(&e.nfe)) {
            let list = budgets.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            return Err(Error::conflict(
                format!("'{}' makes {}, which `nfe = {list}` does not ask for", odd.row, counted(odd.nfe, "call")),
                format!("add {} to `nfe`, or leave the file out", odd.nfe),
            ));
        }
        let mut entries = Vec::new();
        for (row, who) in self.handcrafted()? {
            // What nobody asked for by name may be left out where it cannot be.
            let may_be_left_out = self.skip_impossible || self.solvers.is_empty();
            for nfe in &budgets {
                let entry = Entry::new(&*row, *nfe, who.clone());
                match entry.possible_on(subject) {
                    Err(Error::NoSuchBudget { .. }) if may_be_left_out => {}
                    Err(error) => return Err(error),
                    Ok(()) => entries.push(entry),
                }
            }
        }
        // Of files that differ by their training's seed alone several are one row.
        let mut seeds: Vec<Option<u64>> = vec![None; entries.len()].into_iter().chain(seeds).collect();
        entries.extend(learned);
        if let Some(train) = &self.train {
            let (train, schedule) = (Box::new(train.clone()), self.schedule.clone());
            let who = Candidate::Learned { train, schedule, on: 0, after: None };
            entries.extend(budgets.iter().map(|nfe| Entry::new("DyWeight", *nfe, who.clone())));
            seeds.resize(entries.len(), None);
        }
        if entries.is_empty() {
            return Err(Error::conflict("nothing takes part", "give `solvers` with `nfe`, or `weights`"));
        }
        let all: Vec<_> = entries.iter().zip(&seeds).map(|(entry, seed)| (&entry.row, entry.nfe, seed)).collect();
        if let Some((_, (row, nfe, _))) = all.iter().enumerate().find(|(i, one)| all[..*i].contains(one)) {
            return Err(Error::conflict(
                format!("'{row}' takes part twice at {}", counted(*nfe, "call")),
                "name each solver once, and give files of different solvers different names",
            ));
        }
        // Column by column, so that an interrupted comparison already compares something.
        entries.sort_by_key(|e| e.nfe);
        Ok(entries)
    }

    /// An error for an option of grids or first steps that every solver has decided for itself.
    fn refuse_idle(&self) -> Result<()> {
        let handcrafted = self.search || !self.solvers.is_empty();
        let named = self.solvers.iter().filter(|text| text.trim() != BEST);
        let terms = named.map(|text| Term::parse("solvers", text)).collect::<Result<Vec<_>>>()?;
        // A row that leaves everything open, or a solver that is trained here, takes what is said.
        let open = self.train.is_some() || handcrafted && terms.len() < self.solvers.len().max(1);
        let some = |says: fn(&Term) -> bool| open || terms.iter().any(|term| !says(term));
        let ScheduleSpec { schedule, rho, sigma_min, sigma_max, sigmas, shift, image_size, .. } = &self.schedule;
        let own_exponent = |term: &Term| matches!(term.schedule, Some((_, Some(_))));
        let given = [
            ("schedule", schedule.is_some() && !some(|term| term.schedule.is_some())),
            ("rho", rho.is_some() && !some(own_exponent)),
            ("shift", shift.is_some() && !some(own_exponent)),
            ("sigma-min", sigma_min.is_some() && !(open || handcrafted)),
            ("sigma-max", sigma_max.is_some() && !(open || handcrafted)),
            ("sigmas", sigmas.is_some() && !(open || handcrafted)),
            ("image-size", image_size.is_some() && !(open || handcrafted)),
            ("afs", self.afs.is_some() && !some(|term| term.afs.is_some())),
        ];
        let why = "every solver here has its own, as a learned one has, or one that names it";
        option::refuse(&given, |option| Error::no_effect(option, why))
    }

    /// The row of a solver that is called so in the list.
    pub fn row_of(&self, text: &str) -> Result<String> {
        Ok(match text.trim() {
            BEST => BEST_ROW.into(),
            text => {
                let term = Term::parse("solvers", text)?;
                let solver = if self.search { term.solver.clone() } else { term.solver.with_order() };
                Term { solver, ..term }.title()
            }
        })
    }

    /// The handcrafted rows.
    fn handcrafted(&self) -> Result<Vec<(String, Candidate)>> {
        if self.solvers.is_empty() {
            let families = FAMILIES.iter().filter(|_| self.search);
            return families.map(|(row, method)| Ok((row.to_string(), self.candidate(method)?))).collect();
        }
        let named = |text: &String| {
            let who = if text.trim() == BEST { self.best() } else { self.candidate(text) };
            Ok((self.row_of(text)?, who?))
        };
        self.solvers.iter().map(named).collect()
    }

    fn candidate(&self, text: &str) -> Result<Candidate> {
        let term = Term::parse("solvers", text)?;
        Ok(match self.search {
            true => Candidate::best_of(&term, &self.schedule, self.afs),
            false => Candidate::written(&term, &self.schedule, self.afs.unwrap_or(false)),
        })
    }

    /// The best setting of all methods.
    fn best(&self) -> Result<Candidate> {
        if !self.search {
            return Err(Error::Conflict {
                problem: format!("'{BEST}' is found by a search, which `no-search` leaves out"),
                hint: "name a method, as in ipndm:3".into(),
            });
        }
        Ok(Candidate::Open { fixed: Fixed { solver: None, schedule: self.schedule.clone(), afs: self.afs } })
    }
}

/// The solver that stands for the best setting of all methods, and its row.
const BEST: &str = "best";
const BEST_ROW: &str = "best handcrafted";

/// `out/spiral-nfe3.json` and `out/spiral-nfe5.json` are one row, `spiral`; so are `out/spiral-nfe3-seed1.json` and
/// `…-seed2.json`, two trainings of it.
pub(crate) fn row_of(source: &str) -> (String, Option<u64>) {
    let name = source.strip_prefix("preset:").unwrap_or(source);
    let stem = Path::new(name).file_stem().map_or(name.into(), |s| s.to_string_lossy().into_owned());
    let (stem, seed) = numbered(&stem, "-seed").map_or((&*stem, None), |(rest, seed)| (rest, Some(seed)));
    (numbered(stem, "-nfe").map_or(stem, |(rest, _)| rest).into(), seed)
}

/// What stands before a mark and a number at the end of a name, and the number.
fn numbered<'n>(name: &'n str, mark: &str) -> Option<(&'n str, u64)> {
    let (rest, digits) = name.rsplit_once(mark)?;
    let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    (!rest.is_empty()).then_some((rest, number))
}

/// Who is clearly best at each budget, in a sentence for each measure.
fn winners(view: &View<'_>, measure: Measure) -> String {
    let of = |column: &&str| {
        let mut found: Vec<_> =
            view.rows().into_iter().filter_map(|r| Some((r, view.get(measure, r, column)?))).collect();
        let more = measure.more_is_better();
        found.sort_by(|a, b| if more { b.1.value.total_cmp(&a.1.value) } else { a.1.value.total_cmp(&b.1.value) });
        let (best, value) = found.first()?;
        let ahead = |other: &Estimate| if more { other.clearly_below(value) } else { value.clearly_below(other) };
        let clear = found[1..].iter().all(|(_, other)| ahead(other));
        // One alone is ahead of nobody.
        let how = match (found.len(), clear) {
            (1, _) => "",
            (_, true) => ", clearly",
            (_, false) => ", though not clearly",
        };
        Some(format!("{column}: {best} ({value}{how})"))
    };
    let said: Vec<String> = view.columns().iter().filter_map(of).collect();
    if said.is_empty() { "every solver diverged".into() } else { said.join("; ") }
}

/// The report of a comparison.
pub fn page(view: &View<'_>, repeat: Repeat) -> Result<Page> {
    let learned = |row: &&str| view.is_learned(row);
    let rows = view.rows();
    let after = rows.iter().copied().find(learned).or(rows.get(1).copied());
    let before = rows.iter().copied().find(|r| r.starts_with("iPNDM")).or(rows.iter().copied().find(|r| !learned(r)));
    let pair = before.zip(after).filter(|(a, b)| a != b).map(|(a, b)| (a.to_string(), b.to_string()));
    let style = Style { pair, ..repeat.style("network calls", false) };
    let mut page = Page::new(format!("{}: solvers compared", view.experiment.subjects[0].name))
        .headline(view.headline().unwrap_or_else(|| format!("{}.", winners(view, Measure::Rmse))))
        .lead("Solvers on the same noise at the same numbers of network calls, each with its error bar.");
    view.before_after(&mut page, &style);
    view.tables(&mut page, &style)?;
    // The headline has said it of the distance.
    let unsaid: Vec<Measure> = view.all_measures().into_iter().filter(|m| *m != Measure::Rmse).collect();
    if !unsaid.is_empty() {
        let section = page.section("Who is best by other measures");
        for measure in unsaid {
            section.text(format!("By {}: {}.", measure.name(), winners(view, measure)));
        }
    }
    view.samples(&mut page);
    for row in rows.into_iter().filter(learned) {
        view.coefficients(&mut page, row)?;
    }
    view.training_records(&mut page)?;
    view.provenance(&mut page, &style);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An option of grids or first steps, whoever takes part: what nobody takes up is refused.
    #[test]
    fn options_that_no_solver_takes_up_are_refused() {
        let grid = |schedule: ScheduleSpec| (schedule, None);
        let top = || grid(ScheduleSpec { sigma_max: Some(10.0), ..Default::default() });
        let rule = || grid(ScheduleSpec { schedule: Some("logsnr".into()), ..Default::default() });
        let rho = || grid(ScheduleSpec { rho: Some(5.0), ..Default::default() });
        let first = || (ScheduleSpec::default(), Some(true));
        let refused = |solvers: &[&str], search, (schedule, afs): (ScheduleSpec, Option<bool>)| {
            let solvers = solvers.iter().map(|s| s.to_string()).collect();
            let (files, budgets) = (vec!["preset:cifar10-nfe3".to_string()], vec![3]);
            let (once, skip_impossible, train) = (false, false, None);
            let field = Field { solvers, search, files, budgets, schedule, afs, once, skip_impossible, train };
            field.refuse_idle().is_err()
        };
        for option in [top(), rule(), rho(), first()] {
            assert!(refused(&[], false, option.clone()), "learned solvers alone: {option:?}");
            assert!(!refused(&[], true, option.clone()) && !refused(&["ipndm"], false, option));
        }
        assert!(refused(&["ipndm@karras"], true, rule()) && !refused(&["ipndm@karras"], true, top()));
        assert!(refused(&["ipndm@karras:5"], true, rho()) && !refused(&["ipndm@karras:5", "euler"], true, rho()));
        assert!(refused(&["ipndm+afs", "euler-afs"], true, first()) && !refused(&["ipndm+afs", "best"], true, first()));
    }

    #[test]
    fn files_of_one_training_are_one_row() {
        let row = row_of;
        assert_eq!(row("out/spiral-nfe3.json"), ("spiral".into(), None));
        assert_eq!(row("preset:cifar10-nfe5"), ("cifar10".into(), None));
        assert_eq!(row("a.json"), ("a".into(), None));
        assert_eq!(row("-nfe3.json"), ("-nfe3".into(), None));
        assert_eq!(row("solvers/newton-nfe3-seed12.json"), ("newton".into(), Some(12)));
        assert_eq!(row("second-seed0.json"), ("second".into(), Some(0)));
        assert_eq!(row("-seed0.json"), ("-seed0".into(), None));
    }
}
