//! Appendix table: coefficients learned on one model, used on another.

use super::setup::{IPNDM, StudySetup};
use super::{Finding, PLAIN, Study, lineup};
use crate::benchmark::{Candidate, Entry, Measure, Subject, Tally, View};
use dyweight_core::error::Result;
use dyweight_models::ModelSpec;
use dyweight_sample::Show;
use dyweight_solvers::spec::ScheduleSpec;
use dyweight_train::{ClassName, TrainSpec};
use std::sync::Arc;

pub const STUDY: Study = Study {
    name: "transfer",
    title: "coefficients across models",
    claim: "The paper (appendix) finds native coefficients the best, and transferred ones still often better than iPNDM.",
    x: ("model", false),
    entries,
    subjects,
    finding,
    ..PLAIN
};

/// The model itself, some of its classes, and built-in models of the same kind of prediction.
fn subjects(setup: &StudySetup) -> Result<Vec<Subject>> {
    let mut subjects = vec![setup.subject()];
    let classes = setup.model.model.classes();
    if classes > 1 {
        for class in [0, classes * 7 / 10] {
            let name = format!("{}, class {class}", setup.model.name);
            subjects.push(Subject { name, show: Show::Class(class), ..setup.subject() });
        }
    }
    for name in ["mixture", "mixture-flow", "fashion"] {
        let other = Arc::new(ModelSpec::named(name).build()?);
        let fits = other.model.prediction() == setup.model.model.prediction();
        if fits && other.sha256 != setup.model.sha256 {
            subjects.push(Subject::new(other));
        }
    }
    Ok(subjects)
}

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let subjects = subjects(setup).unwrap_or_default();
    let nfe = setup.budgets[0];
    let (mut entries, names) = (Vec::new(), subjects.iter().map(|s| s.name.clone()).collect::<Vec<_>>());
    let mut add = |row: String, who: &Candidate| {
        for (subject, name) in names.iter().enumerate() {
            let x = subject as f64;
            entries.push(Entry { column: name.clone(), x, subject, ..Entry::new(&*row, nfe, who.clone()) });
        }
    };
    for (on, subject) in subjects.iter().enumerate() {
        let class = if let Show::Class(class) = subject.show { Some(ClassName::Number(class)) } else { None };
        let train = TrainSpec { class, ..setup.training_of(&subject.model) };
        let (train, schedule) = (Box::new(train), ScheduleSpec::default());
        let who = Candidate::Learned { train, schedule, on, after: None };
        add(format!("learned on {}", subject.name), &who);
    }
    if let Some(ipndm) = lineup(&setup.subject(), nfe).into_iter().find(|e| e.row == IPNDM) {
        add(IPNDM.into(), &ipndm.who);
    }
    entries
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let (mut native, mut transferred) = (Tally::default(), Tally::default());
    for column in view.columns() {
        let own = format!("learned on {column}");
        let (Some(at_home), Some(ipndm)) = (view.judged(measure, &own, column), view.judged(measure, IPNDM, column))
        else {
            continue;
        };
        for row in view.rows().into_iter().filter(|r| *r != own && *r != IPNDM) {
            let Some(away) = view.judged(measure, row, column) else { continue };
            native.add(&at_home, &away);
            transferred.add(&away, &ipndm);
        }
    }
    let sentence = format!(
        "native coefficients against transferred ones are {}; transferred ones against {IPNDM} are {}.",
        native.words(),
        transferred.words()
    );
    // "Often": in more than half of the cases.
    let often = usize::from(2 * transferred.below > transferred.all());
    let cases = if native.all() == 0 { 0 } else { native.all() + 1 };
    Finding::counted(native.all() - native.above + often, cases, sentence)
}
