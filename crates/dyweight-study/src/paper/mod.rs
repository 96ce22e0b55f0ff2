//! The paper's experiments by name, on any model: each a list of entries, a question, and an answer computed from the
//! scores.
//!
//! Section 4 and the appendix of the DyWeight paper (CVPR 2026). The paper measures FID; here every answer is given for
//! the distance to the teacher and, where there is a reference, for the Fréchet distance.

mod ablation_time;
mod beyond;
mod coefficients;
mod convergence;
mod cost;
mod init;
mod lineup;
mod main_table;
mod order;
mod pairs;
mod quickstart;
mod rivals;
mod setup;
mod stability;
mod supervision;
mod teacher;
mod transfer;

pub(crate) use lineup::{FAMILIES, lineup};
pub use quickstart::QUICKSTART;
pub use setup::{RivalSetup, StudySetup};

use super::benchmark::{Entry, Measure, Repeat, Style, Subject, View};
use dyweight_core::error::{Error, Result};
use dyweight_report::html::{Page, Verdict};

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Whether the paper's claim holds here.
    pub verdict: Verdict,
    /// The numbers behind it, in a sentence.
    pub sentence: String,
}

impl Finding {
    fn new(verdict: Verdict, sentence: String) -> Self {
        Self { verdict, sentence }
    }

    /// Holds if `yes` in all cases, fails if in none.
    fn counted(yes: usize, all: usize, sentence: String) -> Self {
        let verdict = match yes {
            _ if all == 0 => Verdict::Open,
            y if y == all => Verdict::Holds,
            0 => Verdict::Fails,
            _ => Verdict::Mixed,
        };
        Self::new(verdict, sentence)
    }
}

/// A named experiment.
pub struct Study {
    /// Its name on the command line.
    pub name: &'static str,
    /// Heading of its report.
    pub title: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// What the horizontal axis of its charts is, and whether it is logarithmic.
    pub x: (&'static str, bool),
    /// True if it asks who is best, so that what was gained is its result.
    pub asks_who_is_best: bool,
    /// Budgets it is for; those of the setup if none.
    pub budgets: &'static [usize],
    /// True if both embedded feature networks judge: what is claimed of a distribution needs more than one.
    pub by_both_networks: bool,
    /// Rows set against each other in pictures.
    pub pair: Option<(&'static str, &'static str)>,
    entries: fn(&StudySetup) -> Vec<Entry>,
    subjects: fn(&StudySetup) -> Result<Vec<Subject>>,
    finding: fn(&View<'_>, Measure) -> Finding,
    extra: fn(&View<'_>, &mut Page) -> Result<()>,
}

/// All of them.
pub(crate) const STUDIES: &[&Study] = &[
    &main_table::STUDY,
    &rivals::STUDY,
    &beyond::STUDY,
    &ablation_time::STUDY,
    &order::STUDY,
    &teacher::STUDY,
    &init::STUDY,
    &pairs::STUDY,
    &cost::STUDY,
    &supervision::STUDY,
    &transfer::STUDY,
    &convergence::STUDY,
    &stability::STUDY,
    &coefficients::STUDY,
];

/// What most studies are like.
const PLAIN: Study = Study {
    name: "",
    title: "",
    claim: "",
    x: ("network calls", false),
    asks_who_is_best: false,
    budgets: &[],
    by_both_networks: false,
    pair: None,
    entries: |_| Vec::new(),
    subjects: |setup| Ok(vec![setup.subject()]),
    finding: |_, _| Finding { verdict: Verdict::Open, sentence: String::new() },
    extra: |_, _| Ok(()),
};

/// The study of that name.
pub fn named(name: &str) -> Result<&'static Study> {
    let known = || STUDIES.iter().map(|s| s.name).chain(["numeric"]);
    STUDIES.iter().copied().find(|s| s.name == name).ok_or_else(|| Error::unknown_name("study", name, known()))
}

impl Study {
    /// The experiment on a model.
    pub fn experiment(&self, setup: &StudySetup) -> Result<super::benchmark::Experiment> {
        let (subjects, entries) = ((self.subjects)(setup)?, (self.entries)(setup));
        let judging = setup.judging()?;
        let judging = if self.by_both_networks { judging.by_both_networks()? } else { judging };
        let experiment = super::benchmark::Experiment::new(self.name, subjects, entries, judging)?;
        Ok(if setup.train_seeds.is_empty() { experiment } else { experiment.with_train_seeds(&setup.train_seeds) })
    }

    /// The answers, each with the measure it is by, where it is by one.
    pub fn findings(&self, view: &View<'_>) -> Vec<(String, Finding)> {
        let mut found: Vec<(String, Finding)> = Vec::new();
        for measure in view.measures() {
            let finding = (self.finding)(view, measure);
            match found.iter_mut().find(|(_, known)| *known == finding) {
                // The same sentence for both measures is by neither.
                Some((by, _)) => by.clear(),
                None => found.push((format!("By {}: ", measure.name()), finding)),
            }
        }
        found
    }

    /// The result in one sentence: what was gained, or what became of the claim.
    fn headline(&self, view: &View<'_>) -> String {
        let gained = if self.asks_who_is_best { view.headline() } else { None };
        gained.unwrap_or_else(|| {
            let finding = (self.finding)(view, Measure::Rmse);
            let sentence = finding.sentence.trim_end_matches('.').to_string();
            let mut letters = sentence.chars();
            letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect::<String>() + ".")
        })
    }

    /// The report.
    pub fn page(&self, view: &View<'_>, repeat: Repeat) -> Result<Page> {
        let pair = self.pair.map(|(a, b)| (a.into(), b.into()));
        let style = Style { pair, ..repeat.style(self.x.0, self.x.1) };
        let title = format!("{}: {}", view.experiment.subjects[0].name, self.title);
        let mut page = Page::new(title).headline(self.headline(view)).lead(self.claim);
        view.before_after(&mut page, &style);
        let answer = page.section("Does it hold here?");
        for (by, finding) in self.findings(view) {
            answer.verdict(finding.verdict, format!("{by}{}", finding.sentence));
        }
        view.tables(&mut page, &style)?;
        (self.extra)(view, &mut page)?;
        view.samples(&mut page);
        view.training_records(&mut page)?;
        view.provenance(&mut page, &style);
        Ok(page)
    }
}
