//! Past the paper: what a wider span (`--span`) and second-order descent (`--optimiser newton`) are worth, without a
//! further call.
//!
//! DyWeight as the paper trains it, DyWeight by second-order descent, and by that every switch alone and in
//! combinations; on the same pairs for as long: an iteration of second order sweeps twice, so there are half as many.
//!
//! ```text
//! difference = mean over trainings j of (row_j − base_j),   both of the same pairs and judged on the same noise
//! ```

use super::setup::{FULL, StudySetup};
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Candidate, Entry, Measure, View};
use dyweight_core::denoiser::Model;
use dyweight_core::error::Result;
use dyweight_metrics::Estimate;
use dyweight_report::change;
use dyweight_report::html::{Cell, Column, Page, Table, Verdict};
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use dyweight_train::{Loss, Optimiser, SpanSpec, TrainSpec};

pub const STUDY: Study = Study {
    name: "beyond",
    title: "a wider span and second-order training without a further call",
    claim: "SpanLift (arXiv 2606.08672) reports FID 5.69 instead of 8.16 at 3 calls on CIFAR-10 by adding a small spatial operator on state and slopes to DyWeight.",
    budgets: &[2, 3, 5, 7, 9],
    by_both_networks: true,
    pair: Some((FULL, RECOMMENDED)),
    entries,
    finding,
    extra,
    ..PLAIN
};

/// The combination that is asked about first.
const RECOMMENDED: &str = "bands,operator:3,embedding";
/// The same for models without an embedding that can be shifted.
const NARROWER: &str = "bands,operator:3";
/// Plain DyWeight by second-order descent.
const SECOND: &str = "newton";
/// All past slopes: a window as long as any run.
const ALL_SLOPES: &str = "all slopes";
/// The switches alone, then together.
const SPANS: [&str; 13] = [
    "state",
    "bands",
    "operator:3",
    "operator:5",
    "operator:3:mixed",
    "operator:5:mixed",
    "sample",
    "embedding",
    NARROWER,
    "bands,operator:5",
    "state,bands,operator:3",
    "state,bands,operator:3,sample",
    RECOMMENDED,
];

/// The spans that are asked for, with their row.
fn spans(setup: &StudySetup) -> Vec<(String, SpanSpec)> {
    let all = SPANS.iter().filter_map(|text| text.parse::<SpanSpec>().ok());
    // Channels that are one cannot be mixed.
    let several = setup.model.model.shape()[0] > 1;
    let sensible = |span: &SpanSpec| several || !span.operator.is_some_and(|operator| operator.mixed);
    let spans: Vec<SpanSpec> = match setup.spans.is_empty() {
        true => all.filter(sensible).collect(),
        false => setup.spans.clone(),
    };
    spans.into_iter().map(|span| (span.to_string(), span)).collect()
}

/// Why a span does not go with a model, or with a rule of descent at a budget.
fn refusal(model: &dyn Model, span: &SpanSpec, optimiser: Optimiser, nfe: usize) -> Option<String> {
    let mut train = TrainSpec { optimiser: Some(optimiser), ..TrainSpec::default() };
    train.dyweight.span = Some(span.clone());
    dyweight_train::plan::plan(&train, model, &ScheduleSpec::default(), Budget::Nfe(nfe), Loss::L2)
        .err()
        .map(|error| error.to_string())
}

/// Which spans are not in the table because they do not go with the model, and why.
fn left_out(view: &View<'_>) -> String {
    let model = &*view.experiment.subjects[0].model.model;
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for text in SPANS {
        let Some(reason) = text.parse().ok().and_then(|span| refusal(model, &span, Optimiser::Adam, 3)) else {
            continue;
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, spans)) => spans.push(text),
            None => reasons.push((reason, vec![text])),
        }
    }
    reasons.iter().map(|(why, spans)| format!(" Left out: {}, because {why}.", spans.join("; "))).collect()
}

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let mut rows = setup.row(FULL, &setup.learned(|_| ()));
    // A rule that was asked for is everybody's.
    let second = setup.train.optimiser.is_none();
    let by_second = |train: &mut TrainSpec| {
        if train.optimiser.is_none() {
            // A rate that was asked for is Adam's.
            (train.optimiser, train.lr) = (Some(Optimiser::Newton), None);
            train.iters = Some(setup.iterations().div_ceil(2));
        }
    };
    if second {
        rows.extend(setup.row(SECOND, &setup.learned(by_second)));
    }
    if setup.spans.is_empty() {
        let all_slopes = |train: &mut TrainSpec| {
            by_second(train);
            train.order = Some(64);
        };
        rows.extend(setup.row(ALL_SLOPES, &setup.learned(all_slopes)));
    }
    let model = &*setup.model.model;
    for (name, span) in spans(setup).into_iter().filter(|(_, span)| refusal(model, span, Optimiser::Adam, 3).is_none())
    {
        // What has too many numbers for second-order descent is trained without it, and says so.
        let fits = |nfe: &usize| refusal(model, &span, Optimiser::Newton, *nfe).is_none();
        let (by, name) = match !second || setup.budgets.iter().all(fits) {
            true => (None, name),
            false => (Some(Optimiser::Adam), format!("{name} (adam)")),
        };
        let with_span = |train: &mut TrainSpec| {
            train.optimiser = by.or(train.optimiser);
            by_second(train);
            train.dyweight.span = Some(span.clone());
        };
        rows.extend(setup.row(&name, &setup.learned(with_span)));
    }
    rows.into_iter().chain(setup.ipndm()).collect()
}

/// A row against another at a budget: the difference, training by training, and what it is of.
struct Gain {
    difference: Estimate,
    base: f64,
}

/// How much of a sentence a gain is.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Better,
    Level,
    Worse,
}

impl Gain {
    fn of(
        view: &View<'_>,
        measure: impl Fn(&Entry) -> Option<Estimate>,
        (row, base): (&str, &str),
        column: &str,
    ) -> Option<Self> {
        let others = view.entries(base, column);
        let (mut differences, mut values) = (Vec::new(), Vec::new());
        for entry in view.entries(row, column) {
            let other = others.iter().find(|other| other.train_seed() == entry.train_seed())?;
            let other = measure(other)?;
            differences.push(measure(entry)?.minus(&other));
            values.push(other.value);
        }
        let base = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { difference: Estimate::over_trainings(differences)?, base })
    }

    fn percent(&self) -> f64 {
        100.0 * self.difference.value / self.base
    }

    fn outcome(&self) -> Outcome {
        match self.difference.clear_sign() {
            Some(true) => Outcome::Worse,
            Some(false) => Outcome::Better,
            None => Outcome::Level,
        }
    }

    /// `-12 ± 3 %`, with both errors in one.
    fn shown(&self) -> String {
        let error = 100.0 * self.difference.total_error() / self.base;
        format!("{} ± {error:.1}", change(self.percent(), 1))
    }
}

/// A measure of an entry as the tables have it, or squared.
fn of_entry(view: &View<'_>, measure: Measure, squared: bool) -> impl Fn(&Entry) -> Option<Estimate> {
    move |entry| {
        let found = measure.of(view.results.score(view.experiment, entry)?)?;
        Some(if squared { found.squared() } else { found })
    }
}

/// Rows that were learned otherwise than the paper's, in their order.
fn wider<'v>(view: &View<'v>) -> Vec<&'v str> {
    let has_span = |row: &&str| {
        let learned = |entry: &Entry| matches!(&entry.who, Candidate::Learned { .. });
        *row != FULL && view.experiment.entries.iter().any(|entry| entry.row == *row && learned(entry))
    };
    view.rows().into_iter().filter(has_span).collect()
}

/// What a row does at each budget, in words.
fn words(view: &View<'_>, measure: &dyn Fn(&Entry) -> Option<Estimate>, row: &str) -> Option<String> {
    let gains: Vec<(&str, Gain)> = view
        .columns()
        .into_iter()
        .filter_map(|column| Some((column, Gain::of(view, measure, (row, FULL), column)?)))
        .collect();
    let list = |outcome: Outcome, what: &str, after: &str| {
        let of = gains.iter().filter(|(_, gain)| gain.outcome() == outcome);
        let said = |(column, gain): &(&str, Gain)| match outcome {
            Outcome::Level => format!("{} % at {column}", change(gain.percent(), 0)),
            _ => format!("{:.0} % {what} {FULL} at {column}", gain.percent().abs()),
        };
        let said: Vec<String> = of.map(said).collect();
        (!said.is_empty()).then(|| format!("{}{after}", said.join(", ")))
    };
    let parts = [
        list(Outcome::Better, "below", ", beyond errors"),
        list(Outcome::Worse, "above", ", beyond errors"),
        list(Outcome::Level, "", ", within errors"),
    ];
    (!gains.is_empty()).then(|| format!("{row}: {}", parts.into_iter().flatten().collect::<Vec<_>>().join("; ")))
}

/// The combination first, or the only span there is; then who is best at each budget.
fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let (rows, found) = (wider(view), of_entry(view, measure, false));
    let first = [RECOMMENDED, NARROWER].into_iter().find(|row| rows.contains(row));
    let Some(asked) = first.or(rows.last().copied()) else {
        return Finding::new(Verdict::Open, "no span goes with this model".into());
    };
    let gains: Vec<Gain> =
        view.columns().into_iter().filter_map(|column| Gain::of(view, &found, (asked, FULL), column)).collect();
    let clearly = gains.iter().filter(|gain| gain.outcome() == Outcome::Better).count();
    let best: Vec<String> = view.columns().into_iter().filter_map(|column| best(view, measure, column)).collect();
    let sentence = format!("with {}; {}", words(view, &found, asked).unwrap_or_default(), best.join("; "));
    Finding::counted(clearly, gains.len(), format!("{}.", sentence.trim_end_matches([';', ' '])))
}

/// Who is lowest at a budget.
fn best(view: &View<'_>, measure: Measure, column: &str) -> Option<String> {
    let rows = wider(view).into_iter().chain([FULL]);
    let found = rows.filter_map(|row| Some((row, view.judged(measure, row, column)?)));
    let (row, value) = found.min_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    Some(format!("lowest at {column}: {row} ({value})"))
}

fn extra(view: &View<'_>, page: &mut Page) -> Result<()> {
    if wider(view).contains(&SECOND) {
        against(view, page, FULL, "Against DyWeight as the paper trains it");
        against(view, page, SECOND, "Against DyWeight by second-order descent");
    } else {
        against(view, page, FULL, "Against plain DyWeight");
    }
    cost(view, page);
    view.coefficients(page, FULL)
}

/// Every row against one, by every measure.
fn against(view: &View<'_>, page: &mut Page, base: &str, heading: &str) {
    let section = page.section(heading);
    section.text(
        "Differences in per cent, each of trainings on the same pairs judged on the same noise, with one standard error over samples and trainings. Clear ones are beyond two, widened for few trainings.",
    );
    let measures: Vec<(&str, Measure, bool)> = view
        .measures()
        .into_iter()
        .flat_map(|measure| match measure {
            Measure::Rmse => vec![(measure.name(), measure, false), ("mean squared distance", measure, true)],
            _ => vec![(measure.name(), measure, false)],
        })
        .collect();
    for (name, measure, squared) in &measures {
        let found = of_entry(view, *measure, *squared);
        let columns = view.columns().into_iter().map(Column::number);
        let mut table = Table::new(
            format!("Difference of the {name} to that of {base}, in per cent."),
            std::iter::once(Column::text("row")).chain(columns),
        );
        for row in wider(view).into_iter().filter(|row| *row != base) {
            let cell = |column: &str| match Gain::of(view, &found, (row, base), column) {
                Some(gain) => Cell::shown(gain.percent(), gain.shown()),
                None => Cell::Empty,
            };
            table.row(std::iter::once(row.into()).chain(view.columns().into_iter().map(cell)));
        }
        section.table(table);
        if base == FULL {
            let sentences: Vec<String> = wider(view).into_iter().filter_map(|row| words(view, &found, row)).collect();
            section.text(format!("By {name}. {}.", sentences.join(". ")));
        }
    }
}

/// Numbers to learn, time and size of every row.
fn cost(view: &View<'_>, page: &mut Page) {
    let columns =
        ["calls", "numbers", "bytes of the file", "ms per step and sample", "training, seconds"].map(Column::number);
    let mut table = Table::new("What each span costs.", std::iter::once(Column::text("span")).chain(columns));
    for column in view.columns() {
        for row in wider(view).into_iter().chain([FULL]) {
            let (Some(entry), Some(training_record)) = (view.entry(row, column), view.training_record(row, column))
            else {
                continue;
            };
            let time = view.results.seconds.get(&view.experiment.key(entry));
            let key = view.experiment.record_key(entry).unwrap_or_default();
            let training = view.results.seconds.get(&format!("training-{key}"));
            table.row([
                row.into(),
                entry.nfe.into(),
                training_record.file.body.learned().params().len().into(),
                training_record.file.to_bytes().len().into(),
                time.map_or(Cell::Empty, |s| Cell::number(1e3 * s / training_record.file.steps as f64, 3)),
                training.map_or(Cell::Empty, |s| Cell::number(*s, 0)),
            ]);
        }
    }
    let section = page.section("What it costs");
    section.text(format!(
        "Numbers are those that training moves; the time is that of network and solver together, as it was measured while the study ran.{}",
        left_out(view)
    ));
    section.table(table);
}
