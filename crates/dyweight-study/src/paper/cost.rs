//! What learning costs: distance against pairs, and against all network calls of a training, by rule of descent.

use super::setup::StudySetup;
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Candidate, Entry, Measure, View};
use crate::training_loss;
use dyweight_core::error::Result;
use dyweight_report::html::{Chart, Page};
use dyweight_report::{Axis, Figure, LineChart, Series};
use dyweight_solvers::spec::Budget;
use dyweight_solvers::spec::handcrafted::Fixed;
use dyweight_train::{Optimiser, TrainConfig, TrainRecipe, TrainSpec};

pub const STUDY: Study = Study {
    name: "cost",
    title: "what learning costs",
    claim: "A few-step solver has some twenty parameters. How many pairs, and how many network calls, does it take to learn them? Not a question of the \
            paper, which takes 10 000 pairs.",
    x: ("training pairs", true),
    budgets: &[3, 5, 8],
    entries,
    finding,
    extra,
    ..PLAIN
};

/// Pairs that are trained on.
const PAIRS: [usize; 7] = [4, 8, 16, 32, 64, 128, 640];
/// Iterations of second-order descent, and of Adam, on however many pairs.
const NEWTON: usize = 40;
const ADAM: usize = 200;
/// Pairs of one of their iterations.
const BATCH: usize = 16;

/// The row of the handcrafted level.
fn level(nfe: usize) -> String {
    format!("best handcrafted, {nfe} calls")
}

fn name(rule: Optimiser, nfe: usize) -> String {
    let rule = match rule {
        Optimiser::GaussNewton => "gauss-newton",
        Optimiser::Newton => "newton",
        _ => "adam",
    };
    format!("{rule}, {nfe} calls")
}

const RULES: [Optimiser; 3] = [Optimiser::GaussNewton, Optimiser::Newton, Optimiser::Adam];

/// The rules and numbers of pairs, unless one is asked for.
fn asked(setup: &StudySetup) -> (Vec<Optimiser>, Vec<usize>) {
    let rules = setup.train.optimiser.map_or(RULES.to_vec(), |rule| vec![rule]);
    (rules, setup.train.pairs.map_or(PAIRS.to_vec(), |pairs| vec![pairs]))
}

/// A training on so many pairs, all from the same start.
fn spec(setup: &StudySetup, rule: Optimiser, pairs: usize) -> TrainSpec {
    let own = &setup.train;
    let common = TrainSpec {
        recipe: Some(TrainRecipe::Paper),
        optimiser: Some(rule),
        pairs: Some(pairs),
        memory: own.memory,
        teacher_nfe: own.teacher_nfe,
        class: own.class.clone(),
        prompts: own.prompts.clone(),
        negative: own.negative.clone(),
        guidance: own.guidance,
        seed: own.seed,
        validation: own.validation.or(Some(32)),
        ..TrainSpec::default()
    };
    let descent = |iterations: usize| TrainSpec {
        iters: Some(iterations),
        batch: Some(pairs.min(BATCH)),
        validate_every: Some(4),
        ..common.clone()
    };
    match rule {
        Optimiser::GaussNewton => common,
        Optimiser::Newton => descent(NEWTON),
        _ => descent(ADAM),
    }
}

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let column = |entry: Entry, pairs: usize| Entry { column: format!("{pairs} pairs"), x: pairs as f64, ..entry };
    let (mut all, (rules, many)) = (Vec::new(), asked(setup));
    for nfe in &setup.budgets {
        for rule in &rules {
            for pairs in many.iter().copied() {
                let (rule, own) = (*rule, spec(setup, *rule, pairs));
                let who = setup.learned(|train| *train = own);
                all.push(column(Entry::new(name(rule, *nfe), *nfe, who), pairs));
            }
        }
        // A level has two ends.
        let mut ends = vec![many[0], many[many.len() - 1]];
        ends.dedup();
        for pairs in ends {
            let who = Candidate::Open { fixed: Fixed::default() };
            all.push(column(Entry::new(level(*nfe), *nfe, who), pairs));
        }
    }
    all
}

/// The fewest pairs with which a rule is within a tenth of its best, budget by budget.
fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let budgets: Vec<usize> = budgets(view);
    let columns = view.columns();
    let enough = |rule: Optimiser, nfe: usize| {
        let row = name(rule, nfe);
        let values: Vec<(f64, f64)> =
            columns.iter().filter_map(|c| Some((view.entry(&row, c)?.x, view.get(measure, &row, c)?.value))).collect();
        let best = values.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
        let level = columns.iter().find_map(|c| view.get(measure, &level(nfe), c)).map_or(f64::INFINITY, |e| e.value);
        let (pairs, value) = values.into_iter().find(|(_, value)| *value <= 1.1 * best)?;
        Some((pairs, value, best, level))
    };
    let found: Vec<(usize, (f64, f64, f64, f64))> =
        budgets.iter().filter_map(|nfe| Some((*nfe, enough(Optimiser::GaussNewton, *nfe)?))).collect();
    let words = found.iter().map(|(nfe, (pairs, value, best, level))| {
        format!("{nfe} calls: {pairs} pairs end at {value:.4} (best {best:.4}, handcrafted {level:.4})")
    });
    let words: Vec<String> = words.collect();
    let yes = found.iter().filter(|(_, (pairs, value, _, level))| *pairs <= 64.0 && value < level).count();
    Finding::counted(yes, found.len(), format!("gauss-newton is within a tenth of its best with {}.", words.join("; ")))
}

fn budgets(view: &View<'_>) -> Vec<usize> {
    let mut budgets: Vec<usize> = view.experiment.entries.iter().map(|entry| entry.nfe).collect();
    budgets.sort_unstable();
    budgets.dedup();
    budgets
}

/// Network calls of a training, teacher and validation included; one with its gradient counts as what it takes.
fn calls(view: &View<'_>, entry: &Entry) -> Result<Option<f64>> {
    let Candidate::Learned { train, schedule, on, .. } = &entry.who else { return Ok(None) };
    let model = &view.experiment.subjects[*on].model;
    let loss = training_loss(train, &model.model)?;
    let config = TrainConfig {
        schedule: schedule.clone(),
        ..TrainConfig::new(model.model.clone(), model.identity(), Budget::Nfe(entry.nfe), (**train).clone(), loss)
    };
    Ok(Some(config.prepare()?.work()?.in_calls()))
}

fn extra(view: &View<'_>, page: &mut Page) -> Result<()> {
    let section = page.section("Distance against all network calls");
    for nfe in budgets(view) {
        let mut series = Vec::new();
        for (k, rule) in RULES.into_iter().enumerate() {
            let (row, mut points) = (name(rule, nfe), Vec::new());
            for column in view.columns() {
                let (Some(entry), Some(found)) = (view.entry(&row, column), view.get(Measure::Rmse, &row, column))
                else {
                    continue;
                };
                points.extend(calls(view, entry)?.map(|calls| (calls, found.value)));
            }
            series.extend((!points.is_empty()).then(|| Series::new(row, k, points)));
        }
        let (x, y) = (Axis::log("network calls of the training"), Axis::log("distance to the teacher"));
        let chart = LineChart { series, ..LineChart::new(format!("{nfe} calls"), x, y) };
        let caption = format!("A solver of {nfe} calls: what a training spends, and how close it ends.");
        section.chart(Chart::new(caption, &Figure::single(chart, 620.0, 340.0))?);
    }
    Ok(())
}
