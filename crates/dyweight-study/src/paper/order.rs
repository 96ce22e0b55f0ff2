//! Figure 7c: how many past slopes a step may weigh.

use super::setup::StudySetup;
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Entry, Measure, View};

pub const STUDY: Study = Study {
    name: "order",
    title: "the window of past slopes",
    claim: "The paper (Fig. 7c) finds that results improve from a window of K = 1 to K = 3, and that all available slopes (K = N) are no better than 3.",
    pair: Some(("K = 1", "K = 3")),
    entries,
    finding,
    ..PLAIN
};

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let window = |k: usize| setup.row(&format!("K = {k}"), &setup.learned(|t| t.order = Some(k)));
    // Rows hold no more weights than there are slopes, so a window of all of them is any large one.
    let all = setup.row("K = N", &setup.learned(|t| t.order = Some(64)));
    [window(1), window(2), window(3), window(4), all, setup.ipndm()].concat()
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let (short, long) = (view.tally(measure, "K = 3", "K = 1"), view.tally(measure, "K = 3", "K = N"));
    let sentence = format!("K = 3 against K = 1 is {}; against K = N {}.", short.words(), long.words());
    Finding::counted(short.below + long.all() - long.above, short.all() + long.all(), sentence)
}
