//! Appendix table: judged at the end, or at every step.

use super::setup::{IPNDM, StudySetup};
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Entry, Measure, View};

const ENDPOINT: &str = "endpoint";
const PATH: &str = "path";

pub const STUDY: Study = Study {
    name: "supervision",
    title: "supervision of the endpoint or of the path",
    claim: "The paper (appendix) finds endpoint supervision clearly better than path supervision, and both better than iPNDM.",
    pair: Some((PATH, ENDPOINT)),
    entries,
    finding,
    ..PLAIN
};

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let path = setup.learned(|t| {
        // Under path supervision the teacher's steps follow from the student's.
        (t.supervision, t.teacher_nfe, t.teacher_steps) = (Some("path".into()), None, None);
    });
    [setup.row(ENDPOINT, &setup.learned(|_| ())), setup.row(PATH, &path), setup.ipndm()].concat()
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let (first, second) = (view.tally(measure, ENDPOINT, PATH), view.tally(measure, PATH, IPNDM));
    let sentence = format!("endpoint against path is {}; path against {IPNDM} is {}.", first.words(), second.words());
    Finding::counted(first.below + second.below, first.all() + second.all(), sentence)
}
