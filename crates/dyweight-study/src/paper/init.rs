//! Appendix table: what training starts from, weights and time grid.

use super::setup::StudySetup;
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Candidate, Entry, Measure, View};
use dyweight_solvers::spec::ScheduleSpec;

const AB: &str = "Adams-Bashforth, EDM grid";
const EULER: &str = "Euler weights";
const UNIFORM: &str = "uniform weights";
const LOG_SNR: &str = "logSNR grid";
const TIME_UNIFORM: &str = "time-uniform grid";

pub const STUDY: Study = Study {
    name: "init",
    title: "the start: weights and grid",
    claim: "The paper (appendix) finds Adams-Bashforth weights the best start, the EDM and logSNR grids about equal, and the time-uniform grid worse.",
    pair: Some((UNIFORM, AB)),
    entries,
    finding,
    ..PLAIN
};

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let start = |name: &str| setup.learned(|t| t.init = Some(name.into()));
    let mut rows = vec![
        setup.row(AB, &setup.learned(|_| ())),
        setup.row(EULER, &start("euler")),
        setup.row(UNIFORM, &start("uniform")),
    ];
    if setup.has_afs() {
        for (row, name) in [(LOG_SNR, "logsnr"), (TIME_UNIFORM, "time-uniform")] {
            let Candidate::Learned { train, on, after, .. } = setup.learned(|_| ()) else { continue };
            let schedule = ScheduleSpec { schedule: Some(name.into()), ..ScheduleSpec::default() };
            rows.push(setup.row(row, &Candidate::Learned { train, schedule, on, after }));
        }
    }
    rows.push(setup.ipndm());
    rows.concat()
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let worse = [EULER, UNIFORM, TIME_UNIFORM].map(|row| (row, view.tally(measure, AB, row)));
    let level = view.tally(measure, AB, LOG_SNR);
    let yes = worse.iter().map(|(_, t)| t.below).sum::<usize>() + level.level;
    let all = worse.iter().map(|(_, t)| t.all()).sum::<usize>() + level.all();
    let words: Vec<String> =
        worse.iter().chain([&(LOG_SNR, level)]).map(|(row, t)| format!("against '{row}' {}", t.words())).collect();
    Finding::counted(yes, all, format!("'{AB}' is {}.", words.join("; ")))
}
